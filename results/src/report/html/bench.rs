//! Turns benchmark rows into the cells and charts of the page.

use super::measures as tables;
use super::table::TableView;
use crate::report::{cells, charts, measures};
use crate::run::{BenchRow, Run};
use crate::svg::Chart;
use crate::verdict::State;

/// Head, explanation, and whether it is a column of figures.
pub(super) const HEADS: [(&str, &str, bool); 9] = [
    (
        "Subject",
        "The lock under test, and where it was measured",
        false,
    ),
    (
        "Cycles/s",
        "Acquire and release pairs per second: median over rounds, with their range",
        true,
    ),
    (
        "Acquire p50",
        "From the call of acquire to its return",
        true,
    ),
    ("p99", "From the call of acquire to its return", true),
    (
        "Hand-off p50",
        "From the sending of a release to the next owner's return from acquire",
        true,
    ),
    ("Commands", "Commands that clients sent per cycle", true),
    (
        "Server µs",
        "CPU of all servers per cycle, in microseconds",
        true,
    ),
    ("Jain", "Fairness over tasks: 1 is even", true),
    (
        "Safety",
        "Whether the lock was safe while it was measured, and whether the figures may be quoted",
        false,
    ),
];

pub(super) struct BenchView {
    pub(super) subject: String,
    pub(super) place: String,
    pub(super) cells: Vec<Cell>,
    pub(super) safety: String,
    pub(super) safety_class: &'static str,
    pub(super) invalid: bool,
    pub(super) dim: bool,
    /// Everything beyond the table, a line each.
    pub(super) more: Vec<String>,
}

pub(super) struct Cell {
    pub(super) words: String,
    pub(super) small: String,
    /// What to sort by; empty where there is no figure, which sorts last.
    pub(super) key: String,
}

impl Cell {
    /// A figure, and what to sort it by.
    pub(super) fn figure(words: String, value: Option<f64>) -> Self {
        Self {
            words,
            small: String::new(),
            key: value
                .filter(|value| value.is_finite())
                .map(|value| value.to_string())
                .unwrap_or_default(),
        }
    }
}

impl BenchView {
    pub(super) fn new(row: &BenchRow) -> Self {
        let words = cells::bench(row);
        let void = cells::is_void(row);
        let cell = |words: String, small: String, value: Option<f64>| Cell {
            words,
            small,
            key: value
                .filter(|value| !void && value.is_finite())
                .map(|value| value.to_string())
                .unwrap_or_default(),
        };
        let ns = |value: Option<u64>| value.map(|ns| ns as f64);
        Self {
            subject: row.subject.clone(),
            place: row.place(),
            cells: vec![
                cell(words.cycles, words.interval, Some(row.cycles_per_s.median)),
                cell(words.acquire_p50, String::new(), ns(row.acquire_ns.p50)),
                cell(words.acquire_p99, String::new(), ns(row.acquire_ns.p99)),
                cell(
                    words.handoff_p50,
                    String::new(),
                    ns(row.handoff_ns.and_then(|handoff| handoff.p50)),
                ),
                cell(words.commands, String::new(), row.commands_per_cycle),
                cell(words.server_cpu, String::new(), row.server_cpu_us_per_cycle),
                cell(words.jain, String::new(), Some(row.jain)),
            ],
            safety: words.safety,
            safety_class: match row.safety.state {
                State::Clean => "ok",
                State::Unknown => "unk",
                State::Violated => "bad",
            },
            // Why stands among the warnings on top; a table cell has no room for it.
            invalid: !row.valid && !void,
            dim: void || !row.valid,
            more: measures::lines(row),
        }
    }
}

pub(super) struct NamedChart {
    pub(super) title: String,
    pub(super) svg: String,
}

/// A chart with the id that its parts have in the page.
pub(super) fn named(chart: &Chart, id: &str) -> NamedChart {
    NamedChart {
        title: chart.title().to_owned(),
        svg: chart.inline(id),
    }
}

pub(super) fn charts(run: &Run) -> Vec<NamedChart> {
    if run.rows.is_empty() {
        return Vec::new();
    }
    let mut all = vec![
        named(&charts::throughput(run), "throughput"),
        named(&charts::latency(run), "latency"),
    ];
    let numbered = |name: &str, charts: Vec<Chart>| {
        let named = charts
            .iter()
            .enumerate()
            .map(|(index, chart)| named(chart, &format!("{name}{index}")));
        named.collect::<Vec<_>>()
    };
    all.extend(numbered("percentiles", charts::percentiles(run)));
    all.extend(numbered("steadiness", charts::steadiness(run)));
    all.extend(numbered("overtime", charts::latency_over_rounds(run)));
    all.extend(numbered("cost", charts::cost(run).into_iter().collect()));
    all
}

/// A sweep on the page.
pub(super) struct SweepView {
    pub(super) title: String,
    pub(super) chart: Option<NamedChart>,
    pub(super) table: Option<TableView>,
    pub(super) words: Vec<String>,
}

pub(super) fn sweeps(run: &Run) -> Vec<SweepView> {
    run.sweeps
        .iter()
        .enumerate()
        .map(|(index, sweep)| SweepView {
            title: format!(
                "{} on {}, {}: {} raised",
                sweep.subject, sweep.topology, sweep.workload, sweep.over
            ),
            chart: charts::sweep(sweep).map(|chart| named(&chart, &format!("sweep{index}"))),
            table: tables::sweep(sweep),
            words: measures::conclusions(sweep),
        })
        .collect()
}
