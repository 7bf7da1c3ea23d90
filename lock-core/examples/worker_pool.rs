//! A pool of workers on many machines, of whom no more than so many call a slow service at once; the permits
//! of a machine that dies come back.
//!
//! `cargo run -p lock-core --example worker_pool -- redis://127.0.0.1:6379`

use std::error::Error;

use futures_util::future::try_join_all;
use lock_core::{Client, LockError};

/// Calls `call` with each item, `at_once` at a time over all clients that do the same.
pub(crate) async fn work<C: Future<Output = ()>>(
    client: &Client,
    at_once: u32,
    items: std::ops::Range<u32>,
    call: impl Fn(u32) -> C,
) -> Result<(), LockError> {
    let permits = client.permits("slow-service")?;
    permits.try_set_permits(at_once).await?; // the first one says how many there are
    let (permits, call) = (&permits, &call);
    let each = items.map(|item| async move {
        let permit = permits.acquire().await?;
        call(item).await;
        permit.release().await
    });
    try_join_all(each).await.map(|_| ())
}

#[tokio::main]
#[allow(dead_code, clippy::print_stdout, reason = "the test has a main of its own")]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).ok_or("usage: worker_pool URL")?;
    let client = lock_core::connect(&url).await?;
    work(&client, 3, 0..20, |item| async move { println!("{item}") }).await?;
    client.close().await;
    Ok(())
}
