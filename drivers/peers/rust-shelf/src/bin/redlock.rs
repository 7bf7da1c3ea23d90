//! A driver of redlock with its defaults: blocking calls, a connection per command, three tries in a row after pauses of up to 200 ms, in
//! rows until the wait is over. It has no renewal and no extension, and says of a release only that it was sent.

use std::time::{Duration, Instant};

use redis_0_23::Client;
use redlock::{RedLock, RedLockGuard};
use rust_shelf_drivers::{
    consumed,
    locklab::{self, About, Call, Ending, Granted, Hello, Lock},
    urls,
};
use tokio::{sync::Mutex, task::spawn_blocking};

#[tokio::main]
async fn main() {
    let about = About {
        name: "redlock",
        version: "2.0.0, redis 0.23.5",
        kinds: &["plain", "redlock"],
        topologies: &["single", "masters"],
        features: &["open_busy", "release_blind", "owner_moves"],
    };
    locklab::serve(about, connect).await;
}

/// A guard borrows its manager, so managers live as long as the process.
struct Managers {
    rows: &'static RedLock,
    /// For a single try.
    once: &'static RedLock,
}

async fn connect(hello: Hello) -> Result<Managers, Ending> {
    let clients: Vec<Client> = urls(&hello)?.into_iter().map(Client::open).collect::<Result<_, _>>()?;
    let probed = clients.clone();
    let answers = move |client: &Client| client.get_connection_with_timeout(Duration::from_secs(2)).is_ok();
    if !spawn_blocking(move || probed.iter().any(answers)).await? {
        return Err(Ending::Unreachable("no server answers".into()));
    }
    let rows = RedLock::with_clients(clients);
    let mut once = rows.clone();
    once.set_retry(1, 1);
    Ok(Managers { rows: Box::leak(Box::new(rows)), once: Box::leak(Box::new(once)) })
}

impl Lock for Managers {
    type Held = Mutex<Option<RedLockGuard<'static>>>;

    async fn acquire(&self, call: &Call) -> Result<Granted<Self::Held>, Ending> {
        let (began, lease) = (Instant::now(), call.lease.unwrap_or_default());
        let manager = if call.left(began).is_some() { self.rows } else { self.once };
        let ms = lease.as_millis() as usize;
        loop {
            let name = call.lock.clone();
            // The guard of a call that was given up meanwhile gives its lock back, as the library's own `acquire` does.
            let row =
                move || manager.lock(name.as_bytes(), ms).map(|lock| lock.map(|lock| RedLockGuard { lock }));
            if let Some(guard) = spawn_blocking(row).await?? {
                // It counts from its first command of the try, in whole milliseconds, and keeps this much back for drift.
                let granted = lease - lease.mul_f32(0.01) - Duration::from_millis(2);
                let left = Duration::from_millis(guard.lock.validity_time as u64);
                let age = granted.saturating_sub(left) + Duration::from_millis(1);
                let sent = Instant::now().checked_sub(age).map(|sent| sent.max(began));
                return Ok(Granted {
                    held: Mutex::new(Some(guard)),
                    sent,
                    token: None,
                    lease: Some(granted),
                });
            }
            call.left(began).ok_or(Ending::Busy)?;
        }
    }

    async fn release(&self, held: &Self::Held) -> Result<(), Ending> {
        let guard = held.lock().await.take().ok_or_else(consumed)?;
        Ok(spawn_blocking(move || drop(guard)).await?)
    }
}
