//! What one uncontended cycle costs: the library, a naive lock and bare scripts, on one server; and two inner loops.

use std::{hint::black_box, time::Duration};

use bench::{
    subject::{AcquireEnd, AcquireRequest, ConnectTo, LockClient},
    subjects,
};
use cluster_config::{Process, Provisioner, Topology, TopologyKind, UpOptions};
use criterion::{Criterion, criterion_group, criterion_main};
use hdrhistogram::Histogram;

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

async fn cycle(client: &dyn LockClient, lock: &str) {
    let request = AcquireRequest {
        locks: vec![lock.to_owned()],
        kind: String::new(),
        owner: "t0".into(),
        wait: Some(Duration::from_secs(10)),
        lease: Some(Duration::from_secs(30)),
        permits: None,
    };
    match client.acquire(request).await {
        AcquireEnd::Ok { grant, .. } => black_box(client.release(&grant).await),
        other => panic!("nobody is in the way, and yet: {other:?}"),
    };
}

fn cycles(c: &mut Criterion) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let dir = tempfile::tempdir().expect("a directory");
    let server = runtime.block_on(async {
        let topology = Topology::of(TopologyKind::Single);
        Process.up(&topology, &UpOptions::new(dir.path())).await
    });
    let server = server.expect("a server");
    let mut group = c.benchmark_group("uncontended cycle");
    for subject in ["lock-core:reentrant", "baseline:set-nx-px"] {
        let client = runtime.block_on(connect(subject, &server.url()));
        group.bench_function(subject, |b| {
            b.to_async(&runtime)
                .iter(|| cycle(client.as_ref(), subject));
        });
    }
    let bare = runtime.block_on(async {
        let client = redis::Client::open(server.url()).expect("a URL");
        client.get_multiplexed_async_connection().await
    });
    let bare = bare.expect("a connection");
    let (take, give) = (redis::Script::new(TAKE), redis::Script::new(GIVE));
    group.bench_function("two EVALSHA by hand", |b| {
        b.to_async(&runtime).iter(|| async {
            let mut to = bare.clone();
            let taken: Option<String> = take
                .key("bare")
                .arg("v")
                .invoke_async(&mut to)
                .await
                .expect("an answer");
            assert!(taken.is_some());
            let given: i64 = give
                .key("bare")
                .arg("v")
                .invoke_async(&mut to)
                .await
                .expect("an answer");
            assert_eq!(given, 1);
        });
    });
    group.finish();
    runtime.block_on(server.down()).expect("servers that end");
}

fn inner_loops(c: &mut Criterion) {
    c.bench_function("slot of a key", |b| {
        b.iter(|| lock_core::slot(black_box(b"{orders}:fencing")));
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
    targets = cycles, inner_loops
}
criterion_main!(benches);
