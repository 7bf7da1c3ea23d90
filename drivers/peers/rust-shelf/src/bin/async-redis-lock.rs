//! A driver of async-redis-lock: a script on one or several keys, a try every 100 ms, and a renewal at a third of the lease, which is put
//! off beyond the end where a lease is asked for. A holder asks `is_lost`; nobody tells it.

use std::time::{Duration, Instant};

use async_redis_lock::{Error, Locker, Options};
use rust_shelf_drivers::{
    consumed,
    locklab::{self, About, Call, Ending, Granted, Hello, Lock},
    urls,
};
use tokio::sync::Mutex;

#[tokio::main]
async fn main() {
    let about = About {
        name: "async-redis-lock",
        version: "0.4.0, redis 1.8.1",
        kinds: &["plain", "multi"],
        topologies: &["single"],
        features: &["owner_moves"],
    };
    locklab::serve(about, connect).await;
}

struct Client {
    locker: Locker,
    /// The lease of a lock that is renewed.
    watchdog: Duration,
}

async fn connect(hello: Hello) -> Result<Client, Ending> {
    let locker = Locker::from_redis_url(&urls(&hello)?[0]).await;
    let locker = locker.map_err(|error| Ending::Unreachable(error.to_string()))?;
    Ok(Client { locker, watchdog: hello.watchdog.unwrap_or(Options::default().ttl) })
}

impl Lock for Client {
    type Held = Mutex<Option<async_redis_lock::Lock>>;

    async fn acquire(&self, call: &Call) -> Result<Granted<Self::Held>, Ending> {
        let began = Instant::now();
        let options = Options::default().timeout(call.wait);
        let options = match call.lease {
            Some(lease) => options.ttl(lease).extend(Duration::MAX),
            None => options.ttl(self.watchdog).extend(self.watchdog / 3),
        };
        match self.locker.acquire_with_options(&options, &call.locks).await {
            Ok(lock) => {
                let sent = call.wait.is_some_and(|wait| wait.is_zero()).then_some(began);
                Ok(Granted { held: Mutex::new(Some(lock)), sent, token: None, lease: None })
            }
            Err(Error::Timeout) => Err(Ending::Busy),
            Err(error) => Err(error.into()),
        }
    }

    async fn release(&self, held: &Self::Held) -> Result<(), Ending> {
        let lock = held.lock().await.take().ok_or_else(consumed)?;
        lock.release().await.map_err(|error| match error {
            Error::IdNotFound => Ending::NotHeld,
            error => error.into(),
        })
    }

    fn watchdog(&self) -> Option<Duration> {
        Some(self.watchdog)
    }

    fn held(&self, held: &Self::Held) -> bool {
        held.try_lock().is_ok_and(|lock| lock.as_ref().is_some_and(|lock| !lock.is_lost()))
    }
}
