//! Turns a line of waiters into the figures of a hand-off: from the moment a release is sent to the moment the next acquire
//! returns, beside the bare way of a message from one connection to another through the same server.
//!
//! All but one always wait: a releaser queues again only when the next one has the lock. The holder works for 5 ms.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use futures_util::StreamExt as _;
use lock_core::{Acquire, Client, Kind, Lease};
use tokio::sync::watch;

use crate::{Failure, cycle::connect, median, support::Server};

const WORK: Duration = Duration::from_millis(5);
/// Where a lock goes from client to client.
const CLIENTS: usize = 8;
const WAITERS: [usize; 4] = [1, 15, 63, 1000];
/// A single and the most that a waiter should need in all: a place, and giving it back.
const GOAL_GAP: f64 = 1.2;

/// The hand-offs of one line.
struct Chain {
    gaps_us: Vec<f64>,
    commands: f64,
    jain: f64,
}

pub(crate) async fn run() -> Result<(), Failure> {
    let server = Server::start(&[]);
    println!(
        "hand-off in a line whose holder works 5 ms, by {WAITERS:?} waiters of one client or of several in turn"
    );
    println!(
        "{:<10} {:>8} {:>8} {:>10} {:>10} {:>12} {:>9} {:>10} {:>6}",
        "kind",
        "clients",
        "waiters",
        "gap p50",
        "gap p99",
        "message p50",
        "ratio",
        "commands",
        "Jain"
    );
    for waiters in WAITERS {
        for (kind, clients) in [
            (Kind::Queued, 1),
            (Kind::Queued, CLIENTS.min(waiters + 1)),
            (Kind::Fair, 1),
            (Kind::Reentrant, 1),
        ] {
            let hand_offs = 300.max(waiters / 2);
            let before = message(&server, 100).await?;
            let chain = chain(&server, kind, clients, waiters + 1, hand_offs).await?;
            let bare = median([before, message(&server, 100).await?].concat());
            let gap = median(chain.gaps_us.clone());
            let mut sorted = chain.gaps_us;
            sorted.sort_by(f64::total_cmp);
            let p99 = sorted[sorted.len() * 99 / 100];
            let ratio = gap / bare;
            println!(
                "{kind:<10} {clients:>8} {waiters:>8} {gap:>7.0} µs {p99:>7.0} µs {bare:>9.0} µs {ratio:>9.2} {:>10.2} {:>6.3}{}",
                chain.commands,
                chain.jain,
                if kind == Kind::Queued && ratio > GOAL_GAP {
                    "  (goal: 1.2)"
                } else {
                    ""
                }
            );
        }
    }
    Ok(())
}

/// The way of a message from sending to hearing, once for every 5 ms.
async fn message(server: &Server, count: usize) -> Result<Vec<f64>, Failure> {
    let client = redis::Client::open(server.url())?;
    let mut ears = client.get_async_pubsub().await?;
    ears.subscribe("bare").await?;
    let mut mouth = client.get_multiplexed_async_connection().await?;
    let mut heard = ears.into_on_message();
    let mut gaps_us = Vec::with_capacity(count);
    for _ in 0..count {
        tokio::time::sleep(WORK).await;
        let sent = Instant::now();
        // As in the line, speaker and hearer are tasks of their own.
        let mut mouth = mouth.clone();
        let said = tokio::spawn(async move {
            redis::cmd("PUBLISH")
                .arg("bare")
                .arg("x")
                .exec_async(&mut mouth)
                .await
        });
        heard.next().await.ok_or("no message")?;
        gaps_us.push(sent.elapsed().as_secs_f64() * 1e6);
        said.await??;
    }
    let _: () = redis::cmd("PING").exec_async(&mut mouth).await?;
    Ok(gaps_us)
}

async fn chain(
    server: &Server,
    kind: Kind,
    clients: usize,
    tasks: usize,
    hand_offs: usize,
) -> Result<Chain, Failure> {
    let mut all: Vec<Client> = Vec::new();
    for _ in 0..clients {
        all.push(connect(server).await?);
    }
    let name = format!("chain:{kind}:{clients}:{tasks}");
    let locks = all.iter().map(|client| client.lock(kind, &name));
    let locks = locks.collect::<Result<Vec<_>, _>>()?;
    let asked = || {
        all.iter()
            .map(|client| client.stats().commands)
            .sum::<u64>()
    };
    let gaps_us = Arc::new(Mutex::new(Vec::new()));
    let released: Arc<Mutex<Option<Instant>>> = Arc::default();
    let grants = watch::Sender::new(0_usize);
    let waiting = Arc::new(AtomicUsize::new(0));
    let served: Arc<Vec<AtomicUsize>> = Arc::new((0..tasks).map(|_| AtomicUsize::new(0)).collect());
    let first = locks[0]
        .acquire(Acquire::default().lease(Lease::Renewed))
        .await?;
    let mut runs = Vec::new();
    for task in 0..tasks {
        let (lock, gaps_us, released, grants) = (
            locks[task % clients].clone(),
            Arc::clone(&gaps_us),
            Arc::clone(&released),
            grants.clone(),
        );
        let (waiting, served) = (Arc::clone(&waiting), Arc::clone(&served));
        runs.push(tokio::spawn(async move {
            let mut seen = grants.subscribe();
            loop {
                waiting.fetch_add(1, Ordering::Relaxed);
                let guard = lock.acquire(Acquire::default()).await?;
                let now = Instant::now();
                let sent = released
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .take();
                if let Some(sent) = sent {
                    let gap = now.saturating_duration_since(sent).as_secs_f64() * 1e6;
                    gaps_us
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .push(gap);
                }
                grants.send_modify(|grants| *grants += 1);
                let mine = *grants.borrow();
                served[task].fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(WORK).await;
                *released.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
                guard.release().await?;
                if mine > hand_offs {
                    return Ok::<(), Failure>(());
                }
                seen.wait_for(|grants| *grants > mine).await?;
            }
        }));
    }
    while waiting.load(Ordering::Relaxed) < tasks {
        tokio::time::sleep(WORK).await;
    }
    // Everybody has had time to reach the server.
    tokio::time::sleep(WORK * 20).await;
    let before = asked();
    first.release().await?;
    let mut seen = grants.subscribe();
    seen.wait_for(|grants| *grants >= hand_offs).await?;
    let commands = (asked() - before) as f64 / hand_offs as f64;
    for run in &runs {
        run.abort();
    }
    let served: Vec<f64> = served
        .iter()
        .map(|n| n.load(Ordering::Relaxed) as f64)
        .collect();
    // Whoever could not come to his turn yet says nothing about fairness.
    let turns: Vec<f64> = if hand_offs >= tasks {
        served
    } else {
        served.into_iter().filter(|n| *n > 0.0).collect()
    };
    let (sum, squares) = turns
        .iter()
        .fold((0.0, 0.0), |(s, q), n| (s + n, q + n * n));
    let jain = sum * sum / (turns.len() as f64 * squares);
    for client in all {
        client.close().await;
    }
    let gaps_us = std::mem::take(&mut *gaps_us.lock().unwrap_or_else(PoisonError::into_inner));
    Ok(Chain {
        gaps_us,
        commands,
        jain,
    })
}
