//! Requests that are safe to repeat, asked until answered: with the caller waiting or in the background.

use std::{sync::Arc, time::Duration};

use redis::Value;
use tokio::sync::oneshot;

use crate::bounds::ANSWERS;
use crate::client::client_core::ClientCore;
use crate::clock::{Instant, timeout_at};
use crate::error::{ErrorKind, LockError, refuse_outside_of_tokio};
use crate::kind::RecordedRequest;
use crate::locks::lock_inner::LockInner;
use crate::names::Names;
use crate::servers::{ask_again, not_an_answer};
use crate::topology::{NodeError, Request, RequestPurpose, ServerReply, WRONG_TYPE, slot};

/// For how long something that must be done is tried in the background: well within the time in which a
/// server knows a repetition, since later it could be done twice.
const LONGEST: Duration = Duration::from_secs(1_800);

/// After so long without a request the record of an answered one is deleted by a command of its own.
const QUIET: Duration = Duration::from_millis(20);

/// Leaves the record of a request that was answered and never sent twice to the next request, or to a timer.
pub(crate) fn finished(client: &Arc<ClientCore>, record: Vec<u8>) {
    let route = client.route();
    let slot = if route.is_sharded() { slot(&record) } else { 0 };
    let owner = route.owner(&Request::new("UNLINK").key(&record));
    if owner.is_some_and(|node| node.finished.add(slot, record)) {
        let owner = Arc::downgrade(client);
        client.background.spawn_uncounted(async move {
            tokio::time::sleep(QUIET).await;
            if let Some(client) = owner.upgrade() {
                forget_finished(&client);
            }
        });
    }
}

/// Deletes the records of finished requests in the background; else they end by themselves.
pub(crate) fn forget_finished(client: &Arc<ClientCore>) {
    let masters = client.route().masters();
    for request in masters.iter().flat_map(|node| node.finished.timed_deletions()) {
        let (of, client) = (Arc::clone(client), Arc::clone(client));
        of.background.spawn(async move {
            let deadline = Instant::now() + client.options.response_timeout;
            let _ = client.route().send(&request, deadline).await;
        });
    }
}

fn note<T>(client: &Arc<ClientCore>, asked: &Result<Answer<T>, NodeError>, record: Option<Vec<u8>>) {
    if let (Ok((_, false)), Some(record)) = (asked, record) {
        finished(client, record);
    }
}

impl LockInner {
    /// For questions to one server set.
    pub(crate) fn subject(&self) -> Subject<'_> {
        Subject { client: &self.client, names: &self.names }
    }
}

pub(crate) struct Subject<'a> {
    pub(crate) client: &'a Arc<ClientCore>,
    pub(crate) names: &'a Names,
}

impl Subject<'_> {
    /// Asks until answered, for four response timeouts at most. A dropped future leaves open whether it is
    /// done.
    pub(crate) async fn ask<T>(
        &self,
        action: &'static str,
        once: impl Into<RecordedRequest>,
        read: impl Fn(&Value) -> Option<T>,
    ) -> Result<T, LockError> {
        refuse_outside_of_tokio(action, &self.names.key)?;
        let RecordedRequest { request, record } = once.into();
        let asked = ask(self.client, &request, (self.until(), RequestPurpose::Answer), read).await;
        note(self.client, &asked, record);
        self.said(action, asked)
    }

    /// As `ask`, for a question that changes nothing.
    pub(crate) async fn look<T>(
        &self,
        request: Request,
        read: impl Fn(&Value) -> Option<T>,
    ) -> Result<T, LockError> {
        const ACTION: &str = "look at";
        refuse_outside_of_tokio(ACTION, &self.names.key)?;
        let asked = ask(self.client, &request, (self.until(), RequestPurpose::Answer), read).await;
        Ok(asked.map_err(|error| LockError::from_read(ACTION, &self.names.key, error))?.0)
    }

    /// As `ask`, for what must be done once asked for: it goes on in the background when nobody waits.
    pub(crate) async fn ask_surely<T: Send + 'static>(
        &self,
        action: &'static str,
        once: RecordedRequest,
        read: fn(&Value) -> Option<T>,
    ) -> Result<T, LockError> {
        refuse_outside_of_tokio(action, &self.names.key)?;
        match timeout_at(self.until(), self.begin(once, read)).await {
            Ok(Ok(asked)) => self.said(action, asked),
            _ => {
                let name = &self.names.key;
                let why = "no answer yet; it is asked for in the background";
                Err(LockError::local(ErrorKind::Unknown, action, name, why))
            }
        }
    }

    /// Asks in the background until it is answered.
    pub(crate) fn begin<T: Send + 'static>(
        &self,
        once: RecordedRequest,
        read: fn(&Value) -> Option<T>,
    ) -> oneshot::Receiver<Result<Answer<T>, NodeError>> {
        let RecordedRequest { request, record } = once;
        let (tell, answered) = oneshot::channel();
        let client = Arc::clone(self.client);
        let leaves_at_once = request.leaves_at_once;
        let work = async move {
            let one_answer = client.options.response_timeout;
            let until = Instant::now() + LONGEST.max(one_answer * ANSWERS);
            // A client that closes waits for so long, and closes its connections then.
            let over = async {
                client.background.closed().await;
                tokio::time::sleep(one_answer * 2).await;
            };
            tokio::select! {
                answer = ask(&client, &request, (until, RequestPurpose::Deed), read) => {
                    note(&client, &answer, record);
                    // The caller may have gone.
                    let _ = tell.send(answer);
                }
                () = over => {}
            }
        };
        match leaves_at_once {
            true => self.client.background.begin(work),
            false => self.client.background.spawn(work),
        }
        answered
    }

    fn said<T>(&self, action: &'static str, asked: Result<Answer<T>, NodeError>) -> Result<T, LockError> {
        Ok(asked.map_err(|error| LockError::from_write(action, &self.names.key, error))?.0)
    }

    fn until(&self) -> Instant {
        Instant::now() + self.client.options.response_timeout * ANSWERS
    }
}

/// What was answered, and whether an earlier answer was lost.
pub(crate) type Answer<T> = (T, bool);

async fn ask<T>(
    client: &ClientCore,
    request: &Request,
    (until, need): (Instant, RequestPurpose),
    read: impl Fn(&Value) -> Option<T>,
) -> Result<Answer<T>, NodeError> {
    let one_answer = client.options.response_timeout;
    let (sent, doubtful) = ask_again(client.route(), request, one_answer, until, need).await?;
    let said = read(&sent.value).ok_or_else(|| no_number(&sent))?;
    Ok((said, doubtful))
}

/// Of an answer that is no number where a command of the server's own asks for one: another's key.
pub(crate) fn no_number(sent: &ServerReply) -> NodeError {
    match &sent.value {
        Value::BulkString(_) => NodeError {
            definite: true,
            code: Some(WRONG_TYPE.to_owned()),
            message: format!("{WRONG_TYPE} the key holds no number"),
            ..not_an_answer(sent)
        },
        _ => not_an_answer(sent),
    }
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
