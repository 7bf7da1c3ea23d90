//! The time of ten thousand acquires and releases, one after the other, for each kind.

use std::time::{Duration, Instant};

use lock_core::{Acquire, Kind, Lease, Wait};

use crate::{Failure, cycle, support::Server};

const PAIRS: u32 = 10_000;

pub(crate) async fn run() -> Result<(), Failure> {
    println!("\n{PAIRS} pairs of acquire and release by one task");
    println!("kind            seconds   us per pair   commands per pair");
    for &kind in Kind::ALL {
        let server = Server::start(&[]);
        let client = cycle::connect(&server).await?;
        let lock = client.lock(kind, "pairs")?;
        let how = Acquire::default().wait(Wait::Try).lease(Lease::Fixed(Duration::from_secs(30)));
        // The first cycle teaches the server the scripts.
        lock.acquire_with(how.clone()).await?.release().await?;
        let commands = client.stats().commands;
        let began = Instant::now();
        for _ in 0..PAIRS {
            lock.acquire_with(how.clone()).await?.release().await?;
        }
        let took = began.elapsed().as_secs_f64();
        let commands = (client.stats().commands - commands) as f64 / f64::from(PAIRS);
        println!("{:<15} {took:>7.3} {:>13.1} {commands:>19.2}", kind.name(), took * 1e6 / f64::from(PAIRS));
        client.close().await;
    }
    Ok(())
}
