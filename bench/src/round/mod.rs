//! One round of a benchmark: tasks go through their workload while others watch, count and judge.
//!
//! | file | what it is for |
//! |---|---|
//! | `figures.rs`, `record.rs` | what tasks leave behind, and where |
//! | `judge.rs`, `ledger.rs` | overlaps; how each lock was handed on |
//! | `sampler.rs`, `machine.rs`, `renewals.rs` | watchers: load, machine, renewals |
//! | `joined.rs` | the rounds of several generators as one |
//! | `generator.rs` | what the generator itself costs |

mod figures;
mod generator;
mod joined;
mod judge;
pub(crate) mod ledger;
pub(crate) mod machine;
pub(crate) mod record;
mod renewals;
mod sampler;

use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio::{sync::mpsc, task::JoinSet};

use crate::driver_loop::{Counts, LoadReport};
use crate::load::{self, Connector, Load, LoadState, LoadTiming, Pacer, SharedClient, Task};
use crate::parts::{Barrier, BarrierError};
use crate::servers::server_stats::{ServerCounts, ServerWatch};
use crate::subject::ClientEvent;
use crate::workload::CycleShape;
use figures::Figures;
pub(crate) use figures::OfferedLoad;
use judge::Judge;
use ledger::{HandoffCounts, Ledger};
pub(crate) use machine::{Disturbance, Machine};
use record::Samples;
pub(crate) use renewals::RenewalMargins as Renewed;
pub(crate) use sampler::Little;

/// How often turns are judged and dropped, and whether anything still moves is looked at.
const LOOK: Duration = Duration::from_millis(500);
/// Without any cycle for so long, and with errors, the target is given up.
const DEAD_AFTER: Duration = Duration::from_secs(4);
/// How long tasks may take to finish after the end of the window.
const DRAIN: Duration = Duration::from_secs(2);
/// How long tasks may prepare: a million locks are taken at some thousand a second.
const PREPARE: Duration = Duration::from_secs(600);

#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Round {
    pub(crate) cycles: u64,
    pub(crate) elapsed: Duration,
    pub(crate) per_task: Vec<u64>,
    /// See [`results::over_time::share_min`].
    pub(crate) share_min: Option<f64>,
    pub(crate) samples: Samples,
    pub(crate) passed: HandoffCounts,
    pub(crate) offered: Option<OfferedLoad>,
    pub(crate) renewed: Renewed,
    /// Tasks that asked in the window and got nothing in it.
    pub(crate) starved: u64,
    /// The most holds that lasted at once, where a lock can have several.
    pub(crate) most_inside: Option<u64>,
    /// Grants whose holds were still open at the end of the window.
    pub(crate) judge: Judge,
    pub(crate) little: Little,
    pub(crate) spent: ResourceUse,
    pub(crate) disturbance: Disturbance,
    /// How far from the moment that generators had agreed on it may have begun; nought of one alone.
    pub(crate) apart: Duration,
    /// The target stopped answering, or the run was cancelled.
    #[serde(skip)]
    pub(crate) cut_short: Option<String>,
}

impl Round {
    pub(crate) fn seconds(&self) -> f64 {
        self.elapsed.as_secs_f64()
    }

    pub(crate) fn cycles_per_s(&self) -> f64 {
        self.cycles as f64 / self.seconds()
    }

    /// A round as the driver that ran it says; what it does not say is left out.
    pub(crate) fn reported(report: &LoadReport, spent: ResourceUse, disturbance: Disturbance) -> Round {
        let mut samples = Samples::default();
        for (what, counts) in [(LoadTiming::Acquire, &report.acquire), (LoadTiming::Release, &report.release)]
        {
            samples.fill(what, counts);
        }
        samples.errors = report.failed + report.unknown;
        samples.unknown = report.unknown;
        samples.first_error = (samples.errors > 0).then(|| "the driver does not say which".into());
        let count = |counts: &Counts| counts.iter().map(|(_, times)| times).sum::<u64>();
        let mut passed = HandoffCounts::default();
        passed.handoff.fill(&report.handoff_other);
        passed.grants = report.cycles;
        passed.to_another = passed.handoff.len();
        passed.to_itself = count(&report.handoff).saturating_sub(passed.to_another);
        Round {
            cycles: report.cycles,
            elapsed: Duration::from_nanos(report.elapsed_ns),
            per_task: report.per_task.clone(),
            samples,
            passed,
            starved: report.per_task.iter().filter(|n| **n == 0).count() as u64,
            spent,
            disturbance,
            ..Round::default()
        }
    }

    pub(crate) fn handoff_p50(&self) -> Option<f64> {
        let handoff = &self.passed.handoff;
        (!handoff.is_empty()).then(|| handoff.value_at_quantile(0.5) as f64)
    }

    /// What was spent per cycle by clients, where it is known.
    pub(crate) fn per_cycle(&self, what: Option<f64>) -> Option<f64> {
        what.filter(|_| self.spent.cycles > 0).map(|what| what / self.spent.cycles as f64)
    }

    pub(crate) fn per_server_cycle(&self, what: Option<f64>) -> Option<f64> {
        what.filter(|_| self.spent.cycles_at_servers > 0)
            .map(|what| what / self.spent.cycles_at_servers as f64)
    }
}

#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct ResourceUse {
    /// Cycles between the readings of the clients' counters, which lie a little outside the window.
    pub(crate) cycles: u64,
    /// Cycles between the readings of the servers' counters.
    pub(crate) cycles_at_servers: u64,
    pub(crate) commands: Option<f64>,
    pub(crate) client_cpu_us: Option<f64>,
    /// Of one cycle: what the generator and its records cost in it.
    pub(crate) generator_cpu_us: Option<f64>,
    pub(crate) server_calls: Option<f64>,
    pub(crate) server_cpu_us: Option<f64>,
    pub(crate) server_bytes: Option<f64>,
    /// Server memory at the beginning of the window beyond that before the round.
    pub(crate) server_memory: Option<f64>,
    pub(crate) client_memory: Option<f64>,
}

impl ResourceUse {
    /// What servers spent between two readings; the rest is not known.
    pub(crate) fn of_servers(before: Option<&ServerCounts>, after: Option<&ServerCounts>) -> Self {
        let more = |what: &dyn Fn(&ServerCounts) -> Option<f64>| {
            Some(what(after?)? - what(before?)?).filter(|d| *d >= 0.0)
        };
        ResourceUse {
            server_calls: more(&|c| c.calls.map(|n| n as f64)),
            server_cpu_us: more(&|c| Some(c.cpu_us)),
            server_bytes: more(&|c| c.bytes.map(|n| n as f64)),
            ..ResourceUse::default()
        }
    }
}

pub(crate) struct Plan {
    pub(crate) load: Load,
    pub(crate) asks: CycleShape,
    pub(crate) connector: Connector,
    /// Time before the window, which does not count.
    pub(crate) warmup: Duration,
    pub(crate) duration: Duration,
    /// Where the generators of this load meet before the warm-up, and as which step.
    pub(crate) meeting: Option<(Arc<Barrier>, u64)>,
}

pub(crate) struct Clients {
    pub(crate) clients: Vec<SharedClient>,
    /// What each client reports unasked, where the workload listens.
    pub(crate) events: Vec<mpsc::UnboundedReceiver<ClientEvent>>,
}

/// Runs the round; `servers` is asked before and after the window.
pub(crate) async fn run(
    plan: Plan,
    Clients { clients, events }: &mut Clients,
    servers: Option<&ServerWatch>,
    cancelled: impl Fn() -> bool,
) -> Round {
    let shared = Arc::new(LoadState::new(plan.load, Some(plan.connector), None));
    let figures = Figures::new(&shared, plan.asks, clients.len());
    let idle = snapshot(&figures, &shared, clients, servers).await;
    let listeners = listen(&figures, std::mem::take(events));
    let mut tasks = JoinSet::new();
    for number in 0..shared.load.own_tasks() {
        let client = clients[number as usize % clients.len()].clone();
        let seed = shared.load.seed.wrapping_mul(0x9E37_79B9);
        tasks.spawn(load::run(Task::new(
            shared.clone(),
            client,
            None,
            figures.clone(),
            (number, format!("t{number}")),
            seed.wrapping_add(u64::from(number)),
        )));
    }
    let pacer = Pacer::start(&shared, figures.clone());
    let mut ledger = Ledger::new(plan.asks.permits());
    let mut cut_short = prepared(&shared, &figures, &mut ledger, &cancelled).await;
    let mut apart = Duration::ZERO;
    if let (None, Some((barrier, step))) = (&cut_short, &plan.meeting) {
        match with_others(barrier.meet(*step), &figures, &mut ledger, &cancelled).await {
            Ok(off) => apart = off,
            Err(why) => cut_short = Some(why),
        }
    }
    if cut_short.is_none() {
        cut_short = watch(&figures, plan.warmup, &mut ledger, &cancelled).await;
    }
    let before = snapshot(&figures, &shared, clients, servers).await;
    let noise = Machine::read();
    let sampler = sampler::Sampler::start(figures.clone());
    let from_ns = figures.now_ns();
    let to_ns = from_ns.saturating_add(u64::try_from(plan.duration.as_nanos()).unwrap_or(u64::MAX));
    ledger.set_window(from_ns, to_ns);
    figures.set_window(from_ns, to_ns);
    if cut_short.is_none() {
        cut_short = watch(&figures, plan.duration, &mut ledger, &cancelled).await;
    }
    // A window that was cut short ends now; else it ended when it was to, though we may have woken later.
    let to_ns = figures.now_ns().min(to_ns);
    figures.set_window(from_ns, to_ns);
    let samples = sampler.finish();
    let disturbance = noise.until(&Machine::read(), Duration::from_nanos(to_ns - from_ns).as_secs_f64());
    // Once the load is over, a library that goes away gives up what it was to keep.
    figures.renewals.end();
    let after = snapshot(&figures, &shared, clients, servers).await;
    shared.end();
    let drained = tokio::time::timeout(DRAIN, async { while tasks.join_next().await.is_some() {} });
    if drained.await.is_err() {
        tasks.shutdown().await;
    }
    for listener in listeners {
        listener.abort();
    }
    if let Some(pacer) = pacer {
        pacer.finish();
    }
    look(&mut ledger, &figures, true);
    let mut round = collect(&figures, ledger, &samples, &before, &after, cut_short);
    round.spent.server_memory = gained(&idle, &before, |s| s.servers?.memory_bytes.map(|n| n as f64));
    round.spent.client_memory = gained(&idle, &before, |s| Some(s.client_rss? as f64));
    round.disturbance = disturbance;
    round.apart = apart;
    round.spent.generator_cpu_us = generator::cpu_us(&shared.load, plan.asks, clients);
    round
}

fn gained(a: &Snapshot, b: &Snapshot, what: impl Fn(&Snapshot) -> Option<f64>) -> Option<f64> {
    Some(what(b)? - what(a)?)
}

/// Reads the clients' events, where the workload wants them.
fn listen(
    figures: &Arc<Figures>,
    events: Vec<mpsc::UnboundedReceiver<ClientEvent>>,
) -> Vec<tokio::task::JoinHandle<()>> {
    (0..)
        .zip(events)
        .map(|(client, events)| {
            let figures = figures.clone();
            tokio::spawn(async move { renewals::watch(&figures, client, events).await })
        })
        .collect()
}

/// Hands on turns that are over. `all`: no further one will come; that of a task cut off while it held is
/// left out, which can hide an overlap and never invent one.
fn look(ledger: &mut Ledger, figures: &Figures, all: bool) {
    let now_ns = figures.now_ns();
    let watermark_ns = if all {
        u64::MAX
    } else {
        figures.states.iter().map(|s| s.earliest_open(now_ns)).min().unwrap_or(now_ns)
    };
    for mut shard in figures.samples.parts() {
        ledger.take(|room| {
            std::mem::swap(&mut shard.turns, room);
            drop(shard);
        });
    }
    ledger.look(watermark_ns);
}

/// Waits until every task that prepares is ready.
async fn prepared(
    shared: &LoadState,
    figures: &Figures,
    ledger: &mut Ledger,
    cancelled: &impl Fn() -> bool,
) -> Option<String> {
    let began = Instant::now();
    while shared.preparing.load(SeqCst) > 0 {
        if cancelled() {
            return Some("interrupted".into());
        }
        if began.elapsed() > PREPARE {
            return Some(format!("not every lock was taken within {PREPARE:?}"));
        }
        if let (Some(error), true) = (figures.first_error(), began.elapsed() > DEAD_AFTER) {
            return Some(format!("locks could not be taken: {error}"));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
        look(ledger, figures, false);
    }
    None
}

/// Waits for the other generators; meanwhile judges turns.
async fn with_others(
    met: impl Future<Output = Result<Duration, BarrierError>>,
    figures: &Figures,
    ledger: &mut Ledger,
    cancelled: &impl Fn() -> bool,
) -> Result<Duration, String> {
    let mut met = std::pin::pin!(met);
    loop {
        match tokio::time::timeout(LOOK, &mut met).await {
            Ok(met) => return met.map_err(|error| error.to_string()),
            Err(_) if cancelled() => return Err("interrupted".into()),
            Err(_) => look(ledger, figures, false),
        }
    }
}

/// Lets `length` pass; meanwhile judges turns and looks whether anything moves. What ended it early.
async fn watch(
    figures: &Figures,
    length: Duration,
    ledger: &mut Ledger,
    cancelled: &impl Fn() -> bool,
) -> Option<String> {
    let end = Instant::now() + length;
    let mut moved = (Instant::now(), 0);
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return None;
        }
        tokio::time::sleep(left.min(LOOK)).await;
        if cancelled() {
            return Some("interrupted".into());
        }
        look(ledger, figures, false);
        let cycles = figures.total_cycles();
        if cycles != moved.1 {
            moved = (Instant::now(), cycles);
        }
        if let (Some(error), true) = (figures.first_error(), moved.0.elapsed() >= DEAD_AFTER) {
            return Some(format!("no cycle for {DEAD_AFTER:?}: {error}"));
        }
    }
}

/// What is read before and after the window.
struct Snapshot {
    cycles: u64,
    commands: Option<u64>,
    client_cpu_us: Option<f64>,
    client_rss: Option<u64>,
    servers: Option<ServerCounts>,
    /// Cycles when the servers had answered: their counts belong to a later moment.
    cycles_at_servers: u64,
}

async fn snapshot(
    figures: &Figures,
    shared: &LoadState,
    clients: &[SharedClient],
    servers: Option<&ServerWatch>,
) -> Snapshot {
    let commands = clients.iter().map(|client| client.commands());
    let commands = futures_util::future::join_all(commands).await;
    let standing: Option<u64> = commands.into_iter().sum();
    // Those of tasks' own count once they are closed.
    let gone = shared.connector.as_ref().map_or(Some(0), Connector::commands);
    let commands = standing.zip(gone).map(|(standing, gone)| standing + gone);
    // Read at once after the count, which may have come by a pipe: both then belong to one moment.
    let cycles = figures.total_cycles();
    let (client_cpu_us, client_rss) = machine::client_use(clients);
    let counts = match servers {
        None => None,
        Some(servers) => servers.counts().await,
    };
    Snapshot {
        cycles,
        commands,
        client_cpu_us,
        client_rss,
        servers: counts,
        cycles_at_servers: figures.total_cycles(),
    }
}

fn collect(
    figures: &Figures,
    ledger: Ledger,
    seen: &[f64],
    before: &Snapshot,
    after: &Snapshot,
    cut_short: Option<String>,
) -> Round {
    let (from_ns, to_ns) = figures.window();
    let mut samples = Samples::default();
    for shard in figures.samples.parts() {
        samples.merge(&shard);
    }
    for state in &figures.states {
        // A call that never returned was under way until the window's end, and its wait is of unknown length.
        let since_ns = state.calling_since.load(SeqCst);
        if since_ns != 0 {
            samples.in_calls_ns += figures.inside(since_ns, to_ns);
            if state.holding_since.load(SeqCst) == 0 && since_ns < to_ns {
                samples.add(LoadTiming::GaveUp, to_ns - since_ns);
            }
        }
    }
    let per_task: Vec<u64> = figures.states.iter().map(|state| state.in_window.load(Relaxed)).collect();
    let starved = figures
        .states
        .iter()
        .filter(|state| state.asked.load(Relaxed) > 0 && state.in_window.load(Relaxed) == 0)
        .count() as u64;
    let mut clients = vec![(0, 0); per_task.len().min(figures.clients as usize)];
    for (number, grants) in per_task.iter().enumerate() {
        let client = &mut clients[number % figures.clients as usize];
        *client = (client.0 + grants, client.1 + 1);
    }
    let cycles = per_task.iter().sum();
    let (passed, judge) = ledger.finish();
    let mut round = Round {
        cycles,
        elapsed: Duration::from_nanos(to_ns.saturating_sub(from_ns)),
        per_task,
        share_min: results::over_time::share_min(&clients),
        passed,
        offered: figures.take_offered(),
        renewed: figures.renewals.take(),
        starved,
        most_inside: figures.most_inside(),
        judge,
        little: sampler::little(seen, samples.in_calls_ns, to_ns.saturating_sub(from_ns)),
        spent: spent(before, after),
        cut_short,
        samples,
        ..Round::default()
    };
    // Servers that stopped answering, or that neither answer nor grant: what was measured is their death.
    let suspect = before.servers.is_some() || round.cycles == 0;
    if round.cut_short.is_none() && suspect && after.servers.is_none() {
        round.cut_short =
            round.samples.first_error.as_ref().map(|error| format!("a server stopped answering: {error}"));
    }
    round
}

fn spent(before: &Snapshot, after: &Snapshot) -> ResourceUse {
    let more =
        |what: &dyn Fn(&Snapshot) -> Option<f64>| Some(what(after)? - what(before)?).filter(|d| *d >= 0.0);
    ResourceUse {
        cycles: after.cycles - before.cycles,
        cycles_at_servers: after.cycles_at_servers - before.cycles_at_servers,
        commands: more(&|s| s.commands.map(|n| n as f64)),
        client_cpu_us: more(&|s| s.client_cpu_us),
        ..ResourceUse::of_servers(before.servers.as_ref(), after.servers.as_ref())
    }
}
