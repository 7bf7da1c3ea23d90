//! A service that gives back what its tasks hold when it is told to end: each task learns at its next step
//! that it holds nothing any more.
//!
//! `cargo run -p lock-core --example graceful_shutdown -- redis://127.0.0.1:6379`, then Ctrl-C

use std::{error::Error, time::Duration};

use lock_core::{Client, Kind, LockError};
use tokio::task::JoinSet;

/// Works on several names at once until `told` completes; how many steps were made.
pub(crate) async fn serve(client: &Client, told: impl Future<Output = ()>) -> Result<u32, LockError> {
    let mut tasks = JoinSet::new();
    for name in ["invoices", "reminders"] {
        let guard = client.lock(Kind::Plain, name)?.acquire().await?;
        tasks.spawn(async move {
            let mut steps = 0;
            let lost = guard.cancellation_token();
            while !lost.is_cancelled() {
                tokio::time::sleep(Duration::from_millis(10)).await; // a step of the work
                steps += 1;
            }
            steps
        });
    }
    told.await;
    // Gives back what guards hold, and cancels their tokens; nothing stays taken until a lease ends.
    client.clone().close_and_release().await;
    Ok(tasks.join_all().await.into_iter().sum())
}

#[tokio::main]
#[allow(dead_code, clippy::print_stdout, reason = "the test has a main of its own")]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).ok_or("usage: graceful_shutdown URL")?;
    let client = lock_core::connect(&url).await?;
    let told = async { tokio::signal::ctrl_c().await.unwrap_or_default() };
    println!("{} steps", serve(&client, told).await?);
    Ok(())
}
