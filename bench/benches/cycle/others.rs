//! What is no cycle: a hand-off, an extension, and inner loops that need no server.

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use bench::subject::LockClient;
use cluster_config::TopologyKind;
use criterion::Criterion;
use hdrhistogram::Histogram;
use tokio::runtime::Runtime;

use crate::{
    load::{connect, take},
    servers::Servers,
};

const SUBJECT: &str = "lock-core:reentrant";

pub(crate) fn measure(criterion: &mut Criterion, runtime: &Runtime) {
    let mut server = Servers::new(runtime, TopologyKind::Single);
    let mut pair = None;
    criterion.bench_function("hand-off to a waiter", |b| {
        let (one, other) = pair.get_or_insert_with(|| {
            let url = server.url();
            runtime.block_on(async { (connect(SUBJECT, &url).await, connect(SUBJECT, &url).await) })
        });
        b.iter_custom(|times| runtime.block_on(hand_over(one.as_ref(), other.as_ref(), times)));
    });
    // What the watchdog does for each lock, one at a time.
    let mut held = None;
    criterion.bench_function("extension of a lease", |b| {
        let (client, grant) = held.get_or_insert_with(|| {
            let url = server.url();
            runtime.block_on(async {
                let client = connect(SUBJECT, &url).await;
                let grant = take(client.as_ref(), "extended").await;
                (client, grant.expect("nobody is in the way"))
            })
        });
        b.iter_custom(|times| {
            runtime.block_on(async {
                let began = Instant::now();
                for _ in 0..times {
                    black_box(client.extend(grant, Duration::from_secs(30)).await);
                }
                began.elapsed()
            })
        });
    });
    server.down();
    inner_loops(criterion);
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

fn inner_loops(criterion: &mut Criterion) {
    criterion.bench_function("slot of a key", |b| {
        b.iter(|| lock_core::slot(black_box(b"{orders}:fencing")));
    });
    let url = "redis-sentinel://user:secret@10.0.0.1:26379,10.0.0.2:26379,10.0.0.3:26379/orders";
    criterion.bench_function("parsing of a target URL", |b| {
        b.iter(|| black_box(url).parse::<lock_core::Target>().expect("a URL"));
    });
    let mut part = Histogram::<u64>::new(3).expect("three digits");
    for value in 0..10_000_u64 {
        part.record(50_000 + value * 97).expect("it grows");
    }
    criterion.bench_function("merge of two histograms", |b| {
        let mut sum = Histogram::<u64>::new(3).expect("three digits");
        b.iter(|| sum.add(black_box(&part)).expect("it grows"));
    });
}
