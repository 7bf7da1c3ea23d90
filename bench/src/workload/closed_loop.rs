//! Runs one round: tasks acquire, hold, release and think in a closed loop while others watch and count.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{
            AtomicBool, AtomicU64,
            Ordering::{Relaxed, SeqCst},
        },
    },
    time::{Duration, Instant},
};

use hdrhistogram::Histogram;
use tokio::task::JoinSet;

use super::{
    Workload,
    judge::{Hold, Judge},
    record::{TaskRecord, add, histogram},
};
use crate::{
    server_stats::{ServerCounts, ServerWatch},
    subject::{AcquireEnd, AcquireRequest, LockClient, ReleaseEnd},
};

/// Share of the lease that is not trusted, as in the contract's definition.
const DRIFT: f64 = 0.01;
/// How often holds are judged and dropped, and whether anything still moves is looked at.
const LOOK: Duration = Duration::from_millis(500);
/// Without any cycle for so long, and with errors, the target is given up.
const DEAD_AFTER: Duration = Duration::from_secs(4);
/// How long tasks may take to finish after the end of the window.
const DRAIN: Duration = Duration::from_secs(2);
/// How long a task keeps still after a failed acquire: a target that refuses is not to be stormed.
const AFTER_ERROR: Duration = Duration::from_millis(20);

/// A client as tasks share it.
pub(crate) type SharedClient = Arc<Box<dyn LockClient>>;

/// What a round needs.
pub(crate) struct Load {
    pub(crate) workload: &'static Workload,
    pub(crate) tasks: u32,
    /// Lock names, fresh for this round.
    pub(crate) locks: Vec<String>,
    pub(crate) kind: String,
    pub(crate) lease: Option<Duration>,
    pub(crate) wait: Duration,
    pub(crate) hold: Duration,
    pub(crate) think: Duration,
    pub(crate) warmup: Duration,
    pub(crate) duration: Duration,
}

/// What a round came to.
pub(crate) struct Round {
    pub(crate) cycles: u64,
    pub(crate) elapsed: Duration,
    pub(crate) per_task: Vec<u64>,
    pub(crate) acquire: Histogram<u64>,
    pub(crate) release: Histogram<u64>,
    pub(crate) handoff: Histogram<u64>,
    pub(crate) censored: u64,
    pub(crate) errors: u64,
    pub(crate) first_error: Option<String>,
    pub(crate) judge: Judge,
    pub(crate) little: Little,
    pub(crate) commands_per_cycle: Option<f64>,
    pub(crate) server_calls_per_cycle: Option<f64>,
    pub(crate) server_cpu_us_per_cycle: Option<f64>,
    pub(crate) client_cpu_us_per_cycle: Option<f64>,
    /// The target stopped answering, or the run was cancelled.
    pub(crate) cut_short: Option<String>,
}

/// Little's law: calls under way on average, looked at from outside and reckoned from the latencies.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Little {
    /// Mean of what the sampler saw.
    pub(crate) sampled: f64,
    /// Its standard error, from the means of ten stretches.
    pub(crate) error: f64,
    /// Throughput × mean response time, calls cut by the window's ends with the part inside.
    pub(crate) reckoned: f64,
}

struct Shared {
    load: Load,
    base: Instant,
    /// The window, nanoseconds on the round's clock; `u64::MAX` until it is known.
    from_ns: AtomicU64,
    to_ns: AtomicU64,
    stop: AtomicBool,
    records: Vec<TaskRecord>,
    /// Per lock: who released it last, and when the release was called.
    released: Vec<Mutex<Option<(u32, u64)>>>,
}

impl Shared {
    fn now_ns(&self) -> u64 {
        // One more, so that 0 can mean never.
        u64::try_from(self.base.elapsed().as_nanos()).unwrap_or(u64::MAX - 1) + 1
    }

    fn within(&self, t_ns: u64) -> bool {
        self.from_ns.load(Relaxed) <= t_ns && t_ns < self.to_ns.load(Relaxed)
    }

    /// The part of a call that lies in the window.
    fn inside(&self, from_ns: u64, to_ns: u64) -> u64 {
        let from = from_ns.max(self.from_ns.load(Relaxed));
        to_ns.min(self.to_ns.load(Relaxed)).saturating_sub(from)
    }

    /// When a contract that began with `sent_at` ends.
    fn contract_end_ns(&self, sent_at: Option<Instant>, called_ns: u64) -> u64 {
        let Some(lease) = self.load.lease else {
            return u64::MAX;
        };
        let sent_ns = sent_at
            .and_then(|at| at.checked_duration_since(self.base))
            .map_or(called_ns, |at| {
                u64::try_from(at.as_nanos()).unwrap_or(u64::MAX)
            });
        let trusted = lease.mul_f64(1.0 - DRIFT);
        sent_ns.saturating_add(u64::try_from(trusted.as_nanos()).unwrap_or(u64::MAX))
    }
}

/// Runs the round. Clients are connected; `servers` is asked before and after the window.
pub(crate) async fn run(
    load: Load,
    clients: &[SharedClient],
    servers: Option<&ServerWatch>,
    cancelled: impl Fn() -> bool,
) -> Round {
    let shared = Arc::new(Shared {
        base: Instant::now(),
        from_ns: AtomicU64::new(u64::MAX),
        to_ns: AtomicU64::new(u64::MAX),
        stop: AtomicBool::new(false),
        records: (0..load.tasks).map(|_| TaskRecord::new()).collect(),
        released: load.locks.iter().map(|_| Mutex::default()).collect(),
        load,
    });
    let mut tasks = JoinSet::new();
    for task in 0..shared.load.tasks {
        let client = clients[task as usize % clients.len()].clone();
        tasks.spawn(run_task(shared.clone(), client, task));
    }
    let mut judge = Judge::default();
    let mut cut_short = watch(&shared, shared.load.warmup, &mut judge, &cancelled).await;
    let before = snapshot(&shared, clients, servers).await;
    let sampler = sample_calls(shared.clone());
    let from_ns = shared.now_ns();
    shared.from_ns.store(from_ns, SeqCst);
    if cut_short.is_none() {
        cut_short = watch(&shared, shared.load.duration, &mut judge, &cancelled).await;
    }
    let to_ns = shared.now_ns();
    shared.to_ns.store(to_ns, SeqCst);
    let samples = sampler.finish();
    let after = snapshot(&shared, clients, servers).await;
    shared.stop.store(true, SeqCst);
    let drained = tokio::time::timeout(DRAIN, async { while tasks.join_next().await.is_some() {} });
    if drained.await.is_err() {
        tasks.shutdown().await;
    }
    judge_holds(&shared, &mut judge, true);
    collect(&shared, judge, &samples, &before, &after, cut_short)
}

/// Lets `length` pass; meanwhile judges holds and looks whether anything moves. What ended it early, if anything did.
async fn watch(
    shared: &Shared,
    length: Duration,
    judge: &mut Judge,
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
        judge_holds(shared, judge, false);
        let cycles = total_cycles(shared);
        if cycles != moved.1 {
            moved = (Instant::now(), cycles);
        }
        if moved.0.elapsed() >= DEAD_AFTER {
            let first_error = shared.records.iter().find_map(|record| {
                let samples = record.samples.lock().expect("no panic");
                samples.first_error.clone()
            });
            if let Some(error) = first_error {
                return Some(format!("no cycle for {DEAD_AFTER:?}: {error}"));
            }
        }
    }
}

fn total_cycles(shared: &Shared) -> u64 {
    shared.records.iter().map(|r| r.cycles.load(Relaxed)).sum()
}

/// Hands ended holds to the judge. `all`: no further hold will come; that of a task cut off while it held is left out, which
/// can hide an overlap and never invent one.
fn judge_holds(shared: &Shared, judge: &mut Judge, all: bool) {
    let now_ns = shared.now_ns();
    let watermark_ns = if all {
        u64::MAX
    } else {
        let open = shared.records.iter().map(|r| r.earliest_open(now_ns));
        open.min().unwrap_or(now_ns)
    };
    let mut ended = Vec::new();
    for record in &shared.records {
        let mut samples = record.samples.lock().expect("no panic");
        ended.append(&mut samples.holds);
    }
    judge.add(ended, watermark_ns);
}

async fn run_task(shared: Arc<Shared>, client: SharedClient, task: u32) {
    let load = &shared.load;
    let record = &shared.records[task as usize];
    let owner = format!("t{task}");
    let locks = u32::try_from(load.locks.len()).unwrap_or(u32::MAX);
    let mut cycle = 0;
    while !shared.stop.load(Relaxed) {
        let lock = load.workload.lock_of(task, cycle, load.tasks, locks);
        cycle += 1;
        let request = AcquireRequest {
            locks: vec![load.locks[lock as usize].clone()],
            kind: load.kind.clone(),
            owner: owner.clone(),
            wait: Some(load.wait),
            lease: load.lease,
            permits: None,
        };
        let called_ns = shared.now_ns();
        record.calling_since.store(called_ns, SeqCst);
        let end = client.acquire(request).await;
        let granted_ns = shared.now_ns();
        if matches!(end, AcquireEnd::Ok { .. }) {
            record.holding_since.store(granted_ns, SeqCst);
        }
        record.calling_since.store(0, SeqCst);
        let (grant, sent_at) = match end {
            AcquireEnd::Ok { grant, sent_at, .. } => (grant, sent_at),
            other => {
                not_acquired(&shared, record, called_ns, granted_ns, other).await;
                continue;
            }
        };
        let handed_on = if load.workload.hands_off {
            let mut released = shared.released[lock as usize].lock().expect("no panic");
            released.take().filter(|(by, _)| *by != task)
        } else {
            None
        };
        pause(load.hold).await;

        let release_ns = shared.now_ns();
        if load.workload.hands_off {
            let mut released = shared.released[lock as usize].lock().expect("no panic");
            *released = Some((task, release_ns));
        }
        record.calling_since.store(release_ns, SeqCst);
        let gone = client.release(&grant).await;
        let freed_ns = shared.now_ns();
        record.calling_since.store(0, SeqCst);
        {
            let mut samples = record.samples.lock().expect("no panic");
            samples.holds.push(Hold {
                lock,
                from_ns: granted_ns,
                to_ns: release_ns.min(shared.contract_end_ns(sent_at, called_ns)),
            });
            samples.in_calls_ns +=
                shared.inside(called_ns, granted_ns) + shared.inside(release_ns, freed_ns);
            if shared.within(granted_ns) {
                add(&mut samples.acquire, granted_ns - called_ns);
                if let Some((_, since_ns)) = handed_on {
                    add(&mut samples.handoff, granted_ns.saturating_sub(since_ns));
                }
            }
            match gone {
                ReleaseEnd::Ok => {
                    record.cycles.fetch_add(1, Relaxed);
                    if shared.within(freed_ns) {
                        add(&mut samples.release, freed_ns - release_ns);
                        samples.cycles += 1;
                    }
                }
                ReleaseEnd::NotHeld => samples.error("release", "the lock was not held any more"),
                ReleaseEnd::Failed(why) | ReleaseEnd::Unknown(why) => {
                    samples.error("release", &why);
                }
            }
        }
        record.holding_since.store(0, SeqCst);
        pause(load.think).await;
    }
}

async fn not_acquired(
    shared: &Shared,
    record: &TaskRecord,
    called_ns: u64,
    ended_ns: u64,
    end: AcquireEnd,
) {
    {
        let mut samples = record.samples.lock().expect("no panic");
        samples.in_calls_ns += shared.inside(called_ns, ended_ns);
        match end {
            AcquireEnd::Busy => {
                samples.censored += u64::from(shared.within(ended_ns));
                return;
            }
            AcquireEnd::Failed(why) | AcquireEnd::Unknown(why) => samples.error("acquire", &why),
            AcquireEnd::Ok { .. } => return,
        }
    }
    tokio::time::sleep(AFTER_ERROR).await;
}

async fn pause(length: Duration) {
    if !length.is_zero() {
        tokio::time::sleep(length).await;
    }
}

/// What is read before and after the window.
struct Snapshot {
    cycles: u64,
    commands: Option<u64>,
    client_cpu_us: Option<f64>,
    servers: Option<ServerCounts>,
    /// Cycles when the servers had answered: their counts belong to a later moment.
    cycles_at_servers: u64,
}

async fn snapshot(
    shared: &Shared,
    clients: &[SharedClient],
    servers: Option<&ServerWatch>,
) -> Snapshot {
    let cycles = total_cycles(shared);
    let commands = clients.iter().map(|c| c.commands()).sum();
    let client_cpu_us = client_cpu_us(clients);
    let counts = match servers {
        None => None,
        Some(servers) => servers.counts().await,
    };
    Snapshot {
        cycles,
        commands,
        client_cpu_us,
        servers: counts,
        cycles_at_servers: total_cycles(shared),
    }
}

/// CPU time of the clients: of their processes where they have some, else of this one.
fn client_cpu_us(clients: &[SharedClient]) -> Option<f64> {
    let pids: Vec<u32> = clients.iter().filter_map(|c| c.pid()).collect();
    if pids.is_empty() {
        use nix::sys::resource::{UsageWho, getrusage};
        let usage = getrusage(UsageWho::RUSAGE_SELF).ok()?;
        let times = [usage.user_time(), usage.system_time()];
        let us = |t: &nix::sys::time::TimeVal| t.tv_sec() as f64 * 1e6 + t.tv_usec() as f64;
        return Some(times.iter().map(us).sum());
    }
    pids.iter().map(|pid| process_cpu_us(*pid)).sum()
}

/// User and system time of a process. The kernel counts them in hundredths of a second on every Linux.
fn process_cpu_us(pid: u32) -> Option<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the name in brackets, which may contain anything; user and system time are fields 14 and 15.
    let after_name = stat.rsplit_once(')')?.1;
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    let ticks = fields.get(11)?.parse::<f64>().ok()? + fields.get(12)?.parse::<f64>().ok()?;
    Some(ticks * 10_000.0)
}

/// Looks each 2 ms how many calls are under way, from a thread of its own: a task would look only when others rest.
struct Sampler {
    stop: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<Vec<f64>>,
}

fn sample_calls(shared: Arc<Shared>) -> Sampler {
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = stop.clone();
    let thread = std::thread::spawn(move || {
        let mut seen = Vec::new();
        while !stopped.load(Relaxed) {
            std::thread::sleep(Duration::from_millis(2));
            seen.push(shared.records.iter().filter(|r| r.in_call()).count() as f64);
        }
        seen
    });
    Sampler { stop, thread }
}

impl Sampler {
    fn finish(self) -> Vec<f64> {
        self.stop.store(true, Relaxed);
        self.thread.join().unwrap_or_default()
    }
}

fn little(seen: &[f64], in_calls_ns: u64, window_ns: u64) -> Little {
    const STRETCHES: usize = 10;
    if seen.len() < STRETCHES || window_ns == 0 {
        return Little::default();
    }
    let mean = |xs: &[f64]| xs.iter().sum::<f64>() / xs.len() as f64;
    let sampled = mean(seen);
    let stretches: Vec<f64> = seen
        .chunks_exact(seen.len() / STRETCHES)
        .map(mean)
        .collect();
    let k = stretches.len() as f64;
    let spread: f64 = stretches.iter().map(|m| (m - sampled).powi(2)).sum();
    Little {
        sampled,
        error: (spread / (k - 1.0) / k).sqrt(),
        reckoned: in_calls_ns as f64 / window_ns as f64,
    }
}

fn collect(
    shared: &Shared,
    judge: Judge,
    seen: &[f64],
    before: &Snapshot,
    after: &Snapshot,
    cut_short: Option<String>,
) -> Round {
    let (from_ns, to_ns) = (shared.from_ns.load(SeqCst), shared.to_ns.load(SeqCst));
    let mut round = Round {
        cycles: 0,
        elapsed: Duration::from_nanos(to_ns - from_ns),
        per_task: Vec::new(),
        acquire: histogram(),
        release: histogram(),
        handoff: histogram(),
        censored: 0,
        errors: 0,
        first_error: None,
        judge,
        little: Little::default(),
        commands_per_cycle: None,
        server_calls_per_cycle: None,
        server_cpu_us_per_cycle: None,
        client_cpu_us_per_cycle: None,
        cut_short,
    };
    let mut in_calls_ns = 0;
    for record in &shared.records {
        // A call that never returned was under way until the window's end, and its wait is of unknown length.
        let since_ns = record.calling_since.load(SeqCst);
        if since_ns != 0 {
            in_calls_ns += shared.inside(since_ns, to_ns);
            round.censored += u64::from(record.holding_since.load(SeqCst) == 0);
        }
        let samples = record.samples.lock().expect("no panic");
        for (sum, part) in [
            (&mut round.acquire, &samples.acquire),
            (&mut round.release, &samples.release),
            (&mut round.handoff, &samples.handoff),
        ] {
            sum.add(part).expect("both grow as far as they must");
        }
        round.cycles += samples.cycles;
        round.per_task.push(samples.cycles);
        round.censored += samples.censored;
        round.errors += samples.errors;
        if round.first_error.is_none() {
            round.first_error.clone_from(&samples.first_error);
        }
        in_calls_ns += samples.in_calls_ns;
    }
    // Servers that answered before the window and do not now, or that neither answer nor grant: what was measured is the
    // target's death.
    let suspect = before.servers.is_some() || round.cycles == 0;
    if round.cut_short.is_none() && suspect && after.servers.is_none() {
        round.cut_short = round
            .first_error
            .as_ref()
            .map(|error| format!("a server stopped answering: {error}"));
    }
    round.little = little(seen, in_calls_ns, to_ns - from_ns);
    let per_cycle =
        |what: Option<f64>, cycles: u64| what.filter(|_| cycles > 0).map(|w| w / cycles as f64);
    let cycles = after.cycles - before.cycles;
    let difference = |a: Option<f64>, b: Option<f64>| Some(a? - b?).filter(|d| *d >= 0.0);
    let commands = |s: &Snapshot| s.commands.map(|n| n as f64);
    round.commands_per_cycle = per_cycle(difference(commands(after), commands(before)), cycles);
    round.client_cpu_us_per_cycle = per_cycle(
        difference(after.client_cpu_us, before.client_cpu_us),
        cycles,
    );
    let cycles = after.cycles_at_servers - before.cycles_at_servers;
    let calls = |s: &Snapshot| s.servers.map(|c| c.calls as f64);
    let cpu = |s: &Snapshot| s.servers.map(|c| c.cpu_us);
    round.server_calls_per_cycle = per_cycle(difference(calls(after), calls(before)), cycles);
    round.server_cpu_us_per_cycle = per_cycle(difference(cpu(after), cpu(before)), cycles);
    round
}
