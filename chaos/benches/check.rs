//! How long all checkers take over a history of a million and of ten million operations in memory, and how
//! much memory they need besides; and how many lines of MONITOR a watch follows in a second, with how much of
//! a core and of memory.
//!
//! Before Criterion's own figures, one line per size says both. Of the checkers it has the time of one pass
//! over lines in memory (parsing is not in it), and the most that judging kept at once per operation, where
//! each line is made, read and forgotten.

// A benchmark's output is what it is for.
#![allow(clippy::print_stderr)]

use std::collections::BTreeMap;
use std::fmt::Display;
use std::io::Write as _;
use std::time::{Duration, Instant};

use chaos::checkers::{CheckOptions, CheckReport, Reader, Record, check, judge};
use chaos::watch::{WatchOptions, read_bytes};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use results::history::{Acquire, Call, End, Entry, History, Line};
use results::verdict::State;

const LOCKS: u64 = 100;
/// Memory that the lines of a history take per operation, with what the checkers make of them: an estimate,
/// on the high side.
const BYTES_PER_OPERATION: u64 = 700;
/// What judging may keep per operation: 1.5 GiB of ten million.
const BYTES_MOST: f64 = 161.0;

/// Holds of a hundred locks by eight clients, one after the other on each lock: half of the operations
/// acquire, half release.
fn lines(operations: u64) -> impl Iterator<Item = Line> {
    (0..operations / 2).flat_map(|n| {
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
            returned_ns: None,
            lease_ms: None,
            at: None,
        };
        let called = |id, call| Entry::Call { id, call };
        let line = |t_ns, entry| Line { t_ns, entry };
        let granted = end(Some(grant.clone()));
        let next = id + 1;
        [
            line(t_ns, called(id, Call::Acquire(acquire))),
            line(t_ns + 200, Entry::End { id, end: granted }),
            line(t_ns + 600, called(next, Call::Release { grant })),
            line(t_ns + 800, Entry::End { id: next, end: end(None) }),
        ]
    })
}

fn history(operations: u64) -> History {
    History::from_lines(lines(operations).collect())
}

fn clean(report: CheckReport) -> CheckReport {
    assert_eq!(report.verdicts.contract.state, State::Clean);
    report
}

/// The most memory that this process held at once since it was asked to forget, and what it holds now, in
/// bytes; `None` where the system does not say.
fn memory(forget: bool) -> Option<(u64, u64)> {
    if forget {
        std::fs::write("/proc/self/clear_refs", "5").ok()?;
    }
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let kib = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    Some((kib("VmHWM:")? * 1_024, kib("VmRSS:")? * 1_024))
}

/// The most that judging keeps per operation.
fn bytes_per_operation(operations: u64) -> Option<f64> {
    let (_, before) = memory(true)?;
    let mut reader = Reader::default();
    lines(operations).for_each(|line| reader.line(&line));
    let record = reader.finish(false, &BTreeMap::new());
    clean(judge(record, &CheckOptions::default()));
    let (most, _) = memory(false)?;
    Some(most.saturating_sub(before) as f64 / operations as f64)
}

/// One pass, and its memory.
fn once(name: &str, operations: u64, most: Duration) {
    let bytes = bytes_per_operation(operations);
    let history = history(operations);
    let begun = Instant::now();
    let record = Record::of(&history);
    let read = begun.elapsed();
    clean(judge(record, &CheckOptions::default()));
    let took = begun.elapsed();
    let reached = took <= most && bytes.is_none_or(|bytes| bytes < BYTES_MOST);
    let verdict = if reached { "reached" } else { "NOT reached" };
    let bytes = bytes.map_or("unknown".to_owned(), |bytes| format!("{bytes:.0}"));
    eprintln!(
        "goal: all checkers over {name}: {} ms, {} of them to read it, at most {} ms; {bytes} bytes per operation, less than {BYTES_MOST}: {verdict}",
        took.as_millis(),
        read.as_millis(),
        most.as_millis()
    );
}

fn checkers(c: &mut Criterion) {
    let mut group = c.benchmark_group("all checkers");
    group.sample_size(10);
    for (name, operations, most) in [
        ("1 million operations", 1_000_000, Duration::from_secs(1)),
        ("10 million operations", 10_000_000, Duration::from_millis(6_500)),
    ] {
        let needed = operations * BYTES_PER_OPERATION;
        if bench::environment::available_memory_bytes().is_some_and(|bytes| bytes < needed) {
            eprintln!("all checkers/{name}: left out, it needs {} GB of memory", needed / 1_000_000_000);
            continue;
        }
        group.throughput(Throughput::Elements(operations));
        let mut made = None;
        group.bench_function(name, |b| {
            // Made only if it is asked for.
            let history = made.get_or_insert_with(|| {
                once(name, operations, most);
                history(operations)
            });
            b.iter(|| clean(check(history, &CheckOptions::default())));
        });
    }
    group.finish();
}

/// What MONITOR shows of a hundred clients: reads of a cache, and cycles of so many locks by SET NX and a
/// script.
fn traffic(lines: usize, names: usize) -> Vec<u8> {
    let mut text = Vec::new();
    for n in 0..lines / 10 {
        let (us, client, lock) = (n * 100, 40_000 + n % 100, n % names);
        let value = format!("{client:08}-0000-4000-8000-{n:012}");
        let mut line = |client: &dyn Display, words: &str| {
            let (seconds, micros) = (1_700_000_000 + us / 1_000_000, us % 1_000_000);
            writeln!(text, "{seconds}.{micros:06} [0 {client}] {words}").expect("in memory");
        };
        let own = format!("127.0.0.1:{client}");
        for read in 0..6 {
            line(&own, &format!(r#""GET" "cache:{}""#, n * 7 + read));
        }
        let taken = format!(r#""SET" "order:{lock}" "{value}" "NX" "PX" "30000""#);
        line(&own, &taken);
        let given = format!(r#""EVALSHA" "aa" "1" "order:{lock}" "{value}""#);
        line(&own, &given);
        line(&"lua", &format!(r#""get" "order:{lock}""#));
        line(&"lua", &format!(r#""del" "order:{lock}""#));
    }
    text
}

/// One pass over lines in memory, as far as a watch of 100,000 lines a second asks. `base`: what this process
/// held before any, for memory that is given back may stay with it.
fn watch_once(lines: usize, names: usize, base: Option<u64>) {
    const CORES_MOST: f64 = 0.7;
    const MIB_MOST: f64 = 64.0;
    let text = traffic(lines, names);
    memory(true);
    let begun = Instant::now();
    let watcher = read_bytes(&text, WatchOptions::default()).expect("MONITOR's text");
    assert_eq!(watcher.finish().report.locks[0].grants as usize, lines / 10);
    let cores = begun.elapsed().as_secs_f64() / lines as f64 * 100_000.0;
    let mib = base.zip(memory(false));
    let held = |(base, (most, _)): (u64, (u64, u64))| most.saturating_sub(base + text.len() as u64);
    let mib = mib.map(|sizes| held(sizes) as f64 / (1 << 20) as f64);
    let reached = cores <= CORES_MOST && mib.is_none_or(|mib| mib < MIB_MOST);
    let verdict = if reached { "reached" } else { "NOT reached" };
    let mib = mib.map_or("unknown".to_owned(), |mib| format!("{mib:.1}"));
    eprintln!(
        "goal: a watch of {names} locks: {cores:.2} of a core for 100,000 lines/s, at most {CORES_MOST}; {mib} MiB, less than {MIB_MOST}: {verdict}"
    );
}

fn watch(c: &mut Criterion) {
    const LINES: usize = 1_000_000;
    let base = memory(true).map(|(_, now)| now);
    for names in [1_000, 10_000] {
        watch_once(LINES, names, base);
    }
    let text = traffic(LINES, 1_000);
    let mut group = c.benchmark_group("watch");
    group.sample_size(10);
    group.throughput(Throughput::Elements(LINES as u64));
    group.bench_function("1 million lines", |b| {
        b.iter(|| {
            let watcher = read_bytes(&text, WatchOptions::default());
            let seen = watcher.expect("MONITOR's text").finish();
            assert_eq!(seen.report.locks[0].grants as usize, LINES / 10);
        });
    });
    group.finish();
}

criterion_group!(benches, checkers, watch);
criterion_main!(benches);
