//! A job that runs on one of many machines: the leader runs it, and another takes over when the leader
//! resigns, dies, or loses its server.
//!
//! `cargo run -p lock-core --example one_of_many -- redis://127.0.0.1:6379`, on as many machines as you like

use std::{error::Error, time::Duration};

use lock_core::{Client, LockError};

/// Leads again and again, and runs `job` with the term while it leads, until the job says that it is done.
pub(crate) async fn lead<J: Future<Output = bool>>(
    client: &Client,
    job: impl Fn(u64) -> J,
) -> Result<(), LockError> {
    let election = client.election("nightly-report")?;
    loop {
        let leadership = election.campaign().await?;
        let term = leadership.term();
        tokio::select! {
            done = job(term) => {
                leadership.resign().await?;
                if done {
                    return Ok(());
                }
            }
            // Stops the job where it is: another machine may lead.
            _ = leadership.lost() => {}
        }
    }
}

#[tokio::main]
#[allow(dead_code, clippy::print_stdout, reason = "the test has a main of its own")]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).ok_or("usage: one_of_many URL")?;
    let client = lock_core::connect(&url).await?;
    let report = |term| async move {
        println!("the report of term {term}");
        tokio::time::sleep(Duration::from_secs(10)).await;
        false
    };
    lead(&client, report).await?;
    client.close().await;
    Ok(())
}
