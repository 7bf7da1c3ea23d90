//! What the generator takes away from what it measures: the cycles that `locklab bench` counts beside the library's own loop, which writes
//! nothing down but their number, round by round in one run on one server. With `-- bare` or `-- measured` only one of them runs, for a profiler.
#![allow(clippy::print_stdout)]

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use bench::driver::{self, BenchPlan, Hooks};
use cluster_config::{Process, Provisioner, Topology, TopologyKind, UpOptions};
use lock_core::{Acquire, Client, ClientOptions, Kind, Lease, Wait};

const SUBJECT: &str = "lock-core:reentrant";
const TASKS: [u32; 4] = [1, 16, 64, 256];
const ROUNDS: usize = 7;
const WARMUP: Duration = Duration::from_millis(100);
const WINDOW: Duration = Duration::from_millis(600);

#[tokio::main]
async fn main() {
    let dir = tempfile::tempdir().expect("a directory");
    let topology = Topology::of(TopologyKind::Single);
    let server = Process.up(&topology, &UpOptions::new(dir.path())).await;
    let server = server.expect("a server");
    let url = server.url();
    let only = std::env::args().skip(1).find(|arg| !arg.starts_with("--"));
    println!("{SUBJECT}, uncontended: median of {ROUNDS} pairs of rounds of {WINDOW:?}");
    println!("tasks   measured/s      bare/s   ratio   client µs   generator µs   share");
    for tasks in TASKS {
        let (mut measured, mut bare, mut ratios) = (vec![], vec![], vec![]);
        let (mut client, mut generator) = (vec![], vec![]);
        for _ in 0..ROUNDS {
            if only.as_deref() == Some("bare") {
                own_loop(&url, tasks).await;
                continue;
            }
            let mut plan = BenchPlan::new(&url);
            plan.subjects = vec![SUBJECT.into()];
            plan.tasks = vec![tasks];
            plan.rounds = 1;
            (plan.warmup, plan.duration) = (WARMUP, WINDOW);
            let outcome = driver::run(&plan, &Hooks::default()).await;
            let row = outcome.expect("a running server").rows.remove(0);
            measured.push(row.cycles_per_s.median);
            client.extend(row.client_cpu_us_per_cycle);
            generator.extend(row.measures.generator_cpu_us_per_cycle);
            if only.is_some() {
                continue;
            }
            bare.push(own_loop(&url, tasks).await);
            ratios.push(measured[measured.len() - 1] / bare[bare.len() - 1]);
        }
        let (client, generator) = (median(client), median(generator));
        println!(
            "{tasks:>5} {:>12.0} {:>11.0} {:>7.3} {client:>11.2} {generator:>14.2} {:>5.1} %",
            median(measured),
            median(bare),
            median(ratios),
            100.0 * generator / client,
        );
    }
    server.down().await.expect("a server that ends");
}

/// Cycles per second of the library's own loop: each task has a lock of its own, and nothing is timed.
async fn own_loop(url: &str, tasks: u32) -> f64 {
    let target = url.parse().expect("a URL");
    let client = Client::connect(&target, ClientOptions::default()).await;
    let client = client.expect("a running server");
    let (cycles, over) = (
        Arc::new(AtomicU64::new(0)),
        Arc::new(AtomicBool::new(false)),
    );
    let running = (0..tasks).map(|task| {
        // Names as long as those of a run, which the server reads and hashes.
        let name = format!("locklab:bench:uncontended:{tasks}:0:bare:{task}");
        let lock = client.lock(Kind::Reentrant, &name);
        let lock = lock.expect("a name");
        let (cycles, over) = (cycles.clone(), over.clone());
        tokio::spawn(async move {
            let how = Acquire::default()
                .wait(Wait::AtMost(Duration::from_secs(10)))
                .lease(Lease::Fixed(Duration::from_secs(30)));
            while !over.load(Relaxed) {
                let guard = lock.acquire_with(how.clone()).await.expect("nobody else's");
                guard.release().await.expect("a running server");
                cycles.fetch_add(1, Relaxed);
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
    rate
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of.get(of.len() / 2).copied().unwrap_or(f64::NAN)
}
