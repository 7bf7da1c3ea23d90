//! What the generator takes away from what it measures: the cycles that `locklab bench` counts beside the library's own loop, which writes
//! nothing down but their number, and beside the least that can be measured: the same loop with two readings of the clock and one value
//! in a histogram per cycle. Round by round in one run on one server; `-- bare`, `-- least` or `-- measured` runs one alone, for a profiler.
#![allow(clippy::print_stdout)]

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use bench::driver::{self, BenchPlan, Hooks};
use cluster_config::{Process, Provisioner, Topology, TopologyKind, UpOptions};
use hdrhistogram::Histogram;
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
    println!(
        "tasks  measured/s   least/s    bare/s   measured:bare   least:bare   client µs   generator µs   share"
    );
    for tasks in TASKS {
        let (mut rates, mut ratios) = ([vec![], vec![], vec![]], [vec![], vec![]]);
        let (mut client, mut generator) = (vec![], vec![]);
        let wanted = |name: &str| only.as_deref().is_none_or(|only| only == name);
        for _ in 0..ROUNDS {
            let mut now = [f64::NAN; 3];
            if wanted("measured") {
                let mut plan = BenchPlan::new(&url);
                plan.subjects = vec![SUBJECT.into()];
                plan.tasks = vec![tasks];
                plan.rounds = 1;
                (plan.warmup, plan.duration) = (WARMUP, WINDOW);
                let outcome = driver::run(&plan, &Hooks::default()).await;
                let row = outcome.expect("a running server").rows.remove(0);
                now[0] = row.cycles_per_s.median;
                client.extend(row.client_cpu_us_per_cycle);
                generator.extend(row.measures.generator_cpu_us_per_cycle);
            }
            for (at, name) in [(1, "least"), (2, "bare")] {
                if wanted(name) {
                    now[at] = own_loop(&url, tasks, name == "least").await;
                }
            }
            rates
                .iter_mut()
                .zip(now)
                .for_each(|(all, rate)| all.push(rate));
            ratios[0].push(now[0] / now[2]);
            ratios[1].push(now[1] / now[2]);
        }
        let ([measured, least, bare], [of_bench, of_least]) =
            (rates.map(median), ratios.map(median));
        let (client, generator) = (median(client), median(generator));
        println!(
            "{tasks:>5} {measured:>11.0} {least:>9.0} {bare:>9.0} {of_bench:>15.3} {of_least:>12.3} {client:>11.2} {generator:>14.2} {:>5.1} %",
            100.0 * generator / client,
        );
    }
    server.down().await.expect("a server that ends");
}

/// Cycles per second of the library's own loop: each task has a lock of its own, and nothing is timed but what is the least.
async fn own_loop(url: &str, tasks: u32, least: bool) -> f64 {
    let target = url.parse().expect("a URL");
    let client = Client::connect(&target, ClientOptions::default()).await;
    let client = client.expect("a running server");
    let (cycles, over) = (
        Arc::new(AtomicU64::new(0)),
        Arc::new(AtomicBool::new(false)),
    );
    let kept: Arc<[_; 4]> = Arc::new(std::array::from_fn(|_| {
        Mutex::new(Histogram::<u64>::new(3).expect("three digits"))
    }));
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
            while !over.load(Relaxed) {
                let began = least.then(Instant::now);
                let guard = lock.acquire_with(how.clone()).await.expect("nobody else's");
                guard.release().await.expect("a running server");
                cycles.fetch_add(1, Relaxed);
                if let Some(began) = began {
                    let took = began.elapsed().as_nanos() as u64;
                    let mut kept = kept[task as usize % kept.len()].lock().expect("no panic");
                    kept.record(took).expect("it grows");
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
    rate
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of.get(of.len() / 2).copied().unwrap_or(f64::NAN)
}
