//! What the failover of one shard does to the locks of the others.
//!
//! `cargo bench -p chaos --bench shards` takes a minute. Tasks of one client take locks of all of twelve
//! shards with a replica each, and three masters are killed one after the other. It ends with 1 where the
//! 99th percentile of an acquire on the other shards is more than a tenth above what it was before.

// A benchmark's output is what it is for.
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bench::subject::{AcquireEnd, AcquireRequest, ConnectTo, LockClient};
use bench::subjects;
use cluster_config::{
    Process, Provisioner as _, Topology, TopologyKind, UpOptions, layout::slot_range, slot_of,
};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use tokio::time::{sleep, timeout};

const SHARDS: u32 = 12;
const TASKS: u64 = 16;
const KILLS: usize = 3;
/// How long acquires are counted before a kill, and after the shard grants again.
const COUNTED: Duration = Duration::from_secs(8);
/// A caller that has no answer by then goes away, so that a shard without a master does not keep the tasks
/// from the others.
const PATIENCE: Duration = Duration::from_millis(100);

/// An acquire that was granted: when it was called, on which shard, and how long it took.
type Granted = (Instant, usize, Duration);

async fn take_locks(client: Arc<dyn LockClient>, task: u64, granted: Arc<Mutex<Vec<Granted>>>) {
    let mut rng = ChaCha8Rng::seed_from_u64(task);
    loop {
        let name = format!("lock-{}", rng.random::<u32>());
        let slot = slot_of(&name);
        let shard = (0..SHARDS as usize).find(|at| slot <= slot_range(*at, SHARDS as usize).1);
        let request = AcquireRequest {
            lock: &name,
            kind: "plain",
            owner: "caller",
            wait: Some(Duration::ZERO),
            lease: Some(Duration::from_secs(5)),
            ..AcquireRequest::default()
        };
        let called = Instant::now();
        if let Ok(AcquireEnd::Ok { grant, .. }) = timeout(PATIENCE, client.acquire(request)).await {
            let one = (called, shard.expect("a slot of a shard"), called.elapsed());
            granted.lock().expect("no panic").push(one);
            let _given = timeout(PATIENCE, client.release(&grant)).await;
        }
        sleep(Duration::from_millis(5)).await;
    }
}

fn p99_ms(mut all: Vec<Duration>) -> f64 {
    all.sort();
    all.get(all.len() * 99 / 100).map_or(f64::NAN, |one| one.as_secs_f64() * 1e3)
}

#[tokio::main]
async fn main() -> Result<ExitCode, Box<dyn Error + Send + Sync>> {
    let topology = Topology { shards: SHARDS, replicas: 1, ..Topology::of(TopologyKind::Cluster) };
    let dir = tempfile::tempdir()?;
    let servers = Process.up(&topology, &UpOptions::new(dir.path())).await?;
    let to = ConnectTo::new(&servers.url(), "c1", 1, "none");
    let connected = subjects::find("lock-core:plain")?.connect(&to).await?;
    let client: Arc<dyn LockClient> = connected.client.into();
    let granted = Arc::new(Mutex::new(Vec::new()));
    for task in 0..TASKS {
        tokio::spawn(take_locks(Arc::clone(&client), task, Arc::clone(&granted)));
    }
    sleep(Duration::from_secs(2)).await;
    println!(
        "| killed | grants again after | p99 on others before | while it is away | after |\n|---|---|---|---|---|"
    );
    let (mut before, mut since) = (Vec::new(), Vec::new());
    for shard in 0..KILLS {
        sleep(COUNTED).await;
        let killed = Instant::now();
        servers.kill(&format!("n{}", shard + 1)).await?;
        // What was still answered was called before.
        let again = loop {
            sleep(Duration::from_millis(20)).await;
            let all = granted.lock().expect("no panic");
            let mut of_shard = all.iter().filter(|one| one.1 == shard && one.0 > killed);
            if let Some((called, ..)) = of_shard.next() {
                break *called;
            }
            if killed.elapsed() > Duration::from_secs(60) {
                return Err("the shard grants nothing any more".into());
            }
        };
        sleep(COUNTED).await;
        let all = std::mem::take(&mut *granted.lock().expect("no panic"));
        let others = |from: Instant, to: Instant| -> Vec<Duration> {
            let others = all.iter().filter(|one| one.1 != shard && (from..to).contains(&one.0));
            others.map(|one| one.2).collect()
        };
        let parts = [(killed - COUNTED, killed), (killed, again), (again, again + COUNTED)];
        let [was, away, after] = parts.map(|(from, to)| others(from, to));
        println!(
            "| n{} | {:.2} s | {:.2} ms | {:.2} ms | {:.2} ms |",
            shard + 1,
            (again - killed).as_secs_f64(),
            p99_ms(was.clone()),
            p99_ms(away.clone()),
            p99_ms(after.clone()),
        );
        before.extend(was);
        since.extend([away, after].concat());
    }
    let counts = (before.len(), since.len());
    servers.down().await?;
    let (was, is) = (p99_ms(before), p99_ms(since));
    println!(
        "\np99 on other shards: {was:.2} ms of {} acquires before, {is:.2} ms of {} since; ratio {:.2}.",
        counts.0,
        counts.1,
        is / was
    );
    Ok(ExitCode::from(u8::from(is > 1.1 * was || counts.1 == 0)))
}
