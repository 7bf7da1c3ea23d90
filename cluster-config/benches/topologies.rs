//! Measures real starts, stops and failovers: how long each topology takes, and what of a failover was the
//! servers' own; of a large cluster also what it takes while nobody asks.
//!
//! `cargo bench -p cluster-config --bench topologies [-- ROUNDS] [large]`; `large` is that one alone.
//! Medians of wall-clock times, with the least and the greatest. Containers are measured where an engine
//! answers; goals are those of processes.
#![allow(missing_docs, clippy::print_stdout, reason = "a program that prints a table")]

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use cluster_config::{
    Data, Deployment, Links, Process, Provisioner, Role, Server, Topology, TopologyKind, UpOptions,
    ran_and_waited_ns, threads,
};

/// Far beyond any failover here.
const PATIENCE: Duration = Duration::from_secs(30);

/// A large cluster: masters, each with a replica; how long its start may take, and how much of a core it may
/// take while nobody asks, over so long.
const SHARDS: u32 = 32;
const LARGE_START: Duration = Duration::from_secs(20);
const IDLE_SHARE: f64 = 0.3;
const IDLE: Duration = Duration::from_secs(10);

/// How long a start may take, by what was promised.
fn goal(kind: TopologyKind) -> Duration {
    Duration::from_millis(match kind {
        TopologyKind::Single | TopologyKind::Masters => 100,
        TopologyKind::Sentinel => 1000,
        _ => 2500,
    })
}

#[tokio::main]
async fn main() {
    // Cargo passes `--bench`; a number is ours.
    let rounds = std::env::args().find_map(|word| word.parse().ok()).unwrap_or(5);
    if std::env::args().any(|word| word == "large") {
        return large_cluster(rounds).await;
    }
    println!("| provisioner | topology | links | start | goal | stop |\n|---|---|---|---|---|---|");
    for provisioner in provisioners().await {
        for kind in TopologyKind::REDIS {
            for links in [Links::Direct, Links::Proxied] {
                start_and_stop(provisioner.as_ref(), kind, links, rounds).await;
            }
        }
    }
    println!(
        "\n| topology | noticed | promoted by the servers' own logs | first write taken | write after promotion |\n\
         |---|---|---|---|---|"
    );
    for kind in [TopologyKind::Sentinel, TopologyKind::Cluster] {
        failover(kind, rounds).await;
    }
    println!("\n| topology | killed server answers again |\n|---|---|");
    for kind in TopologyKind::REDIS {
        restart(kind, rounds).await;
    }
    println!();
    large_cluster(rounds).await;
}

/// Starts and stops a large cluster, and reads what its servers take in between.
async fn large_cluster(rounds: usize) {
    let (mut starts, mut shares, mut memories) = (Vec::new(), Vec::new(), Vec::new());
    let mut topology = redis(TopologyKind::Cluster);
    (topology.shards, topology.replicas) = (SHARDS, 1);
    for _ in 0..rounds {
        let dir = scratch();
        let options = UpOptions { in_memory: true, ..UpOptions::new(dir.path()) };
        let began = Instant::now();
        let deployment = Process.up(&topology, &options).await.expect("servers start");
        starts.push(began.elapsed());
        let nodes = deployment.nodes().iter();
        let pids: Vec<u32> = nodes.filter_map(|node| deployment.pid(&node.name)).collect();
        assert_eq!(pids.len() as u32, 2 * SHARDS, "each is a process");
        let used = || pids.iter().map(|pid| processor_time(*pid)).sum::<Duration>();
        // What a start leaves to do, such as the first copies of data, is not idling.
        tokio::time::sleep(IDLE / 2).await;
        let (before, began) = (used(), Instant::now());
        tokio::time::sleep(IDLE).await;
        shares.push((used() - before).as_secs_f64() / began.elapsed().as_secs_f64());
        memories.push(pids.iter().map(|pid| memory_mib(*pid)).sum::<f64>() / pids.len() as f64);
        deployment.down().await.expect("servers stop");
    }
    let start = Spread::of(starts);
    let middle = |mut of: Vec<f64>| {
        of.sort_by(f64::total_cmp);
        of[of.len() / 2]
    };
    let (share, memory) = (middle(shares), middle(memories));
    let met = |is_met: bool| if is_met { "met" } else { "missed" };
    println!(
        "| cluster | start | goal | idle, of a core | goal | each, of memory |\n|---|---|---|---|---|---|\n\
         | {SHARDS} masters, {SHARDS} replicas | {start} | {LARGE_START:?}: {} | {share:.3} | {IDLE_SHARE}: {} | {memory:.1} MiB |",
        met(start.median <= LARGE_START),
        met(share <= IDLE_SHARE)
    );
}

/// Processor time of all threads, from their scheduler's own nanosecond count: in ticks the little that an
/// idle server takes is rounded away.
fn processor_time(pid: u32) -> Duration {
    let times = threads(pid).into_iter().filter_map(ran_and_waited_ns);
    Duration::from_nanos(times.map(|(ran_ns, _)| ran_ns).sum())
}

/// What a process has of memory, with its share of what it has in common with others.
fn memory_mib(pid: u32) -> f64 {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).expect("it runs");
    let kib = rollup.lines().find_map(|line| line.strip_prefix("Pss:")?.split_whitespace().next());
    kib.and_then(|kib| kib.parse::<f64>().ok()).expect("a size") / 1024.0
}

/// Those that this machine has.
async fn provisioners() -> Vec<Box<dyn Provisioner>> {
    #[allow(unused_mut, reason = "containers are a feature")]
    let mut found: Vec<Box<dyn Provisioner>> = vec![Box::new(Process)];
    #[cfg(feature = "containers")]
    match cluster_config::engine().await {
        Ok(_) => found.push(Box::new(cluster_config::Container)),
        Err(error) => println!("SKIPPED: containers: {error}\n"),
    }
    found
}

async fn up(provisioner: &dyn Provisioner, kind: TopologyKind, links: Links, dir: &Path) -> Deployment {
    let mut options = UpOptions::new(dir);
    options.links = links;
    options.in_memory = true;
    provisioner.up(&redis(kind), &options).await.expect("servers start")
}

/// Redis by its path, so that no registry is asked for an image.
fn redis(kind: TopologyKind) -> Topology {
    let server = Server::find("redis").expect("redis-server is installed");
    Topology { server: server.path.to_string_lossy().into_owned(), ..Topology::of(kind) }
}

fn scratch() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

async fn start_and_stop(provisioner: &dyn Provisioner, kind: TopologyKind, links: Links, rounds: usize) {
    let (mut starts, mut stops) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let dir = scratch();
        let began = Instant::now();
        let deployment = up(provisioner, kind, links, dir.path()).await;
        starts.push(began.elapsed());
        let began = Instant::now();
        deployment.down().await.expect("servers stop");
        stops.push(began.elapsed());
    }
    let (start, stop) = (Spread::of(starts), Spread::of(stops));
    let goal = match (provisioner.name(), start.median <= goal(kind)) {
        ("process", true) => format!("{:?}: met", goal(kind)),
        ("process", false) => format!("{:?}: missed", goal(kind)),
        _ => "none".to_owned(),
    };
    let links = match links {
        Links::Direct => "direct",
        Links::Proxied => "proxied",
    };
    println!("| {} | {kind} | {links} | {start} | {goal} | {stop} |", provisioner.name());
}

async fn failover(kind: TopologyKind, rounds: usize) {
    let (mut noticed, mut promoted, mut taken, mut after) = <(Vec<_>, Vec<_>, Vec<_>, Vec<_>)>::default();
    for _ in 0..rounds {
        let dir = scratch();
        let deployment = up(&Process, kind, Links::Direct, dir.path()).await;
        // In a cluster the first master has the low slots; this name lies in one of them.
        let lock = (0..).map(|number| format!("bench-{number}"));
        let lock =
            lock.into_iter().find(|name| cluster_config::slot_of(name) < 5000).expect("some name does");
        assert!(deployment.probe(&lock, PATIENCE).await, "writes are taken before");
        let killed_wall = SystemTime::now();
        let killed = Instant::now();
        deployment.kill("n1").await.expect("n1 dies");
        while !deployment.probe(&lock, Duration::from_millis(200)).await {
            assert!(killed.elapsed() < PATIENCE, "no failover within {PATIENCE:?}");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let write = killed.elapsed();
        let said = |words: &[&str]| first_said(&deployment, words, killed_wall);
        let promotion = said(&["MASTER MODE enabled", "Failover election won"]);
        noticed.extend(said(&["+odown", "as failing (quorum reached)"]));
        promoted.extend(promotion);
        after.extend(promotion.map(|promotion| write.saturating_sub(promotion)));
        taken.push(write);
        deployment.down().await.expect("servers stop");
    }
    println!(
        "| {kind} | {} | {} | {} | {} |",
        Spread::of(noticed),
        Spread::of(promoted),
        Spread::of(taken),
        Spread::of(after)
    );
}

async fn restart(kind: TopologyKind, rounds: usize) {
    let mut times = Vec::new();
    let dir = scratch();
    let deployment = up(&Process, kind, Links::Direct, dir.path()).await;
    let last = deployment.nodes().iter().rev().find(|node| node.role != Role::Sentinel);
    let name = last.expect("there is a data node").name.clone();
    for _ in 0..rounds {
        deployment.kill(&name).await.expect("it dies");
        let began = Instant::now();
        deployment.start(&name, Data::Keep).await.expect("it starts");
        times.push(began.elapsed());
    }
    deployment.down().await.expect("servers stop");
    println!("| {kind} | {} |", Spread::of(times));
}

/// How long after the kill the first log line with one of these words was written, on any node.
fn first_said(deployment: &Deployment, words: &[&str], killed: SystemTime) -> Option<Duration> {
    let logs = deployment.nodes().iter().filter_map(|node| fs::read_to_string(&node.log).ok());
    let lines: Vec<String> = logs
        .flat_map(|log| log.lines().map(str::to_owned).collect::<Vec<_>>())
        .filter(|line| words.iter().any(|word| line.contains(word)))
        .collect();
    lines.iter().filter_map(|line| since(line, killed)).min()
}

/// Logs tell local time; zones differ by whole quarters of an hour, so time is compared within one.
fn since(line: &str, killed: SystemTime) -> Option<Duration> {
    const QUARTER_MS: u64 = 15 * 60 * 1000;
    // `4711:S 21 Nov 2026 12:42:14.029 # …`
    let clock = line.split_whitespace().nth(4)?;
    let mut parts = clock.split([':', '.']);
    let mut number = || parts.next()?.parse::<u64>().ok();
    let (hours, minutes, seconds, millis) = (number()?, number()?, number()?, number()?);
    let said_ms = ((hours * 60 + minutes) * 60 + seconds) * 1000 + millis;
    let killed_ms = u64::try_from(killed.duration_since(UNIX_EPOCH).ok()?.as_millis()).ok()?;
    let after_ms = (said_ms % QUARTER_MS + QUARTER_MS - killed_ms % QUARTER_MS) % QUARTER_MS;
    // What was said long before the kill, at the start, comes out as nearly a quarter of an hour.
    (after_ms < QUARTER_MS / 2).then(|| Duration::from_millis(after_ms))
}

/// A median between its extremes.
struct Spread {
    median: Duration,
    least: Duration,
    greatest: Duration,
}

impl Spread {
    fn of(mut times: Vec<Duration>) -> Spread {
        times.sort();
        let at = |index: usize| times.get(index).copied().unwrap_or_default();
        Spread { median: at(times.len() / 2), least: at(0), greatest: at(times.len().saturating_sub(1)) }
    }
}

impl std::fmt::Display for Spread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ms = |time: Duration| format!("{:.0}", time.as_secs_f64() * 1000.0);
        write!(f, "{} ms ({}–{})", ms(self.median), ms(self.least), ms(self.greatest))
    }
}
