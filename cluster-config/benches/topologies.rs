//! Measures real starts, stops and failovers: how long each topology takes, and what of a failover was the
//! servers' own.
//!
//! `cargo bench -p cluster-config --bench topologies [-- ROUNDS]`. Medians of wall-clock times, with the
//! least and the greatest. Containers are measured where an engine answers; goals are those of processes.
#![allow(missing_docs, clippy::print_stdout, reason = "a program that prints a table")]

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use cluster_config::{
    Data, Deployment, Links, Process, Provisioner, Role, Server, Topology, TopologyKind, UpOptions,
};

/// Far beyond any failover here.
const PATIENCE: Duration = Duration::from_secs(30);

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
    let mut topology = Topology::of(kind);
    // By its path, so that no registry is asked for an image.
    let server = Server::find("redis").expect("redis-server is installed");
    topology.server = server.path.to_string_lossy().into_owned();
    provisioner.up(&topology, &options).await.expect("servers start")
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
