//! A driver of distributed-lock's Redis backend: SET NX PX on one server or a majority of several, readers and writers, semaphores, and a
//! renewal at a third of the lease, which is put off beyond the end where a lease is asked for. `acquire` of a plain lock or a reader tries
//! once, whatever its timeout is, so it is called again until the wait is over, after the pause that a writer of this library begins with. A
//! holder is told of a loss by the renewal that finds it; of a lease that is not renewed nobody is.

use std::time::{Duration, Instant};

use distributed_lock_core::{
    error::{LockError, LockResult},
    traits::{
        DistributedLock, DistributedReaderWriterLock, DistributedSemaphore, LockHandle, LockProvider,
        ReaderWriterLockProvider, SemaphoreProvider,
    },
};
use distributed_lock_redis::{
    RedisLockHandle, RedisLockProvider, RedisReadLockHandle, RedisSemaphoreHandle, RedisWriteLockHandle,
};
use fred::prelude::{ClientLike, ReconnectPolicy, RedisClient, RedisConfig};
use rust_shelf_drivers::{
    consumed,
    locklab::{self, About, Call, Ending, Granted, Hello, Lock},
    urls,
};
use tokio::{sync::Mutex, time::timeout};

const PAUSE: Duration = Duration::from_millis(50);

#[tokio::main]
async fn main() {
    let about = About {
        name: "distributed-lock",
        version: "distributed-lock-redis 0.2.0, fred 9.4.0",
        kinds: &["plain", "redlock", "read", "write", "semaphore"],
        topologies: &["single", "masters"],
        features: &["open_busy", "release_blind", "owner_moves"],
    };
    locklab::serve(about, connect).await;
}

struct Clients {
    clients: Vec<RedisClient>,
    watchdog: Duration,
}

async fn connect(hello: Hello) -> Result<Clients, Ending> {
    let mut clients = Vec::new();
    for url in urls(&hello)? {
        // Clients that the library makes of a URL itself never connect again.
        let client =
            RedisClient::new(RedisConfig::from_url(&url)?, None, None, Some(ReconnectPolicy::default()));
        client.connect();
        let connected = timeout(Duration::from_secs(5), client.wait_for_connect()).await;
        connected?.map_err(|error| Ending::Unreachable(error.to_string()))?;
        clients.push(client);
    }
    Ok(Clients { clients, watchdog: hello.watchdog.unwrap_or(Duration::from_secs(30)) })
}

enum Handle {
    Lock(RedisLockHandle),
    Read(RedisReadLockHandle),
    Write(RedisWriteLockHandle),
    Semaphore(RedisSemaphoreHandle),
}

impl Handle {
    fn has_lost(&self) -> tokio::sync::watch::Receiver<bool> {
        match self {
            Handle::Lock(handle) => handle.lost_token(),
            Handle::Read(handle) => handle.lost_token(),
            Handle::Write(handle) => handle.lost_token(),
            Handle::Semaphore(handle) => handle.lost_token(),
        }
        .clone()
    }

    async fn release(self) -> LockResult<()> {
        match self {
            Handle::Lock(handle) => handle.release().await,
            Handle::Read(handle) => handle.release().await,
            Handle::Write(handle) => handle.release().await,
            Handle::Semaphore(handle) => handle.release().await,
        }
    }
}

impl Clients {
    /// Leases belong to a provider; the shares of its default are kept.
    async fn provider(&self, lease: Option<Duration>) -> LockResult<RedisLockProvider> {
        let expiry = lease.unwrap_or(self.watchdog);
        // In the library's loops a pause must be something that can be added to a moment.
        let never = Duration::from_secs(1 << 30);
        let builder = RedisLockProvider::builder().expiry(expiry).min_validity(expiry * 9 / 10);
        let builder = builder.extension_cadence(if lease.is_some() { never } else { expiry / 3 });
        self.clients.iter().cloned().fold(builder, |builder, client| builder.client(client)).build().await
    }

    async fn take(provider: &RedisLockProvider, call: &Call, left: Option<Duration>) -> LockResult<Handle> {
        let (name, one_try) = (call.lock.as_str(), left == Some(Duration::ZERO));
        let busy = || LockError::Timeout(Duration::ZERO);
        Ok(match call.kind.as_str() {
            "read" => Handle::Read(provider.create_reader_writer_lock(name).acquire_read(left).await?),
            "write" if one_try => {
                let taken = provider.create_reader_writer_lock(name).try_acquire_write().await?;
                Handle::Write(taken.ok_or_else(busy)?)
            }
            "write" => Handle::Write(provider.create_reader_writer_lock(name).acquire_write(left).await?),
            "semaphore" => {
                Handle::Semaphore(provider.create_semaphore(name, call.permits).acquire(left).await?)
            }
            _ if one_try => Handle::Lock(provider.create_lock(name).try_acquire().await?.ok_or_else(busy)?),
            _ => Handle::Lock(provider.create_lock(name).acquire(left).await?),
        })
    }
}

impl Lock for Clients {
    type Held = Mutex<Option<Handle>>;

    async fn acquire(&self, call: &Call) -> Result<Granted<Self::Held>, Ending> {
        let began = Instant::now();
        let provider = self.provider(call.lease).await?;
        loop {
            let sent = Instant::now();
            let left = call.wait.map(|wait| wait.saturating_sub(began.elapsed()));
            match Self::take(&provider, call, left).await {
                Ok(handle) => {
                    let (call, mut lost) = (call.clone(), handle.has_lost());
                    let waits_inside = matches!(call.kind.as_str(), "write" | "semaphore");
                    tokio::spawn(async move {
                        if lost.wait_for(|lost| *lost).await.is_ok() {
                            call.lost("its lost token says so");
                        }
                    });
                    let sent = (!waits_inside).then_some(sent);
                    return Ok(Granted { held: Mutex::new(Some(handle)), sent, token: None, lease: None });
                }
                Err(LockError::Timeout(_)) => {}
                Err(error) => return Err(error.into()),
            }
            let left = call.left(began).ok_or(Ending::Busy)?;
            tokio::time::sleep(left.min(PAUSE)).await;
        }
    }

    async fn release(&self, held: &Self::Held) -> Result<(), Ending> {
        let handle = held.lock().await.take().ok_or_else(consumed)?;
        Ok(handle.release().await?)
    }

    fn watchdog(&self) -> Option<Duration> {
        Some(self.watchdog)
    }

    fn held(&self, held: &Self::Held) -> bool {
        held.try_lock().is_ok_and(|handle| handle.as_ref().is_some_and(|handle| !*handle.has_lost().borrow()))
    }
}
