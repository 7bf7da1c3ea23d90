//! Turns a request that is safe to repeat into its answer, read, with the caller waiting or going on in the background.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use redis::Value;
use tokio::sync::oneshot;

use crate::{
    client::Shared,
    error::{ErrorKind, LockError},
    names::Names,
    release::ANSWERS,
    servers::{ask_again, not_an_answer},
    topology::{NodeError, Request, Route},
};

/// For how long something that must be done is tried in the background; well within the time in which a server knows a
/// repetition.
const LONGEST: Duration = Duration::from_secs(30);

/// Whom to ask about what.
#[derive(Debug)]
pub(crate) struct Subject<'a> {
    pub(crate) client: &'a Arc<Shared>,
    pub(crate) route: &'a Arc<dyn Route>,
    pub(crate) names: &'a Names,
}

impl Subject<'_> {
    /// Asks, and again after a lost answer, for four times the response timeout at most. Dropping the future leaves open
    /// whether it is done.
    pub(crate) async fn ask<T>(
        &self,
        action: &'static str,
        request: &Request,
        read: impl Fn(&Value) -> Option<T>,
    ) -> Result<T, LockError> {
        let until = Instant::now() + self.patience();
        let asked = ask(&**self.route, self.client, request, until, read).await;
        asked.map_err(|error| LockError::asked(action, &self.names.key, error))
    }

    /// As `ask`, for what must be done once it was asked for: it goes on in the background when nobody waits any more.
    pub(crate) async fn ask_surely<T: Send + 'static>(
        &self,
        action: &'static str,
        request: Request,
        read: fn(&Value) -> Option<T>,
    ) -> Result<T, LockError> {
        let (tell, told) = oneshot::channel();
        let (client, route) = (Arc::clone(self.client), Arc::clone(self.route));
        self.client.background.spawn(async move {
            let until = Instant::now() + LONGEST.max(client.options.response_timeout * ANSWERS);
            // Whoever asked may have gone.
            let _ = tell.send(ask(&*route, &client, &request, until, read).await);
        });
        let name = &self.names.key;
        match tokio::time::timeout(self.patience(), told).await {
            Ok(Ok(asked)) => asked.map_err(|error| LockError::asked(action, name, error)),
            _ => {
                let why = "no answer yet; it is asked for in the background";
                Err(LockError::local(ErrorKind::Unknown, action, name, why))
            }
        }
    }

    fn patience(&self) -> Duration {
        self.client.options.response_timeout * ANSWERS
    }
}

async fn ask<T>(
    route: &dyn Route,
    client: &Shared,
    request: &Request,
    until: Instant,
    read: impl Fn(&Value) -> Option<T>,
) -> Result<T, NodeError> {
    let one_answer = client.options.response_timeout;
    let asked = ask_again(route, request, one_answer, until).await?;
    read(&asked.sent.value).ok_or_else(|| not_an_answer(&asked.sent))
}

/// A whole number; nothing there counts as 0.
pub(crate) fn number(value: &Value) -> Option<i64> {
    match value {
        Value::Nil => Some(0),
        Value::Int(number) => Some(*number),
        Value::BulkString(text) => std::str::from_utf8(text).ok()?.parse().ok(),
        _ => None,
    }
}

/// 1 or 0.
pub(crate) fn yes(value: &Value) -> Option<bool> {
    match value {
        Value::Int(1) => Some(true),
        Value::Int(0) => Some(false),
        _ => None,
    }
}
