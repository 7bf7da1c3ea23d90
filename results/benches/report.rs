//! How long it takes to set two runs of ten million operations beside each other, and to render one; reading
//! their files is in it.

// A benchmark's output is what it is for.
#![allow(clippy::print_stderr)]

mod goal;

use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use goal::goal;
use results::compare::compare;
use results::report;
use results::run::{BenchRow, Estimate, Meta, Quantiles, Run};
use results::store;

/// As many rows as a wide benchmark has, each with as many different latencies as three digits leave.
fn run(name: &str) -> Vec<u8> {
    const ROWS: u64 = 100;
    const OPERATIONS: u64 = 10_000_000;
    let mut run = Run::new(name, "bench", Meta::default());
    for row in 0..ROWS {
        let mut one = BenchRow {
            subject: format!("lock-core:{row}"),
            topology: "single".to_owned(),
            workload: "uncontended".to_owned(),
            tasks: 16,
            rounds: 5,
            valid: true,
            cycles_per_s: Estimate {
                median: 10_000.0 + row as f64,
                low: Some(9_000.0),
                high: Some(11_000.0),
            },
            acquire_ns: Quantiles {
                p50: Some(500_000),
                p90: Some(900_000),
                p99: Some(2_000_000),
                n: OPERATIONS / ROWS,
                ..Quantiles::default()
            },
            ..BenchRow::default()
        };
        const VALUES: u64 = 3_000;
        one.measures.raw.acquire_ns =
            (0..VALUES).map(|n| (100_000 + n * 1_024, OPERATIONS / ROWS / VALUES)).collect();
        one.measures.raw.cycles_per_s = vec![10_000.0; 5];
        one.measures.raw.cycles_per_part = vec![vec![500; 40]; 5];
        run.rows.push(one);
    }
    serde_json::to_vec(&run).expect("a run is JSON")
}

fn of_ten_million(c: &mut Criterion) {
    let (a, b) = (run("a"), run("b"));
    let read = |bytes: &[u8]| store::parse("run.json".as_ref(), bytes).expect("a good run");
    let compared = "compare of two runs of 10 million operations";
    goal(compared, Duration::from_secs(1), || {
        compare(&[read(&a), read(&b)], false).expect("the same rows");
    });
    goal("report of one as HTML", Duration::from_secs(2), || {
        let page = report::by_name("html").expect("a known format");
        page.render(&read(&a)).expect("a document");
    });
    let mut group = c.benchmark_group("runs of 10 million operations");
    group.sample_size(10);
    group.bench_function("compare two", |bencher| {
        bencher.iter(|| compare(&[read(&a), read(&b)], false).expect("the same rows"));
    });
    for name in ["html", "markdown", "text"] {
        let format = report::by_name(name).expect("a known format");
        group.bench_function(format!("report as {name}"), |bencher| {
            bencher.iter(|| format.render(&read(&a)).expect("a document").len());
        });
    }
    group.finish();
}

criterion_group!(benches, of_ten_million);
criterion_main!(benches);
