//! A driver of redis-lock: `lock_across`, which runs a future under the lock, with a try every 100 ms; the future here waits for the
//! release. It has no renewal and no extension, and does not say why a try failed or what a release found.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use redis_0_27::{Client, aio::ConnectionManager};
use redis_lock::{DEFAULT_RETRY_DELAY, LockAcrossError, LockAcrossOptions, lock_across};
use rust_shelf_drivers::{
    consumed,
    locklab::{self, About, Call, Ending, Granted, Hello, Lock},
    urls,
};
use tokio::{
    sync::{Mutex, oneshot},
    task::JoinHandle,
};

#[tokio::main]
async fn main() {
    let about = About {
        name: "redis-lock",
        version: "0.5.1, redis 0.27.6",
        kinds: &["plain", "redlock"],
        topologies: &["single", "masters"],
        features: &["open_busy", "release_blind", "owner_moves"],
    };
    locklab::serve(about, connect).await;
}

struct Connections(Vec<Arc<Mutex<ConnectionManager>>>);

async fn connect(hello: Hello) -> Result<Connections, Ending> {
    let mut connections = Vec::new();
    for url in urls(&hello)? {
        let connection = ConnectionManager::new(Client::open(url)?).await;
        let connection = connection.map_err(|error| Ending::Unreachable(error.to_string()))?;
        connections.push(Arc::new(Mutex::new(connection)));
    }
    Ok(Connections(connections))
}

struct Under {
    /// Ends the future under the lock.
    end: oneshot::Sender<()>,
    call: JoinHandle<Result<(), LockAcrossError>>,
}

impl Lock for Connections {
    type Held = Mutex<Option<Under>>;

    async fn acquire(&self, call: &Call) -> Result<Granted<Self::Held>, Ending> {
        let (began, lease) = (Instant::now(), call.lease.unwrap_or_default());
        // With no time at all it would not try once.
        let duration = call.wait.unwrap_or(Duration::MAX).max(Duration::from_millis(1));
        let options = LockAcrossOptions { ttl: lease, retry: DEFAULT_RETRY_DELAY, duration };
        let (connections, name) = (self.0.clone(), call.lock.clone());
        let (held, granted) = oneshot::channel();
        let (end, ended) = oneshot::channel();
        let under = async move {
            let _ = held.send(());
            let _ = ended.await;
        };
        let work = tokio::spawn(async move { lock_across(&connections, &name, under, options).await });
        // A caller that gives up drops the call, as it would that of `lock_across`.
        let given_up = AbortOnDrop(Some(work));
        if granted.await.is_ok() {
            let call = given_up.keep();
            let sent = call_is_one_try(duration).then_some(began);
            return Ok(Granted {
                held: Mutex::new(Some(Under { end, call })),
                sent,
                token: None,
                lease: None,
            });
        }
        match given_up.keep().await? {
            Err(LockAcrossError::Acquire(_)) => Err(Ending::Busy),
            other => Err(Ending::Unknown(format!("{other:?}"))),
        }
    }

    async fn release(&self, held: &Self::Held) -> Result<(), Ending> {
        let under = held.lock().await.take().ok_or_else(consumed)?;
        let _ = under.end.send(());
        under.call.await?.map_err(|error| Ending::Unknown(error.to_string()))
    }
}

fn call_is_one_try(duration: Duration) -> bool {
    duration <= DEFAULT_RETRY_DELAY
}

struct AbortOnDrop<T>(Option<JoinHandle<T>>);

impl<T> AbortOnDrop<T> {
    fn keep(mut self) -> JoinHandle<T> {
        self.0.take().expect("kept once")
    }
}

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.iter().for_each(JoinHandle::abort);
    }
}
