//! A lock of one Redis server: `SET key value NX PX lease`, and a script that deletes only the caller's own value.

use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use redis::{RedisResult, Script};

/// How often a lock that another holds is asked for again.
const POLL: Duration = Duration::from_millis(10);

const RELEASE: &str =
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";

/// A client of the lock.
#[derive(Clone)]
pub struct RedisLock {
    connection: MultiplexedConnection,
}

impl RedisLock {
    pub async fn connect(url: &str) -> RedisResult<Self> {
        let client = redis::Client::open(url)?;
        let connection = client.get_multiplexed_async_connection().await?;
        Ok(Self { connection })
    }

    /// Waits until `until` for the lock: true where it is held from now on, as `value`, for the lease.
    pub async fn acquire(
        &self,
        lock: &str,
        value: &str,
        lease: Duration,
        until: Instant,
    ) -> RedisResult<bool> {
        loop {
            let mut set = redis::cmd("SET");
            let set = set.arg(lock).arg(value).arg("NX").arg("PX").arg(lease.as_millis() as u64);
            let granted: Option<String> = set.query_async(&mut self.connection.clone()).await?;
            if granted.is_some() || Instant::now() >= until {
                return Ok(granted.is_some());
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// True where the lock was still held as `value`.
    pub async fn release(&self, lock: &str, value: &str) -> RedisResult<bool> {
        let mut connection = self.connection.clone();
        Script::new(RELEASE).key(lock).arg(value).invoke_async(&mut connection).await
    }

    /// Deletes the lock also where another holds it: the mistake that the tests convict.
    pub async fn release_unchecked(&self, lock: &str) -> RedisResult<bool> {
        redis::cmd("DEL").arg(lock).query_async(&mut self.connection.clone()).await
    }
}
