//! The figures of a hand-off in a line of waiters: from the moment a release is sent to the moment the next
//! acquire returns, beside the bare way of a message from one connection to another through the same server.
//!
//! All but one always wait: a releaser queues again only when the next one has the lock. The holder works for
//! 5 ms. Every so many hand-offs a holder keeps the lock until some bare messages have gone their way, so
//! that both sides meet the machine at the same pace, with the same waiters behind them.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use futures_util::StreamExt as _;
use lock_core::{Acquire, Client, Kind, Lease};
use redis::aio::{MultiplexedConnection, PubSubStream};
use tokio::sync::{mpsc, oneshot, watch};

use crate::{
    Failure,
    cycle::{ROUNDS, connect},
    goals::{self, Bound, Ratio},
    median,
    support::Server,
};

const WORK: Duration = Duration::from_millis(5);
/// Between how many a lock goes from client to client.
const CLIENTS: [usize; 2] = [2, 8];
/// Bare messages between two rounds.
const MESSAGES: usize = 25;
const WAITERS: [usize; 4] = [1, 15, 63, 1000];
/// A single and the most that a waiter should need in all: a place, and giving it back.
const GOAL_GAP: f64 = 1.2;

/// The hand-offs of one line.
struct Chain {
    /// Of each round.
    gaps_us: Vec<Vec<f64>>,
    /// Before the first round, and after each.
    bare_us: Vec<Vec<f64>>,
    commands: f64,
    jain: f64,
}

impl Chain {
    /// The gap against a bare message before and after, for each round.
    fn ratio(&self) -> Ratio {
        let around = self.bare_us.windows(2).map(|around| median(around.concat()));
        let rounds = self.gaps_us.iter().zip(around);
        Ratio::of(rounds.map(|(gaps_us, bare_us)| median(gaps_us.clone()) / bare_us).collect())
    }
}

pub(crate) async fn run() -> Result<(), Failure> {
    let server = Server::start(&[]);
    println!(
        "hand-off in a line whose holder works 5 ms, by {WAITERS:?} waiters of one client or of several in turn"
    );
    println!(
        "{:<10} {:>8} {:>8} {:>10} {:>10} {:>12} {:>6} {:>9} {:>6}",
        "kind", "clients", "waiters", "gap p50", "gap p99", "message p50", "ratio", "commands", "Jain"
    );
    let mut queued = Vec::new();
    for waiters in WAITERS {
        let between = CLIENTS.map(|clients| clients.min(waiters + 1));
        let mut queues = vec![1];
        queues.extend(between);
        queues.dedup();
        let rows = queues.into_iter().map(|clients| (Kind::Queued, clients));
        for (kind, clients) in rows.chain([(Kind::Fair, 1), (Kind::Reentrant, 1)]) {
            let chain = chain(&server, kind, clients, waiters + 1).await?;
            let ratio = chain.ratio();
            let mut gaps_us = chain.gaps_us.concat();
            gaps_us.sort_by(f64::total_cmp);
            println!(
                "{kind:<10} {clients:>8} {waiters:>8} {:>7.0} µs {:>7.0} µs {:>9.0} µs {:>6.2} {:>9.2} {:>6.3}",
                gaps_us[gaps_us.len() / 2],
                gaps_us[gaps_us.len() * 99 / 100],
                median(chain.bare_us.concat()),
                ratio.median,
                chain.commands,
                chain.jain,
            );
            if kind == Kind::Queued {
                queued.push((clients, waiters, ratio));
            }
        }
    }
    for (clients, waiters, ratio) in queued {
        let name = format!("hand-off against a bare message, {waiters} waiters of {clients} client(s)");
        goals::ratio(&name, ratio, Bound::AtMost(GOAL_GAP));
    }
    Ok(())
}

/// A message from one connection to another, once for every 5 ms.
struct Bare {
    mouth: MultiplexedConnection,
    heard: PubSubStream,
}

impl Bare {
    async fn new(server: &Server) -> Result<Self, Failure> {
        let client = redis::Client::open(server.url())?;
        let mut ears = client.get_async_pubsub().await?;
        ears.subscribe("bare").await?;
        Ok(Bare { mouth: client.get_multiplexed_async_connection().await?, heard: ears.into_on_message() })
    }

    /// From sending to hearing.
    async fn messages_us(&mut self) -> Result<Vec<f64>, Failure> {
        let mut ways_us = Vec::with_capacity(MESSAGES);
        for _ in 0..MESSAGES {
            tokio::time::sleep(WORK).await;
            let sent = Instant::now();
            // As in the line, speaker and hearer are tasks of their own.
            let mut mouth = self.mouth.clone();
            let said = tokio::spawn(async move {
                redis::cmd("PUBLISH").arg("bare").arg("x").exec_async(&mut mouth).await
            });
            self.heard.next().await.ok_or("no message")?;
            ways_us.push(sent.elapsed().as_secs_f64() * 1e6);
            said.await??;
        }
        Ok(ways_us)
    }
}

async fn chain(server: &Server, kind: Kind, clients: usize, tasks: usize) -> Result<Chain, Failure> {
    let round = 50.max(tasks / 2 / ROUNDS);
    let hand_offs = round * ROUNDS;
    let mut bare = Bare::new(server).await?;
    let mut all: Vec<Client> = Vec::new();
    for _ in 0..clients {
        all.push(connect(server).await?);
    }
    let name = format!("chain:{kind}:{clients}:{tasks}");
    let locks = all.iter().map(|client| client.lock(kind, &name));
    let locks = locks.collect::<Result<Vec<_>, _>>()?;
    let asked = || all.iter().map(|client| client.stats().commands).sum::<u64>();
    let gaps_us = Arc::new(Mutex::new(vec![Vec::new(); ROUNDS]));
    let released: Arc<Mutex<Option<Instant>>> = Arc::default();
    let grants = watch::Sender::new(0_usize);
    let waiting = Arc::new(AtomicUsize::new(0));
    let served: Arc<Vec<AtomicUsize>> = Arc::new((0..tasks).map(|_| AtomicUsize::new(0)).collect());
    let first = locks[0].acquire_with(Acquire::default().lease(Lease::Renewed)).await?;
    let (pauses, mut paused) = mpsc::channel::<oneshot::Sender<()>>(1);
    let mut runs = Vec::new();
    for task in 0..tasks {
        let (lock, gaps_us, released, grants) =
            (locks[task % clients].clone(), Arc::clone(&gaps_us), Arc::clone(&released), grants.clone());
        let pauses = pauses.clone();
        let (waiting, served) = (Arc::clone(&waiting), Arc::clone(&served));
        runs.push(tokio::spawn(async move {
            let mut seen = grants.subscribe();
            loop {
                waiting.fetch_add(1, Ordering::Relaxed);
                let guard = lock.acquire_with(Acquire::default()).await?;
                let now = Instant::now();
                let sent = released.lock().unwrap_or_else(PoisonError::into_inner).take();
                let mine = *grants.borrow() + 1;
                if let Some(sent) = sent {
                    let gap_us = now.saturating_duration_since(sent).as_secs_f64() * 1e6;
                    let mut gaps_us = gaps_us.lock().unwrap_or_else(PoisonError::into_inner);
                    if let Some(gaps_us) = gaps_us.get_mut((mine - 1) / round) {
                        gaps_us.push(gap_us);
                    }
                }
                grants.send_modify(|grants| *grants += 1);
                served[task].fetch_add(1, Ordering::Relaxed);
                if mine % round == 0 && mine <= hand_offs {
                    let (goes_on, go_on) = oneshot::channel();
                    pauses.send(goes_on).await?;
                    go_on.await?;
                }
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
    // When the last task has failed nothing is heard of them any more.
    drop(pauses);
    while waiting.load(Ordering::Relaxed) < tasks {
        tokio::time::sleep(WORK).await;
    }
    // Everybody has had time to reach the server.
    tokio::time::sleep(WORK * 20).await;
    let mut bare_us = vec![bare.messages_us().await?];
    let before = asked();
    first.release().await?;
    let mut commands = 0;
    while let Some(goes_on) = paused.recv().await {
        commands = asked() - before;
        bare_us.push(bare.messages_us().await?);
        if bare_us.len() > ROUNDS {
            break;
        }
        // Who has failed since does not wait for it.
        let _ = goes_on.send(());
    }
    if bare_us.len() <= ROUNDS {
        return Err("the line has come to a stand".into());
    }
    let commands = commands as f64 / hand_offs as f64;
    for run in &runs {
        run.abort();
    }
    let served: Vec<f64> = served.iter().map(|n| n.load(Ordering::Relaxed) as f64).collect();
    // A waiter whose turn has not come yet says nothing about fairness.
    let turns: Vec<f64> =
        if hand_offs >= tasks { served } else { served.into_iter().filter(|n| *n > 0.0).collect() };
    let (sum, squares) = turns.iter().fold((0.0, 0.0), |(s, q), n| (s + n, q + n * n));
    let jain = sum * sum / (turns.len() as f64 * squares);
    for client in all {
        client.close().await;
    }
    let gaps_us = std::mem::take(&mut *gaps_us.lock().unwrap_or_else(PoisonError::into_inner));
    Ok(Chain { gaps_us, bare_us, commands, jain })
}
