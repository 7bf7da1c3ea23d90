//! Short words for the kinds with a line at the server: who waits, who listens, and who comes next.

use std::time::Duration;

use futures_util::FutureExt;
use lock_core::{Acquire, Client, ClientOptions, Guard, Kind, Lease, Lock, LockError, Wait};
use tokio::task::JoinHandle;

use crate::support::{PATIENCE, Server};

pub const MS: Duration = Duration::from_millis(1);
pub const MINUTE: Duration = Duration::from_secs(60);

pub async fn client(url: &str) -> Client {
    let target = url.parse().expect("a good URL");
    Client::connect(&target, ClientOptions::default()).await.expect("it answers")
}

pub async fn lock(server: &Server, kind: Kind) -> Lock {
    let client = client(&server.url()).await;
    client.lock(kind, "q").expect("a good name")
}

pub fn minute() -> Acquire {
    Acquire::default().wait(Wait::AtMost(PATIENCE)).lease(Lease::Fixed(MINUTE))
}

/// Waits until so many have a place in the line: owners of a fair lock, clients of a queued one.
pub fn waits(server: &Server, kind: Kind, places: usize) {
    let question = match kind {
        Kind::Fair => ["LLEN", "redisson_lock_queue:{q}"],
        _ => ["HLEN", "locklab_queue:{q}"],
    };
    server.wait_for(&question, |length| length == places.to_string());
}

/// Waits until so many clients can be told something.
pub fn listen(server: &Server, kind: Kind, clients: usize) {
    if kind == Kind::Fair {
        server.wait_for(&["PUBSUB", "NUMPAT"], |count| count == clients.to_string());
    } else {
        server.wait_for(&["PUBSUB", "CHANNELS"], |channels| channels.lines().count() == clients);
    }
}

pub fn wait_for(lock: &Lock) -> JoinHandle<Result<Guard, LockError>> {
    wait_with(lock, minute())
}

pub fn wait_with(lock: &Lock, how: Acquire) -> JoinHandle<Result<Guard, LockError>> {
    let lock = lock.clone();
    let mut acquire = Box::pin(async move { lock.acquire_with(how).await });
    // A waiter that was polled once has come, also if it only waits in its client.
    assert!((&mut acquire).now_or_never().is_none(), "nobody holds it");
    tokio::spawn(acquire)
}
