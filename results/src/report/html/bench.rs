//! Benchmark rows on the page: cells, charts and sweeps.

use crate::report::table::{self, Cell, Table};
use crate::report::{cells, charts, measures};
use crate::run::{BenchRow, Run};
use crate::svg::Chart;
use crate::verdict::State;

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

impl BenchView {
    pub(super) fn new(row: &BenchRow) -> Self {
        let void = cells::is_void(row);
        Self {
            subject: row.subject.clone(),
            place: row.place(),
            cells: table::bench(row),
            safety: cells::safety(row),
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
    let numbered = |name: &str, charts: Vec<Chart>| {
        let named = charts
            .iter()
            .enumerate()
            .map(|(index, chart)| named(chart, &format!("{name}{index}")));
        named.collect::<Vec<_>>()
    };
    let mut all = numbered("throughput", charts::throughput(run));
    all.push(named(&charts::latency(run), "latency"));
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
    pub(super) table: Option<Table>,
    pub(super) words: Vec<String>,
}

pub(super) fn sweeps(run: &Run) -> Vec<SweepView> {
    run.sweeps
        .iter()
        .enumerate()
        .map(|(index, sweep)| SweepView {
            title: sweep.title(),
            chart: charts::sweep(sweep).map(|chart| named(&chart, &format!("sweep{index}"))),
            table: table::sweep(sweep).trimmed(),
            words: measures::conclusions(sweep),
        })
        .collect()
}
