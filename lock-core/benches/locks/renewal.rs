//! What the renewal of many held locks costs: processor time, lateness, memory.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use lock_core::{Acquire, Client, ClientOptions, GuardEvent, Kind, Wait};
use tokio::task::JoinSet;

use crate::{
    Failure, cycle,
    goals::{self, Bound},
    support::Server,
    usage,
};

/// Guards that a listener watches: enough for a 99.9th percentile, few enough that watching costs nothing.
const WATCHED: usize = 5_000;
/// Tasks that acquire at once.
const TASKS: usize = 256;
/// Waiters for the memory of one.
const WAITERS: usize = 2_000;

pub(crate) async fn run(locks: usize) -> Result<(), Failure> {
    let server = Server::start(&[]);
    let pids = (std::process::id(), usage::pid(&server)?);
    // Renewed each third of it. The default is 30 s; a renewal costs the server some 10 µs, so that a million
    // of those would take all of its one core, and nothing would be left to acquire them beside.
    let lease = Duration::from_secs(if locks > 200_000 { 120 } else { 30 });
    let period = lease / 3;
    let options = ClientOptions::default().watchdog_lease(lease);
    let client = Client::connect(&server.url().parse()?, options).await?;
    println!("\n{locks} locks held by one client, lease {lease:?}, renewed each {period:?}");

    // The first connection, the scripts and the buffers are not of a lock's making.
    hold(&client, "warm", 1_000).await?;
    let empty = (usage::resident(pids.0)?, usage::resident(pids.1)?);
    let began = Instant::now();
    let guards = hold(&client, "held", locks).await?;
    println!("acquired in {:.1} s", began.elapsed().as_secs_f64());
    let full = (usage::resident(pids.0)?, usage::resident(pids.1)?);
    let each = |from: u64, to: u64| to.saturating_sub(from) / locks as u64;
    println!(
        "memory of a held lock: {} bytes in the client, {} in the server",
        each(empty.0, full.0),
        each(empty.1, full.1)
    );

    // One period to settle, so that every hold has been renewed once, then three that are measured.
    tokio::time::sleep(period).await;
    let stop = Arc::new(AtomicBool::new(false));
    let step = (guards.len() / WATCHED).max(1);
    let mut watching = JoinSet::new();
    for guard in guards.iter().step_by(step) {
        let (mut events, stop) = (guard.events(), Arc::clone(&stop));
        watching.spawn(async move {
            let (mut gaps, mut last) = (Vec::new(), None);
            while let Some(GuardEvent::Extended { sent_at, .. }) = events.next().await {
                if let Some(last) = last.replace(sent_at) {
                    gaps.push(sent_at - last);
                }
                if stop.load(Ordering::Relaxed) {
                    break;
                }
            }
            gaps
        });
    }
    let before = (usage::cpu(pids.0)?, usage::cpu(pids.1)?, client.stats().commands);
    let began = Instant::now();
    tokio::time::sleep(period * 3).await;
    let took = began.elapsed();
    let after = (usage::cpu(pids.0)?, usage::cpu(pids.1)?, client.stats().commands);
    stop.store(true, Ordering::Relaxed);
    let mut gaps: Vec<Duration> = watching.join_all().await.concat();
    gaps.sort_unstable();
    let late = |share: f64| {
        let place = (gaps.len() as f64 * share) as usize;
        let gap = gaps.get(place.min(gaps.len().saturating_sub(1)));
        gap.map_or(Duration::ZERO, |gap| gap.saturating_sub(period))
    };
    let cores = |from: Duration, to: Duration| (to - from).as_secs_f64() / took.as_secs_f64();
    let late_share = late(0.999).as_secs_f64() / period.as_secs_f64() * 100.0;
    println!(
        "processor: client {:.3} cores, server {:.3} cores, {:.0} commands/s",
        cores(before.0, after.0),
        cores(before.1, after.1),
        (after.2 - before.2) as f64 / took.as_secs_f64()
    );
    println!(
        "beyond the period: p50 {:?}, p99 {:?}, p99.9 {:?} ({:.2} % of it), max {:?}, of {} renewals",
        late(0.5),
        late(0.99),
        late(0.999),
        late_share,
        late(1.0),
        gaps.len()
    );
    let lost = guards.iter().filter(|guard| guard.is_lost()).count();
    println!("lost: {lost}");
    let name = |what: &str| format!("{what} for {locks} renewed locks");
    let client_cores = cores(before.0, after.0);
    goals::figure(&name("client's processor time"), client_cores, "cores", Bound::AtMost(1.0));
    goals::figure(&name("lateness p99.9"), late_share, "% of the period", Bound::AtMost(10.0));
    goals::figure(&name("locks lost"), lost as f64, "locks", Bound::AtMost(0.0));
    waiters(&server, &client).await?;
    // Giving them back one by one would only take time: the server ends here.
    guards.into_iter().for_each(std::mem::forget);
    Ok(())
}

/// Acquires so many locks, many at a time.
async fn hold(client: &Client, prefix: &str, locks: usize) -> Result<Vec<lock_core::Guard>, Failure> {
    let next = Arc::new(AtomicU64::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..TASKS {
        let (client, next) = (client.clone(), Arc::clone(&next));
        let prefix = prefix.to_owned();
        tasks.spawn(async move {
            let mut guards = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= locks as u64 {
                    return Ok::<_, lock_core::LockError>(guards);
                }
                let lock = client.lock(Kind::Reentrant, &format!("{prefix}:{number}"))?;
                // They are free; but on a busy machine an answer may be lost, and is asked for again.
                let how = Acquire::default().wait(Wait::AtMost(Duration::from_secs(60)));
                guards.push(lock.acquire_with(how).await?);
            }
        });
    }
    let mut guards = Vec::with_capacity(locks);
    while let Some(task) = tasks.join_next().await {
        guards.extend(task??);
    }
    Ok(guards)
}

/// What one who waits for a lock costs the client, each in a task of its own and each for another lock.
async fn waiters(server: &Server, holder: &Client) -> Result<(), Failure> {
    let guards = hold(holder, "waited", WAITERS).await?;
    let client = cycle::connect(server).await?;
    let before = usage::resident(std::process::id())?;
    let mut waiting = JoinSet::new();
    for number in 0..WAITERS {
        let lock = client.lock(Kind::Reentrant, &format!("waited:{number}"))?;
        waiting.spawn(async move { lock.acquire_with(Acquire::default()).await.is_ok() });
    }
    tokio::time::sleep(Duration::from_secs(3)).await;
    let after = usage::resident(std::process::id())?;
    println!(
        "memory of a waiting acquire: {} bytes in the client, its task included",
        after.saturating_sub(before) / WAITERS as u64
    );
    waiting.abort_all();
    guards.into_iter().for_each(std::mem::forget);
    Ok(())
}
