//! A driver of rdlock: SET NX EX with a constant value, a waiter that keyspace notifications wake, and a plain DEL. Leases are whole
//! seconds, rounded up here. It has no renewal and no extension, and says of a try only that there is no lock.

use std::time::{Duration, Instant};

use rdlock::{RdLockConnectionManager, errors::RdLockError, lock::BasicLock};
use redis_0_27::{Client, cmd};
use rust_shelf_drivers::{
    locklab::{self, About, Call, Ending, Granted, Hello, Lock},
    urls,
};
use tokio::sync::Mutex;

#[tokio::main]
async fn main() {
    let about = About {
        name: "rdlock",
        version: "1.0.3, redis 0.27.6",
        kinds: &["plain"],
        topologies: &["single"],
        features: &["open_busy", "release_blind", "owner_moves"],
    };
    locklab::serve(about, connect).await;
}

struct Manager(RdLockConnectionManager);

async fn connect(hello: Hello) -> Result<Manager, Ending> {
    let url = urls(&hello)?.remove(0);
    let unreachable = |error: String| Ending::Unreachable(error);
    // Its documentation has the operator set this.
    let client = Client::open(url.as_str())?;
    let connected = client.get_multiplexed_async_connection().await;
    let mut server = connected.map_err(|error| unreachable(error.to_string()))?;
    let mut set = cmd("CONFIG");
    let set = set.arg("SET").arg("notify-keyspace-events").arg("KA");
    set.exec_async(&mut server).await?;
    let manager = RdLockConnectionManager::new(url).await;
    Ok(Manager(manager.map_err(|error| unreachable(error.to_string()))?))
}

impl Lock for Manager {
    type Held = Mutex<BasicLock>;

    async fn acquire(&self, call: &Call) -> Result<Granted<Self::Held>, Ending> {
        let (began, lease) = (Instant::now(), call.lease.unwrap_or_default());
        let mut lock = self.0.new_basic_lock(&call.lock, lease.as_millis().div_ceil(1000) as u64);
        let (one_try, taken) = match call.wait {
            Some(Duration::ZERO) => (true, lock.try_lock().await),
            Some(wait) => (false, lock.lock_timeout(wait).await),
            None => (false, lock.lock().await),
        };
        match taken {
            Ok(()) => {
                let sent = one_try.then_some(began);
                Ok(Granted { held: Mutex::new(lock), sent, token: None, lease: None })
            }
            Err(RdLockError::LockUnavailable | RdLockError::TimeoutReached) => Err(Ending::Busy),
            Err(error) => Err(error.into()),
        }
    }

    async fn release(&self, held: &Self::Held) -> Result<(), Ending> {
        held.lock().await.release().await.map_err(|error| match error {
            RdLockError::LockNotAcquired => Ending::NotHeld,
            error => error.into(),
        })
    }

    fn held(&self, held: &Self::Held) -> bool {
        held.try_lock().is_ok_and(|mut lock| lock.is_locked())
    }
}
