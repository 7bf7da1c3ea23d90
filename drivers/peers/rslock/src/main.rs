//! A driver of rslock with its defaults: three tries at a time, each after up to 200 ms at random, in rows until the wait is over. It has no
//! renewal, does not say why a try failed, and says of a release only that it was sent.

#[path = "../../../sdk/rust/src/locklab.rs"]
mod locklab;

use std::time::{Duration, Instant};

use locklab::{About, Call, Ending, Granted, Hello, Lock};
use redis::{Client, TlsCertificates, cluster::ClusterClient};
use rslock::{LockError, LockManager};
use tokio::sync::Mutex;

#[tokio::main]
async fn main() {
    let about = About {
        name: "rslock",
        version: "0.10.0, redis 1.8.1",
        kinds: &["plain", "redlock"],
        topologies: &["single", "cluster", "masters"],
        features: &["extend", "redlock", "open_busy", "release_blind", "owner_moves"],
    };
    locklab::serve(about, connect).await;
}

struct Rslock {
    rows: LockManager,
    /// For a single try.
    once: LockManager,
}

async fn connect(hello: Hello) -> Result<Rslock, Ending> {
    // It is there already where hello is said twice.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let scheme = if hello.tls { "rediss" } else { "redis" };
    let login = if hello.login.is_empty() { String::new() } else { hello.login.clone() + "@" };
    let urls = hello.hosts.iter().map(|host| format!("{scheme}://{login}{host}/{}", hello.path));
    let urls: Vec<String> = urls.collect();
    let (mut clients, mut answers) = (Vec::new(), Vec::new());
    for url in &urls {
        let client = match certificates(&hello.tls_ca)? {
            Some(certificates) => Client::build_with_tls(url.as_str(), certificates)?,
            None => Client::open(url.as_str())?,
        };
        answers.push(client.get_multiplexed_async_connection().await.map(|_| ()));
        clients.push(client);
    }
    if let (false, Some(Err(error))) = (answers.iter().any(Result::is_ok), answers.pop()) {
        return Err(Ending::Unreachable(error.to_string()));
    }
    let rows = match hello.shape {
        "cluster" => {
            let builder = ClusterClient::builder(urls);
            let builder = match certificates(&hello.tls_ca)? {
                Some(certificates) => builder.certs(certificates),
                None => builder,
            };
            LockManager::from_cluster_client(builder.build()?)
        }
        _ => LockManager::from_clients(clients),
    };
    let mut once = rows.clone();
    once.set_retry(1, Duration::ZERO);
    Ok(Rslock { rows, once })
}

fn certificates(tls_ca: &str) -> Result<Option<TlsCertificates>, std::io::Error> {
    if tls_ca.is_empty() {
        return Ok(None);
    }
    Ok(Some(TlsCertificates { client_tls: None, root_cert: Some(std::fs::read(tls_ca)?) }))
}

impl Lock for Rslock {
    type Held = Mutex<rslock::Lock>;

    async fn acquire(&self, call: &Call) -> Result<Granted<Self::Held>, Ending> {
        let (began, lease) = (Instant::now(), call.lease.unwrap_or_default());
        let manager = if call.left(began).is_some() { &self.rows } else { &self.once };
        loop {
            match manager.lock(call.lock.as_str(), lease).await {
                Ok(lock) => {
                    // It counts from its own sending, in whole milliseconds, and keeps this much back for drift.
                    let granted = lease - lease.mul_f32(0.01) - Duration::from_millis(2);
                    let left = Duration::from_millis(lock.validity_time as u64);
                    let age = granted.saturating_sub(left) + Duration::from_millis(1);
                    let sent = Instant::now().checked_sub(age).map(|sent| sent.max(began));
                    return Ok(Granted { held: Mutex::new(lock), sent, token: None, lease: Some(granted) });
                }
                Err(LockError::Unavailable) => {}
                Err(error) => return Err(error.into()),
            }
            call.left(began).ok_or(Ending::Busy)?;
        }
    }

    async fn release(&self, held: &Self::Held) -> Result<(), Ending> {
        self.rows.unlock(&*held.lock().await).await;
        Ok(())
    }

    async fn extend(&self, held: &Self::Held, lease: Duration) -> Result<(), Ending> {
        let mut held = held.lock().await;
        *held = self.rows.extend(&held, lease).await.map_err(|error| match error {
            LockError::Unavailable => Ending::NotHeld,
            error => error.into(),
        })?;
        Ok(())
    }
}
