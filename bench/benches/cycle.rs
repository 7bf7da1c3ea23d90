//! What a cycle, an extension and a hand-off cost, one at a time, on one server; and the inner loops that need none.

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use bench::{
    driver::{self, BenchPlan, Hooks},
    subject::{AcquireEnd, AcquireRequest, ConnectTo, LockClient},
    subjects,
};
use cluster_config::{Deployment, Process, Provisioner, Topology, TopologyKind, UpOptions};
use criterion::{
    BenchmarkGroup, Criterion, criterion_group, criterion_main, measurement::WallTime,
};
use hdrhistogram::Histogram;
use tempfile::TempDir;
use tokio::runtime::Runtime;

const TAKE: &str = "return redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', 30000)";
const GIVE: &str =
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";

async fn connect(subject: &str, target: &str) -> Box<dyn LockClient> {
    let to = ConnectTo {
        target: target.to_owned(),
        client: "c1".into(),
        seed: 1,
        durability: "none".into(),
        watchdog: None,
        log: None,
        env: Vec::new(),
    };
    let subject = subjects::find(subject).expect("a known subject");
    subject.connect(&to).await.expect("a running server").client
}

fn request(lock: &str) -> AcquireRequest<'_> {
    AcquireRequest {
        lock,
        others: &[],
        kind: "",
        owner: "t0",
        reenters: false,
        wait: Some(Duration::from_secs(10)),
        lease: Some(Duration::from_secs(30)),
        permits: None,
    }
}

/// Acquires, and says why not.
async fn take(client: &dyn LockClient, lock: &str) -> Result<String, String> {
    match client.acquire(request(lock)).await {
        AcquireEnd::Ok { grant, .. } => Ok(grant),
        other => Err(format!("{other:?}")),
    }
}

async fn cycle(client: &dyn LockClient, lock: &str) {
    let grant = take(client, lock).await.expect("nobody is in the way");
    black_box(client.release(&grant).await);
}

/// From the sending of a release to the grant of another client that was waiting, `times` over.
async fn hand_over(one: &dyn LockClient, other: &dyn LockClient, times: u64) -> Duration {
    let (mut holder, mut waiter) = (one, other);
    let mut grant = take(holder, "handed").await.expect("nobody is in the way");
    let mut spent = Duration::ZERO;
    for _ in 0..times {
        let waiting = async {
            let grant = take(waiter, "handed").await.expect("it was given back");
            (grant, Instant::now())
        };
        let giving = async {
            // Long enough for the other one to have asked and to be waiting.
            tokio::time::sleep(Duration::from_millis(3)).await;
            let sent = Instant::now();
            holder.release(&grant).await;
            sent
        };
        let ((next, granted), sent) = tokio::join!(waiting, giving);
        spent += granted.saturating_duration_since(sent);
        grant = next;
        std::mem::swap(&mut holder, &mut waiter);
    }
    holder.release(&grant).await;
    spent
}

/// Servers of this topology, in a directory that outlives them.
fn servers(runtime: &Runtime, kind: TopologyKind) -> (Deployment, TempDir) {
    let dir = tempfile::tempdir().expect("a directory");
    let topology = Topology::of(kind);
    let options = UpOptions::new(dir.path());
    let up = runtime.block_on(Process.up(&topology, &options));
    (up.expect("servers"), dir)
}

/// The cycle of one kind.
fn kind(group: &mut BenchmarkGroup<'_, WallTime>, runtime: &Runtime, subject: &str, url: &str) {
    let client = runtime.block_on(connect(subject, url));
    // Said here and not by a panic within the measurement.
    let tried = runtime.block_on(take(client.as_ref(), subject));
    let grant = tried.unwrap_or_else(|why| panic!("{subject}: {why}"));
    runtime.block_on(client.release(&grant));
    group.bench_function(subject, |b| {
        b.to_async(runtime).iter(|| cycle(client.as_ref(), subject));
    });
}

fn cycles(c: &mut Criterion) {
    let runtime = Runtime::new().expect("a runtime");
    let (masters, _masters_dir) = servers(&runtime, TopologyKind::Masters);
    let (server, _dir) = servers(&runtime, TopologyKind::Single);
    let mut group = c.benchmark_group("uncontended cycle");
    for subject in subjects::all() {
        let name = subject.name();
        let url = match name {
            "lock-core:redlock" => masters.url(),
            _ => server.url(),
        };
        if name.starts_with("lock-core:") || name == "baseline:set-nx-px" {
            kind(&mut group, &runtime, name, &url);
        }
    }
    runtime.block_on(masters.down()).expect("servers that end");
    let bare = runtime.block_on(async {
        let client = redis::Client::open(server.url()).expect("a URL");
        client.get_multiplexed_async_connection().await
    });
    let bare = bare.expect("a connection");
    let (taking, giving) = (redis::Script::new(TAKE), redis::Script::new(GIVE));
    group.bench_function("two EVALSHA by hand", |b| {
        b.to_async(&runtime).iter(|| async {
            let mut to = bare.clone();
            let taken: Option<String> = taking
                .key("bare")
                .arg("v")
                .invoke_async(&mut to)
                .await
                .expect("an answer");
            assert!(taken.is_some());
            let given: i64 = giving
                .key("bare")
                .arg("v")
                .invoke_async(&mut to)
                .await
                .expect("an answer");
            assert_eq!(given, 1);
        });
    });
    group.finish();

    let subject = "lock-core:reentrant";
    let (one, other) = runtime.block_on(async {
        let url = server.url();
        (connect(subject, &url).await, connect(subject, &url).await)
    });
    c.bench_function("hand-off to a waiter", |b| {
        b.to_async(&runtime)
            .iter_custom(|times| hand_over(one.as_ref(), other.as_ref(), times));
    });
    // What the watchdog does for each lock, one at a time.
    let held = runtime
        .block_on(take(one.as_ref(), "extended"))
        .expect("nobody is in the way");
    c.bench_function("extension of a lease", |b| {
        b.to_async(&runtime)
            .iter(|| one.extend(&held, Duration::from_secs(30)));
    });
    runtime.block_on(server.down()).expect("servers that end");
}

/// A cycle as `locklab bench` measures it: the load engine with everything that it writes down, 16 tasks in a closed loop.
fn measured_cycle(c: &mut Criterion) {
    let runtime = Runtime::new().expect("a runtime");
    let (server, _dir) = servers(&runtime, TopologyKind::Single);
    let mut plan = BenchPlan::new(server.url());
    plan.subjects = vec!["baseline:set-nx-px".into()];
    plan.rounds = 1;
    plan.warmup = Duration::from_millis(20);
    plan.duration = Duration::from_millis(200);
    c.bench_function("measured cycle", |b| {
        b.iter_custom(|times| {
            let (mut cycles, mut spent) = (0.0, Duration::ZERO);
            while cycles < times as f64 {
                let measured = runtime.block_on(driver::run(&plan, &Hooks::default()));
                let rows = measured.expect("a running server").rows;
                cycles += rows[0].cycles_per_s.median * plan.duration.as_secs_f64();
                spent += plan.duration;
            }
            spent.mul_f64(times as f64 / cycles)
        });
    });
    runtime.block_on(server.down()).expect("servers that end");
}

fn inner_loops(c: &mut Criterion) {
    c.bench_function("slot of a key", |b| {
        b.iter(|| lock_core::slot(black_box(b"{orders}:fencing")));
    });
    let url = "redis-sentinel://user:secret@10.0.0.1:26379,10.0.0.2:26379,10.0.0.3:26379/orders";
    c.bench_function("parsing of a target URL", |b| {
        b.iter(|| black_box(url).parse::<lock_core::Target>().expect("a URL"));
    });
    let mut part = Histogram::<u64>::new(3).expect("three digits");
    for value in 0..10_000_u64 {
        part.record(50_000 + value * 97).expect("it grows");
    }
    c.bench_function("merge of two histograms", |b| {
        let mut sum = Histogram::<u64>::new(3).expect("three digits");
        b.iter(|| sum.add(black_box(&part)).expect("it grows"));
    });
}

criterion_group! {
    name = benches;
    config = Criterion::default().warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(3)).sample_size(30);
    targets = cycles, measured_cycle, inner_loops
}
criterion_main!(benches);
