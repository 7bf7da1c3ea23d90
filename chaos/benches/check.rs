//! How long all checkers take over a history of a million and of ten million operations in memory; parsing is not in it.

// A benchmark's output is what it is for.
#![allow(clippy::print_stderr)]

use chaos::checkers::{CheckOptions, check};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use results::history::{Acquire, Call, End, Entry, History, Line};
use results::verdict::State;

const LOCKS: u64 = 100;
/// Memory that a history takes per operation, with what the checkers make of it: an estimate, on the high side.
const BYTES_PER_OPERATION: u64 = 1_200;

/// Holds of a hundred locks by eight clients, one after the other on each lock: half of the operations acquire, half release.
fn history(operations: u64) -> History {
    let mut lines = Vec::with_capacity(2 * operations as usize);
    let mut line = |t_ns, entry| lines.push(Line { t_ns, entry });
    for n in 0..operations / 2 {
        let (t_ns, id, grant) = (n * 1_000, 2 * n, format!("g{n}"));
        let acquire = Acquire {
            client: format!("c{}", n % 8),
            owner: "t0".to_owned(),
            lock: Some(format!("lock-{}", n % LOCKS)),
            locks: None,
            kind: "reentrant".to_owned(),
            lease_ms: Some(30_000),
            wait_ms: Some(500),
            permits: None,
        };
        let end = |grant| End::Ok {
            grant,
            token: None,
            sent_ns: None,
            lease_ms: None,
        };
        let called = |id, call| Entry::Call { id, call };
        line(t_ns, called(id, Call::Acquire(acquire)));
        line(
            t_ns + 200,
            Entry::End {
                id,
                end: end(Some(grant.clone())),
            },
        );
        let id = id + 1;
        line(t_ns + 600, called(id, Call::Release { grant }));
        line(t_ns + 800, Entry::End { id, end: end(None) });
    }
    History::from_lines(lines)
}

/// Memory that this machine could give now; `None` where it cannot be told.
fn available_bytes() -> Option<u64> {
    let info = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = info
        .lines()
        .find(|line| line.starts_with("MemAvailable:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib * 1_024)
}

fn checkers(c: &mut Criterion) {
    let mut group = c.benchmark_group("all checkers");
    group.sample_size(10);
    for (name, operations) in [
        ("1 million operations", 1_000_000),
        ("10 million operations", 10_000_000),
    ] {
        let needed = operations * BYTES_PER_OPERATION;
        if available_bytes().is_some_and(|bytes| bytes < needed) {
            eprintln!(
                "all checkers/{name}: left out, it needs {} GB of memory",
                needed / 1_000_000_000
            );
            continue;
        }
        group.throughput(Throughput::Elements(operations));
        let mut made = None;
        group.bench_function(name, |b| {
            // Made only if it is asked for.
            let history = made.get_or_insert_with(|| history(operations));
            b.iter(|| {
                let report = check(history, &CheckOptions::default());
                assert_eq!(report.verdicts.contract.state, State::Clean);
                report
            });
        });
    }
    group.finish();
}

criterion_group!(benches, checkers);
criterion_main!(benches);
