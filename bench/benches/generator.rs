//! What the generator takes away from what it measures: the cycles that `locklab bench` counts beside the
//! library's own loop, which writes nothing down but their number. Beside them two loops on the library that
//! show what measuring costs at least: one with two readings of the clock and one value in a histogram per
//! cycle, and one with just what a row says, without any seam: four readings of the clock, a histogram each
//! of acquires and releases, and each hold, kept until its exclusion is judged, after what is timed.
//!
//! Round by round in one run on one server; `-- bare`, `-- least`, `-- recorded` or `-- measured` runs one
//! alone, for a profiler.
//!
//! Last, or alone with `-- far`: two clients against one, each a process of its own, at a server that is
//! 20 ms away. There a client waits for the link, and not for a core: what a second client adds is then what
//! the generator and the server leave of it.
#![allow(clippy::print_stdout)]

#[path = "../../lock-core/benches/locks/goals.rs"]
mod goals;

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use bench::driver::{self, BenchPlan, Hooks};
use cluster_config::{LinkFault, Links, Party, Process, Provisioner, Topology, TopologyKind, UpOptions};
use goals::{Bound, Ratio};
use hdrhistogram::Histogram;
use lock_core::{Acquire, Client, ClientOptions, Kind, Lease, Wait};

const SUBJECT: &str = "lock-core:reentrant";
const TASKS: [u32; 4] = [1, 16, 64, 256];
const ROUNDS: usize = 7;
const WARMUP: Duration = Duration::from_millis(100);
const WINDOW: Duration = Duration::from_millis(600);
const LEAST_OF_BARE: f64 = 0.9;
const MOST_OF_CLIENT: f64 = 0.1;
/// Two clients against one, where the server is so far away there and back; so many tasks each.
const LEAST_OF_TWO: f64 = 1.9;
const FAR: Duration = Duration::from_millis(20);
const FAR_TASKS: u32 = 8;

/// What goes round.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    Measured,
    Recorded,
    Least,
    Bare,
}

/// In the order of the columns.
const WAYS: [(Way, &str); 4] =
    [(Way::Measured, "measured"), (Way::Recorded, "recorded"), (Way::Least, "least"), (Way::Bare, "bare")];

/// What rounds with so many tasks came to.
#[derive(Default)]
struct Seen {
    /// Cycles per second, a column each.
    rates: [Vec<f64>; WAYS.len()],
    /// Processor time of a cycle of the row, and of the generator in it, in microseconds.
    client: Vec<f64>,
    generator: Vec<f64>,
}

#[tokio::main]
async fn main() {
    let only = std::env::args().skip(1).find(|arg| !arg.starts_with("--"));
    if only.as_deref() == Some("far") {
        return far_clients().await;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let topology = Topology::of(TopologyKind::Single);
    let server = Process.up(&topology, &UpOptions::new(dir.path())).await;
    let server = server.expect("a server");
    let url = server.url();
    println!("{SUBJECT}, uncontended: median of {ROUNDS} rounds of {WINDOW:?} each");
    println!(
        "tasks  measured/s recorded/s   least/s    bare/s   measured:bare recorded:bare least:bare   client µs   generator µs   share"
    );
    let mut all = Vec::new();
    for tasks in TASKS {
        let mut seen = Seen::default();
        for _ in 0..ROUNDS {
            for (at, (way, name)) in WAYS.into_iter().enumerate() {
                if only.as_deref().is_none_or(|only| only == name) {
                    let rate = match way {
                        Way::Measured => measured(&url, tasks, &mut seen).await,
                        _ => own_loop(&url, tasks, way).await,
                    };
                    seen.rates[at].push(rate);
                }
            }
        }
        seen.print(tasks);
        all.push((tasks, seen));
    }
    if only.is_none() {
        all.iter().for_each(|(tasks, seen)| seen.judge(*tasks));
        far_clients().await;
    }
    server.down().await.expect("a server that ends");
}

/// One client and two, in turns.
async fn far_clients() {
    let dir = tempfile::tempdir().expect("a directory");
    let options = UpOptions { links: Links::Proxied, ..UpOptions::new(dir.path()) };
    let server = Process.up(&Topology::of(TopologyKind::Single), &options).await;
    let server = server.expect("a server");
    let (client, node) = (Party::Client(0), Party::Node(server.nodes()[0].name.clone()));
    let links = server.links().expect("a proxy");
    let late = || LinkFault::Delay { latency: FAR / 2, jitter: Duration::ZERO };
    let delays = [links.apply(&client, &node, late()), links.apply(&node, &client, late())];
    let program = format!("exec:{} serve {SUBJECT}", env!("CARGO_BIN_EXE_bench-test-driver"));
    let mut rates = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        for (clients, rates) in (1..).zip(&mut rates) {
            let mut plan = BenchPlan::new(server.url());
            plan.subjects = vec![program.clone()];
            (plan.clients, plan.client_processes) = (clients, true);
            plan.tasks = vec![clients * FAR_TASKS];
            plan.rounds = 1;
            (plan.warmup, plan.duration) = (WARMUP, WINDOW);
            let outcome = driver::run(&plan, &Hooks::default()).await;
            rates.push(outcome.expect("a running server").rows[0].cycles_per_s.median);
        }
    }
    drop(delays);
    server.down().await.expect("a server that ends");
    let [one, two] = &rates;
    println!(
        "clients of {FAR_TASKS} tasks, {FAR:?} from the server: one {:.0} cycles/s, two {:.0} cycles/s",
        median(one),
        median(two)
    );
    let ratios = two.iter().zip(one).map(|(two, one)| two / one);
    let name = format!("two clients against one, {FAR:?} from the server");
    goals::ratio(&name, Ratio::of(ratios.collect()), Bound::AtLeast(LEAST_OF_TWO));
}

impl Seen {
    /// The ratio of a column to the last, which is the library's own loop.
    fn of_bare(&self, column: usize) -> Option<Ratio> {
        let bare = &self.rates[WAYS.len() - 1];
        let pairs = self.rates[column].iter().zip(bare);
        let ratios: Vec<f64> = pairs.map(|(rate, bare)| rate / bare).collect();
        (!ratios.is_empty()).then(|| Ratio::of(ratios))
    }

    /// The generator's share of the client's processor time.
    fn share(&self) -> f64 {
        median(&self.generator) / median(&self.client)
    }

    fn print(&self, tasks: u32) {
        let [measured, recorded, least, bare] = self.rates.each_ref().map(|rates| median(rates));
        let ratio = |column| self.of_bare(column).map_or(f64::NAN, |ratio| ratio.median);
        println!(
            "{tasks:>5} {measured:>11.0} {recorded:>10.0} {least:>9.0} {bare:>9.0} {:>15.3} {:>13.3} {:>10.3} {:>11.2} {:>14.2} {:>5.1} %",
            ratio(0),
            ratio(1),
            ratio(2),
            median(&self.client),
            median(&self.generator),
            100.0 * self.share(),
        );
    }

    fn judge(&self, tasks: u32) {
        let bound = Bound::AtLeast(LEAST_OF_BARE);
        let columns = ["cycles of a row", "cycles with just what a row says written down"];
        for (column, name) in columns.into_iter().enumerate() {
            let name = format!("{name} against the library's own loop, {tasks} tasks");
            goals::ratio(&name, self.of_bare(column).expect("all ran"), bound);
        }
        goals::figure(
            &format!("what the generator takes of the client, {tasks} tasks"),
            self.share(),
            "of its processor time",
            Bound::AtMost(MOST_OF_CLIENT),
        );
    }
}

/// Cycles per second of a row, whose other figures are kept.
async fn measured(url: &str, tasks: u32, seen: &mut Seen) -> f64 {
    let mut plan = BenchPlan::new(url);
    plan.subjects = vec![SUBJECT.into()];
    plan.tasks = vec![tasks];
    plan.rounds = 1;
    (plan.warmup, plan.duration) = (WARMUP, WINDOW);
    let outcome = driver::run(&plan, &Hooks::default()).await;
    let row = outcome.expect("a running server").rows.remove(0);
    seen.client.extend(row.client_cpu_us_per_cycle);
    seen.generator.extend(row.measures.generator_cpu_us_per_cycle);
    row.cycles_per_s.median
}

/// What some tasks of an own loop write down.
struct Kept {
    acquires: Histogram<u64>,
    releases: Histogram<u64>,
    holds: Vec<Hold>,
}

/// From the grant to the sending of the release.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Hold {
    task: u32,
    granted: Instant,
    sent: Instant,
}

impl Kept {
    fn new() -> Self {
        let histogram = || Histogram::new(3).expect("three digits");
        Kept { acquires: histogram(), releases: histogram(), holds: Vec::new() }
    }
}

/// Cycles per second of a loop on the library itself: each task has a lock of its own, and notes down what
/// the way says.
async fn own_loop(url: &str, tasks: u32, way: Way) -> f64 {
    let target = url.parse().expect("a URL");
    let client = Client::connect(&target, ClientOptions::default()).await;
    let client = client.expect("a running server");
    let (cycles, over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let kept: Arc<[_; 4]> = Arc::new(std::array::from_fn(|_| Mutex::new(Kept::new())));
    let running = (0..tasks).map(|task| {
        // Names as long as those of a run, which the server reads and hashes.
        let name = format!("locklab:bench:uncontended:{tasks}:0:bare:{task}");
        let lock = client.lock(Kind::Reentrant, &name);
        let lock = lock.expect("a name");
        let (cycles, over, kept) = (cycles.clone(), over.clone(), kept.clone());
        tokio::spawn(async move {
            let how = Acquire::default()
                .wait(Wait::AtMost(Duration::from_secs(10)))
                .lease(Lease::Fixed(Duration::from_secs(30)));
            let kept = || kept[task as usize % kept.len()].lock().expect("no panic");
            let ns = |from: Instant, to: Instant| to.duration_since(from).as_nanos() as u64;
            let (timed, recorded) = (way != Way::Bare, way == Way::Recorded);
            while !over.load(Relaxed) {
                let called = timed.then(Instant::now);
                let guard = lock.acquire_with(how.clone()).await.expect("nobody else's");
                let granted = recorded.then(Instant::now);
                let sent = recorded.then(Instant::now);
                guard.release().await.expect("a running server");
                let freed = timed.then(Instant::now);
                cycles.fetch_add(1, Relaxed);
                let Some((called, freed)) = called.zip(freed) else {
                    continue;
                };
                let mut kept = kept();
                let acquired = granted.unwrap_or(freed);
                kept.acquires.record(ns(called, acquired)).expect("it grows");
                if let Some((granted, sent)) = granted.zip(sent) {
                    kept.releases.record(ns(sent, freed)).expect("it grows");
                    kept.holds.push(Hold { task, granted, sent });
                }
            }
        })
    });
    let running: Vec<_> = running.collect();
    tokio::time::sleep(WARMUP).await;
    let (before, began) = (cycles.load(Relaxed), Instant::now());
    tokio::time::sleep(WINDOW).await;
    let rate = (cycles.load(Relaxed) - before) as f64 / began.elapsed().as_secs_f64();
    over.store(true, Relaxed);
    for task in running {
        task.await.expect("no panic");
    }
    client.close().await;
    let parts = kept.iter().map(|part| part.lock().expect("no panic"));
    let holds = parts.flat_map(|mut part| std::mem::take(&mut part.holds));
    let mut holds: Vec<Hold> = holds.collect();
    holds.sort();
    // Each task has its own lock: holds of one are holds of the other.
    let excluded = |pair: &[Hold]| pair[0].task != pair[1].task || pair[0].sent < pair[1].granted;
    assert!(holds.windows(2).all(excluded), "two holds of a lock at once");
    rate
}

fn median(of: &[f64]) -> f64 {
    let mut of = of.to_vec();
    of.sort_by(f64::total_cmp);
    of.get(of.len() / 2).copied().unwrap_or(f64::NAN)
}
