//! The charts of a run: which figures each of them shows.

use itertools::Itertools;

use super::Fault;
use crate::answer::may_be_quoted;
use crate::record::measures::{Sweep, bare};
use crate::record::run::{BenchRow, Run, ScenarioResult, with_origin};
use crate::record::timeline::{FaultBar, Span};
use crate::record::verdict::State;
use crate::record::watch::WatchReport;
use crate::svg::{self, Chart, PercentileCurve, PricePoint, Row, SweepCurve, TimeAxis};
use crate::wording::units;

pub(super) const THROUGHPUT: &str = "Cycles per second";
pub(super) const LATENCY: &str = "Acquire latency";

/// Scenarios on the chart of the price of safety: configurations with a known contract verdict.
fn placed(run: &Run) -> impl Iterator<Item = &ScenarioResult> {
    run.scenarios.iter().filter(|result| {
        !result.is_control() && result.verdicts.contract.state != State::Unknown && result.grants_per_s > 0.0
    })
}

/// Why throughputs of this run cannot be compared, their loads being other or unknown; else `None`.
pub(super) fn unlike(run: &Run) -> Option<String> {
    let mut all = placed(run);
    let first = all.next()?;
    if first.load.is_empty() || placed(run).any(|result| result.load.is_empty()) {
        return Some("this run does not say how its locks were used".to_owned());
    }
    let names = all.flat_map(|result| {
        let names = first.load.keys().chain(result.load.keys());
        names.filter(|name| first.load.get(*name) != result.load.get(*name))
    });
    let names = names.unique().join(", ");
    (!names.is_empty()).then(|| format!("configurations were used differently ({names})"))
}

const UNDER_FAULTS: &str = "grants per second under the faults of the scenario";

/// What safety costs: configurations that were measured under one load, each beside what its scenario found.
fn measured_prices(run: &Run) -> Vec<PricePoint> {
    let quotable = || run.rows.iter().filter(|row| may_be_quoted(row));
    let Some(first) = quotable().next() else {
        return Vec::new();
    };
    let same_load = |row: &&BenchRow| (&row.workload, row.tasks) == (&first.workload, first.tasks);
    let points = placed(run).filter_map(|result| {
        let row = quotable().filter(same_load).find(|row| row.measures_configuration_of(result))?;
        let away = result.without_grant_ns.map(units::duration);
        let away = away.map_or(String::new(), |away| format!(", {away} without a grant"));
        Some(PricePoint {
            label: label(result) + &away,
            throughput: row.cycles_per_s.median,
            violations_per_min: result.per_minute("contract").unwrap_or(0.0),
        })
    });
    points.collect()
}

/// The price of safety, one point per configuration; `None` with fewer than two, or if loads differ.
pub(super) fn price(run: &Run) -> Option<Chart> {
    let measured = measured_prices(run);
    if measured.len() > 1 {
        return Some(svg::price(&measured, "cycles per second, measured without faults"));
    }
    if placed(run).nth(1).is_none() || unlike(run).is_some() {
        return None;
    }
    let points = placed(run).filter_map(|result| {
        let violations_per_min = match result.verdicts.contract.state {
            State::Clean => 0.0,
            _ => result.per_minute("contract")?,
        };
        Some(PricePoint { label: label(result), throughput: result.grants_per_s, violations_per_min })
    });
    let points: Vec<PricePoint> = points.collect();
    (!points.is_empty()).then(|| svg::price(&points, UNDER_FAULTS))
}

/// Scenarios that have no place on that chart, since their contract verdict is unknown.
pub(super) fn unplaced(run: &Run) -> Vec<&str> {
    let tried = run.scenarios.iter().filter(|result| !result.is_control());
    let unknown = tried.filter(|result| result.verdicts.contract.state == State::Unknown);
    unknown.map(|result| result.name.as_str()).collect()
}

fn label(result: &ScenarioResult) -> String {
    with_origin(format!("{} · {}", result.name, result.topology), bare(&result.durability))
}

/// Throughput, a chart per workload and number of tasks: a free lock's bar would hide a contended one's.
pub(super) fn throughput(run: &Run) -> Vec<Chart> {
    let chart = |(load, rows): (String, Vec<&BenchRow>)| {
        let rows = rows.into_iter().filter(|row| row.cycles_per_s.median.is_finite());
        let rows = drawn(rows, |row| row.cycles_per_s);
        let title = format!("{THROUGHPUT}{}", units::enclosed(": ", &load, ""));
        svg::bars(&title, "acquire and release pairs per second", &rows)
    };
    // A sweep has a load per row: one chart holds them all, or there would be a chart per bar.
    match by_load(run) {
        loads if loads.len() > CHARTS_MAX => {
            vec![chart((String::new(), run.rows.iter().collect()))]
        }
        loads => loads.into_iter().map(chart).collect(),
    }
}

const CHARTS_MAX: usize = 6;

fn by_load(run: &Run) -> Vec<(String, Vec<&BenchRow>)> {
    let load = |row: &BenchRow| format!("{}, {}", row.workload, units::several(row.tasks as usize, "task"));
    let loads = run.rows.iter().map(load).unique();
    let rows = |name: &String| run.rows.iter().filter(|row| load(row) == *name).collect();
    loads.map(|name| (name.clone(), rows(&name))).collect()
}

pub(super) fn latency(run: &Run) -> Chart {
    svg::dots(LATENCY, &drawn(run.rows.iter(), |row| row.acquire_ns))
}

/// The rows that are drawn: what may not be quoted is no bar beside what may.
fn drawn<'a, T>(rows: impl Iterator<Item = &'a BenchRow>, of: fn(&BenchRow) -> T) -> Vec<Row<T>> {
    let rows = rows.filter(|row| row.valid && !row.is_void());
    let row = |row: &BenchRow| Row { label: row.lock(), detail: row.place(), of: of(row) };
    rows.map(row).collect()
}

/// More loads, as a sweep has, are in the tables alone, and more curves on one chart cannot be followed.
const CURVES_MAX: usize = 6;

/// Percentile curves, a chart per workload and number of tasks.
pub(super) fn percentiles(run: &Run) -> Vec<Chart> {
    let curve = |row: &&BenchRow| PercentileCurve {
        label: with_origin(format!("{} · {}", row.lock(), row.site()), &row.origin),
        counts: row.measures.raw.acquire_ns.clone(),
    };
    let charts = by_load(run).into_iter().take(CURVES_MAX);
    let charts = charts.flat_map(|(name, mut rows)| {
        rows.retain(|row| !row.is_void());
        let title = format!("Acquire latency by percentile: {name}");
        let charts = rows.chunks(CURVES_MAX).filter_map(|rows| {
            let curves: Vec<PercentileCurve> = rows.iter().map(curve).collect();
            svg::percentiles(&title, &curves)
        });
        charts.collect::<Vec<_>>()
    });
    charts.collect()
}

pub(super) fn sweep(sweep: &Sweep) -> Option<Chart> {
    let points = sweep.points.iter().map(|point| (point.level, point.cycles_per_s));
    svg::sweep(&SweepCurve {
        title: format!("{} on {}", sweep.lock(), sweep.topology),
        over: sweep.over.clone(),
        points: points.collect(),
        knee: sweep.knee.as_ref().and_then(|knee| knee.bad_per_s),
    })
}

/// All that is known over the time of a scenario, over one axis; `None` where nothing is.
pub(super) fn time_axis(result: &ScenarioResult) -> Option<Chart> {
    let over = result.over_time.as_ref();
    let faults = result.faults.iter().map(|fault| FaultBar {
        label: fault.label(),
        from_ns: fault.injected_ns,
        to_ns: fault.healed_ns,
    });
    let faults = faults.collect_vec();
    match (over, &result.timeline) {
        (None, timeline) => timeline.as_ref().map(svg::timeline),
        (Some(over), held) => Some(svg::time_axis(&TimeAxis {
            title: "Over the time of the run".to_owned(),
            window: Span { from_ns: 0, to_ns: over.part_ns.saturating_mul(over.grants.len() as u64) },
            faults: &faults,
            over_time: Some(over),
            held: held.as_ref(),
        })),
    }
}

/// Grants and holds over the time of a watch; `None` without a grant.
pub(super) fn over_time(watch: &WatchReport) -> Option<Chart> {
    let over = watch.over_time.as_ref()?;
    Some(svg::time_axis(&TimeAxis {
        title: "Over the time of the watch".to_owned(),
        window: Span { from_ns: 0, to_ns: over.part_ns.saturating_mul(over.grants.len() as u64) },
        faults: &[],
        over_time: Some(over),
        held: watch.held.as_ref(),
    }))
}

/// Who held around the worst anomaly, where that is too short to be seen over the time of the run.
pub(super) fn around(result: &ScenarioResult) -> Option<Chart> {
    let (over, held) = (result.over_time.as_ref()?, result.timeline.as_ref()?);
    let length_ns = over.part_ns.saturating_mul(over.grants.len() as u64);
    let is_short = held.to_ns.saturating_sub(held.from_ns) < length_ns / 4;
    is_short.then(|| svg::timeline(held))
}

pub(super) fn document(run: &Run) -> Result<String, Fault> {
    let mut parts: Vec<Chart> = price(run).into_iter().collect();
    if !run.rows.is_empty() {
        parts.extend(throughput(run));
        parts.push(latency(run));
        parts.extend(percentiles(run));
    }
    parts.extend(run.sweeps.iter().filter_map(sweep));
    let timelines = run.scenarios.iter();
    parts.extend(timelines.filter_map(|result| result.timeline.as_ref().map(svg::timeline)));
    if parts.is_empty() {
        return Err(Fault::Nothing("nothing that a chart shows"));
    }
    Ok(Chart::stack(&run.run, &parts).document())
}
