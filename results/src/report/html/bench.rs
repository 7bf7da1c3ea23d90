//! Benchmark rows on the page, whose table is `templates/bench_rows.html`: their badges and charts.

use crate::report::charts;
use crate::run::{BenchRow, Run};
use crate::svg::Chart;
use crate::verdict::State;

/// The class of a row's badge.
pub(super) fn safety(row: &BenchRow) -> &'static str {
    match row.safety.state {
        State::Clean => "ok",
        State::Unknown => "unk",
        State::Violated => "bad",
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
        let charts = charts.iter().enumerate();
        let named = charts.map(|(index, chart)| named(chart, &format!("{name}{index}")));
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
