//! How long ten million operations take to be swept: holds in memory, as the checkers make them; parsing is
//! not in it.

// A benchmark's output is what it is for.
#![allow(clippy::print_stderr)]

mod goal;

use std::time::Duration;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use goal::goal;
use results::overlap::{Hold, Mode, overlaps};

/// What is aimed at, in one pass.
const MOST: Duration = Duration::from_secs(2);
/// An acquire and a release each.
const HOLDS: u32 = 5_000_000;

/// Holds of a hundred locks, one after the other on each, in the order in which they ended; every 100,000th
/// overlaps.
fn holds(mode: Mode) -> Vec<Hold> {
    (0..HOLDS)
        .map(|n| {
            let from_ns = u64::from(n / 100) * 1_000;
            let late = if n % 100_000 == 0 { 1_500 } else { 800 };
            Hold { lock: n % 100, owner: n % 64, from_ns, to_ns: from_ns + late, mode, weight: 1, grant: n }
        })
        .collect()
}

fn sweep(c: &mut Criterion) {
    let mut group = c.benchmark_group("sweep of 10 million operations");
    group.sample_size(10);
    for (name, mode) in [("mutex", Mode::Exclusive), ("re-entrant", Mode::Reentrant), ("readers", Mode::Read)]
    {
        let holds = holds(mode);
        goal(&format!("10 million operations swept, {name}"), MOST, || {
            overlaps(holds.clone(), |_| None);
        });
        group.bench_function(name, |b| {
            b.iter_batched(
                || holds.clone(),
                |holds| overlaps(holds, |_| None).count,
                BatchSize::PerIteration,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, sweep);
criterion_main!(benches);
