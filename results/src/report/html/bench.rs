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

/// Charts of the figures that tables have too.
pub(super) fn charts(run: &Run) -> impl Iterator<Item = NamedChart> {
    let throughput = numbered("throughput", charts::throughput(run));
    let latency = numbered("latency", vec![charts::latency(run)]);
    let cost = numbered("cost", charts::cost(run).into_iter().collect());
    throughput.chain(latency).chain(cost)
}

/// Charts of percentiles, and of what came over time.
pub(super) fn curves(run: &Run) -> impl Iterator<Item = NamedChart> {
    let percentiles = numbered("percentiles", charts::percentiles(run));
    let steadiness = numbered("steadiness", charts::steadiness(run));
    let over_time = numbered("overtime", charts::latency_over_rounds(run));
    percentiles.chain(steadiness).chain(over_time)
}

fn numbered(name: &str, charts: Vec<Chart>) -> impl Iterator<Item = NamedChart> {
    let charts = charts.into_iter().enumerate();
    charts.map(move |(index, chart)| named(&chart, &format!("{name}{index}")))
}
