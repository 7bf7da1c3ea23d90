//! rslock, the nearest library in Rust, as a subject.
//!
//! It is used as its documentation shows, with its own retries. A wait is a row of its attempts, so that it may last one attempt
//! longer than was asked; it has no renewal, and says of a release only that it was sent.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use rslock::{Lock, LockError, LockManager};
use tokio::sync::mpsc;

use super::common::{Grants, LEASE, only_lock};
use crate::subject::{
    AcquireEnd, AcquireRequest, ConnectTo, Connected, LockClient, ReleaseEnd, Subject, SubjectError,
};

/// rslock as a subject.
pub(super) fn subjects() -> Vec<Arc<dyn Subject>> {
    vec![Arc::new(Rslock)]
}

struct Rslock;

#[async_trait]
impl Subject for Rslock {
    fn name(&self) -> &str {
        "peer:rslock"
    }

    fn about(&self) -> &str {
        "rslock 0.10: SET NX PX over one server or a majority of several, with its own retries; no renewal"
    }

    fn kinds(&self) -> Vec<String> {
        vec!["plain".to_owned(), "redlock".to_owned()]
    }

    async fn connect(&self, to: &ConnectTo) -> Result<Connected, SubjectError> {
        if !matches!(to.durability.as_str(), "" | "none") {
            return Err(SubjectError::NotApplicable(format!(
                "peer:rslock does not wait for replicas: durability `{}` cannot be asked of it",
                to.durability
            )));
        }
        let manager = match to.target.split_once("://") {
            Some(("redis" | "rediss", _)) => servers(vec![to.target.clone()])?,
            Some(("redlock", rest)) => {
                let addresses = rest.split(',').filter(|address| !address.is_empty());
                servers(
                    addresses
                        .map(|address| format!("redis://{address}"))
                        .collect(),
                )?
            }
            _ => {
                return Err(SubjectError::NotApplicable(format!(
                    "peer:rslock takes redis:// and redlock:// targets, not `{}`",
                    results::secrets::redact(&to.target)
                )));
            }
        };
        // An unreachable server is said now and not by the first acquire.
        match manager.query_redis_for_key_value(b"locklab:hello").await {
            Err(LockError::Redis(e)) if e.is_io_error() || e.is_connection_refusal() => {
                return Err(SubjectError::unreachable(format!("peer:rslock: {e}")));
            }
            _ => {}
        }
        let (_events, receiver) = mpsc::unbounded_channel();
        Ok(Connected {
            client: Box::new(Client {
                manager,
                grants: Grants::default(),
            }),
            events: receiver,
        })
    }
}

/// Independent servers, one or several.
fn servers(urls: Vec<String>) -> Result<LockManager, SubjectError> {
    let mut clients = Vec::new();
    for url in urls {
        clients.push(redis::Client::open(url.as_str()).map_err(|e| unusable(&e))?);
    }
    Ok(LockManager::from_clients(clients))
}

fn unusable(error: &redis::RedisError) -> SubjectError {
    SubjectError::usage(format!("the target's URL: {error}"))
}

struct Client {
    manager: LockManager,
    grants: Grants<Arc<Lock>>,
}

#[async_trait]
impl LockClient for Client {
    async fn acquire(&self, request: AcquireRequest<'_>) -> AcquireEnd {
        let key = match only_lock(&request) {
            Ok(key) => key,
            Err(end) => return end,
        };
        if !matches!(request.kind, "" | "plain" | "redlock") {
            return AcquireEnd::Failed(format!(
                "only plain and redlock are offered, not `{}`",
                request.kind
            ));
        }
        // Where the caller names none, nothing renews it.
        let lease = request.lease.unwrap_or(LEASE);
        let called = Instant::now();
        loop {
            match self.manager.lock(key, lease).await {
                Ok(lock) => {
                    // What it says is left counts from its own sending, less the drift.
                    let left = Duration::from_millis(lock.validity_time as u64);
                    let sent_at = (Instant::now() + left).checked_sub(lease);
                    let grant = self.grants.keep(self.grants.number(), Arc::new(lock));
                    return AcquireEnd::ok(grant, sent_at);
                }
                Err(LockError::Unavailable) => {}
                // An attempt that broke off may have left the key; the library does not say.
                Err(e) => return AcquireEnd::Unknown(e.to_string()),
            }
            if request.wait.is_some_and(|wait| called.elapsed() >= wait) {
                return AcquireEnd::Busy;
            }
        }
    }

    async fn release(&self, grant: &str) -> ReleaseEnd {
        match self.grants.take(grant) {
            Err(end) => end,
            Ok(lock) => {
                self.manager.unlock(&lock).await;
                ReleaseEnd::Ok
            }
        }
    }

    async fn extend(&self, grant: &str, lease: Duration) -> ReleaseEnd {
        let lock = match self.grants.get(grant) {
            Ok(lock) => lock,
            Err(end) => return end,
        };
        match self.manager.extend(&lock, lease).await {
            Ok(extended) => {
                self.grants.replace(grant, Arc::new(extended));
                ReleaseEnd::Ok
            }
            Err(LockError::Unavailable) => ReleaseEnd::NotHeld,
            Err(e) => ReleaseEnd::Unknown(e.to_string()),
        }
    }
}
