//! What a timer of each caller's own costs beside the one task that keeps a connection's time: the same
//! cycles with each call in a timeout; and from a runtime that is not the client's, where each request has
//! such a timer in any case (`topology/conn.rs`), and each answer goes from one runtime to the other.

use std::{sync::Arc, time::Duration};

use lock_core::{Acquire, Kind, Lease, Lock, Wait};
use tokio::{
    runtime::{Builder, Handle},
    time::timeout,
};

use crate::{
    Failure,
    cycle::{self, Count, Pairs, ROUNDS, TASKS},
    support::Server,
};

const LEASE: Lease = Lease::Fixed(Duration::from_secs(30));
/// Longer than a call takes on a busy machine: no timer is to go off.
const BOUND: Duration = Duration::from_secs(10);

pub(crate) async fn run() -> Result<(), Failure> {
    let other = Builder::new_multi_thread().enable_all().build()?;
    let compared = compare(other.handle()).await;
    // Dropped here it would block this one.
    other.shutdown_background();
    compared
}

async fn compare(other: &Handle) -> Result<(), Failure> {
    let server = Server::start(&[]);
    let client = cycle::connect(&server).await?;
    let how = || Acquire::default().wait(Wait::Try).lease(LEASE);
    let lock = |task: usize| client.lock(Kind::Plain, &format!("cycle:{task}"));
    println!("\nan uncontended cycle of the plain lock: one timer for all callers, and one for each");
    cycle::heading("timers");
    for tasks in TASKS {
        let (mut here, mut elsewhere) = (Pairs::default(), Pairs::default());
        for _ in 0..ROUNDS {
            for pairs in [&mut here, &mut elsewhere] {
                pairs.ours.push(cycle::library(&client, &server, tasks, Kind::Plain, LEASE).await?);
            }
            let timed = |task: usize, count: Arc<Count>| {
                let lock = lock(task);
                async move { timed_cycles(lock?, how(), &count).await }
            };
            here.theirs.push(cycle::round(&server, tasks, timed).await?);
            let untimed = |task: usize, count: Arc<Count>| {
                let lock = lock(task);
                async move { cycle::cycles(lock?, how(), &count).await }
            };
            elsewhere.theirs.push(cycle::round_on(other, &server, tasks, untimed).await?);
        }
        here.print(tasks, "a timeout around each call");
        elsewhere.print(tasks, "from another runtime");
    }
    client.close().await;
    Ok(())
}

async fn timed_cycles(lock: Lock, how: Acquire, count: &Count) -> Result<(), Failure> {
    loop {
        let guard = timeout(BOUND, lock.acquire_with(how.clone())).await??;
        timeout(BOUND, guard.release()).await??;
        if !count.go_on() {
            return Ok(());
        }
    }
}
