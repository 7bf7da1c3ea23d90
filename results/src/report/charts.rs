//! The charts of a run: which figures each of them shows.

use itertools::Itertools;

use super::{Fault, cells};
use crate::answer::bare;
use crate::intervals::Intervals;
use crate::measures::Sweep;
use crate::run::{BenchRow, Estimate, Run, ScenarioResult, with_origin};
use crate::svg::{
    self, Chart, Lines, PercentileCurve, PricePoint, Row, Series, Shade, TimeAxis, lines,
};
use crate::timeline::{FaultBar, Span};
use crate::units;
use crate::verdict::State;

pub(super) const THROUGHPUT: &str = "Cycles per second";
pub(super) const LATENCY: &str = "Acquire latency";

/// Scenarios that have a place on the chart of the price of safety: configurations, with a known contract verdict.
fn placed(run: &Run) -> impl Iterator<Item = &ScenarioResult> {
    run.scenarios.iter().filter(|result| {
        !result.is_control()
            && result.verdicts.contract.state != State::Unknown
            && result.grants_per_s > 0.0
    })
}

/// Why throughputs of this run cannot be set beside each other: their loads differ, or are not known; `None` where they can, or there
/// are none to compare.
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

/// The price of safety, one point per configuration with a known contract verdict; `None` with fewer than two, or if their loads differ.
pub(super) fn price(run: &Run) -> Option<Chart> {
    if placed(run).nth(1).is_none() || unlike(run).is_some() {
        return None;
    }
    let points = placed(run).filter_map(|result| {
        let violations_per_min = match result.verdicts.contract.state {
            State::Clean => 0.0,
            _ => result.per_minute("contract")?,
        };
        Some(PricePoint {
            label: label(result),
            throughput: result.grants_per_s,
            violations_per_min,
        })
    });
    let points: Vec<PricePoint> = points.collect();
    (!points.is_empty()).then(|| svg::price(&points))
}

/// Scenarios that have no place on that chart, since their contract verdict is unknown.
pub(super) fn unplaced(run: &Run) -> Vec<&str> {
    let tried = run.scenarios.iter().filter(|result| !result.is_control());
    let unknown = tried.filter(|result| result.verdicts.contract.state == State::Unknown);
    unknown.map(|result| result.name.as_str()).collect()
}

fn label(result: &ScenarioResult) -> String {
    let place = format!("{} · {}", result.name, result.topology);
    with_origin(place, bare(&result.durability))
}

/// Throughput, a chart per workload and number of tasks: beside a free lock, the bar of a contended one could not be seen.
pub(super) fn throughput(run: &Run) -> Vec<Chart> {
    let loads: Vec<String> = run.rows.iter().map(loaded).unique().collect();
    // A sweep has a load per row: one chart holds them all, or there would be a chart per bar.
    if loads.len() > CHARTS_MAX {
        return vec![throughput_of(run.rows.iter(), THROUGHPUT)];
    }
    let charts = loads.iter().map(|load| {
        let rows = run.rows.iter().filter(|row| loaded(row) == *load);
        throughput_of(rows, &format!("{THROUGHPUT}: {load}"))
    });
    charts.collect()
}

/// Workload and number of tasks.
fn loaded(row: &BenchRow) -> String {
    let tasks = units::several(row.tasks as usize, "task");
    format!("{}, {tasks}", row.workload)
}

/// With more loads than this, throughput is one chart.
const CHARTS_MAX: usize = 6;

fn throughput_of<'a>(rows: impl Iterator<Item = &'a BenchRow>, title: &str) -> Chart {
    let finite = |figure: &Estimate| figure.median.is_finite();
    // What may not be quoted is no bar beside what may.
    let rows: Vec<_> = rows
        .filter(|row| row.valid)
        .map(|row| of(row, Some(row.cycles_per_s).filter(finite)))
        .collect();
    svg::bars(title, "acquire and release pairs per second", &rows)
}

pub(super) fn latency(run: &Run) -> Chart {
    let rows = run.rows.iter().filter(|row| row.valid);
    let rows: Vec<_> = rows.map(|row| of(row, Some(row.acquire_ns))).collect();
    svg::dots(LATENCY, &rows)
}

/// A row with its figure, if that is not void.
fn of<T>(row: &BenchRow, figure: Option<T>) -> Row<T> {
    Row {
        label: row.lock(),
        detail: row.place(),
        of: figure.filter(|_| !cells::is_void(row)),
        note: VOID.to_owned(),
    }
}

const VOID: &str = "void: not safe while it was measured";

/// A run with more than this many rows, as a sweep has, draws only the first: every one is in the tables.
const CURVES_MAX: usize = 24;
/// More curves than that on one chart cannot be followed.
const PER_CHART: usize = 6;

/// Rows that may be drawn, in groups of one workload and number of tasks, each with its name.
fn groups(run: &Run) -> Vec<(String, Vec<&BenchRow>)> {
    let mut groups: Vec<(String, Vec<&BenchRow>)> = Vec::new();
    let rows = run.rows.iter().filter(|row| !cells::is_void(row));
    for row in rows.take(CURVES_MAX) {
        let name = loaded(row);
        let mut open = groups.iter_mut();
        match open.find(|(known, rows)| *known == name && rows.len() < PER_CHART) {
            Some((_, rows)) => rows.push(row),
            None => groups.push((name, vec![row])),
        }
    }
    groups
}

fn short(row: &BenchRow) -> String {
    with_origin(format!("{} · {}", row.lock(), row.site()), &row.origin)
}

/// Percentile curves, a chart per workload and number of tasks.
pub(super) fn percentiles(run: &Run) -> Vec<Chart> {
    let curve = |row: &BenchRow| PercentileCurve {
        label: short(row),
        counts: row.measures.raw.acquire_ns.clone(),
    };
    let chart = |(name, rows): (String, Vec<&BenchRow>)| {
        let curves: Vec<PercentileCurve> = rows.into_iter().map(curve).collect();
        svg::percentiles(&format!("Acquire latency by percentile: {name}"), &curves)
    };
    groups(run).into_iter().filter_map(chart).collect()
}

/// A figure over the time of the rounds, one after the other.
fn rounds(
    run: &Run,
    title: &str,
    unit: &str,
    series: fn(&BenchRow) -> Option<Series>,
) -> Vec<Chart> {
    let chart = |(name, rows): (String, Vec<&BenchRow>)| {
        lines(&Lines {
            title: format!("{title} over time: {name}"),
            across: "seconds of measuring, round after round".to_owned(),
            upright: unit.to_owned(),
            series: rows.into_iter().filter_map(series).collect(),
            ..Lines::default()
        })
    };
    groups(run).into_iter().filter_map(chart).collect()
}

/// Throughput over the time of the rounds.
pub(super) fn steadiness(run: &Run) -> Vec<Chart> {
    rounds(run, "Throughput", "cycles per second", over_rounds)
}

fn over_rounds(row: &BenchRow) -> Option<Series> {
    let raw = &row.measures.raw;
    let mut begun = 0.0;
    let mut stretches = Vec::new();
    for (parts, rate) in raw.cycles_per_part.iter().zip(&raw.cycles_per_s) {
        let cycles: f64 = parts.iter().map(|count| f64::from(*count)).sum();
        let window = cycles / rate;
        if !(window.is_finite() && window > 0.0) {
            continue;
        }
        let part = window / parts.len() as f64;
        let rates = rates(parts, part).map(|(at, rate)| (begun + at, rate));
        stretches.push(rates.collect());
        begun += window;
    }
    (!stretches.is_empty()).then(|| Series {
        label: short(row),
        stretches,
        ..Series::default()
    })
}

/// The rate in each part of a time, in its middle.
fn rates(counts: &[u32], part: f64) -> impl Iterator<Item = (f64, f64)> {
    let counts = (0..).zip(counts);
    counts.map(move |(index, count)| ((f64::from(index) + 0.5) * part, f64::from(*count) / part))
}

/// The tail of acquire over the time of the rounds.
pub(super) fn latency_over_rounds(run: &Run) -> Vec<Chart> {
    rounds(run, "Acquire p99", "milliseconds", |row| {
        let intervals = row.measures.raw.acquire_over_time.as_ref()?;
        over_intervals(intervals, TAIL, &short(row))
    })
}

const TAIL: f64 = 0.99;

/// A quantile in milliseconds, a point in the middle of each interval that has one; `None` where fewer than three have.
fn over_intervals(intervals: &Intervals, share: f64, label: &str) -> Option<Series> {
    let mut stretches: Vec<Vec<(f64, f64)>> = vec![Vec::new()];
    for (index, value) in intervals.quantile(share).into_iter().enumerate() {
        let at = (index as f64 + 0.5) * intervals.interval_ns as f64 / 1e9;
        match (value, stretches.last_mut()) {
            (Some(ns), Some(open)) => open.push((at, ns as f64 / 1e6)),
            _ => stretches.push(Vec::new()),
        }
    }
    stretches.retain(|stretch| !stretch.is_empty());
    (stretches.iter().map(Vec::len).sum::<usize>() > 2).then(|| Series {
        label: label.to_owned(),
        stretches,
        marks: true,
        ..Series::default()
    })
}

/// A sweep as a curve, with its knee.
pub(super) fn sweep(sweep: &Sweep) -> Option<Chart> {
    let good = |value: &f64| value.is_finite() && *value > 0.0;
    let levels = || sweep.points.iter().filter(|point| good(&point.level));
    let points = levels().map(|point| (point.level, point.cycles_per_s.median));
    let intervals = levels().filter_map(|point| {
        let (low, high) = point.cycles_per_s.low.zip(point.cycles_per_s.high)?;
        Some((point.level, low, high))
    });
    let series = vec![Series {
        label: "measured".to_owned(),
        intervals: intervals.collect(),
        stretches: vec![points.collect()],
        marks: true,
    }];
    let knee = sweep.knee.iter().filter_map(|knee| knee.bad_per_s);
    let shades = knee.map(|from| Shade {
        label: "not kept from here on".to_owned(),
        from,
        to: None,
    });
    lines(&Lines {
        title: format!("{} on {}", sweep.lock(), sweep.topology),
        across: format!("{} (logarithmic)", sweep.over),
        upright: "cycles per second".to_owned(),
        logarithmic: true,
        series,
        shades: shades.collect(),
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
            window: Span {
                from_ns: 0,
                to_ns: over.part_ns.saturating_mul(over.grants.len() as u64),
            },
            faults: &faults,
            over_time: Some(over),
            held: held.as_ref(),
        })),
    }
}

/// Who held around the worst anomaly, where that is too short to be seen over the time of the run.
pub(super) fn around(result: &ScenarioResult) -> Option<Chart> {
    let (over, held) = (result.over_time.as_ref()?, result.timeline.as_ref()?);
    let length_ns = over.part_ns.saturating_mul(over.grants.len() as u64);
    let is_short = held.to_ns.saturating_sub(held.from_ns) < length_ns / 4;
    is_short.then(|| svg::timeline(held))
}

/// All charts as one SVG picture.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Meta;

    fn used(subject: &str, hold: &str) -> ScenarioResult {
        let mut result = ScenarioResult {
            subject: subject.to_owned(),
            grants_per_s: 10.0,
            ..ScenarioResult::default()
        };
        result.verdicts.contract.state = State::Clean;
        if !hold.is_empty() {
            result.load.insert("hold".to_owned(), hold.to_owned());
        }
        result
    }

    fn of(scenarios: Vec<ScenarioResult>) -> (bool, Option<String>) {
        let run = Run {
            scenarios,
            ..Run::new("r", "chaos", Meta::default())
        };
        (price(&run).is_some(), unlike(&run))
    }

    #[test]
    fn the_price_of_safety_compares_like_with_like_or_says_why_not() {
        let [a, b, slow] = [used("a", "20 ms"), used("b", "20 ms"), used("c", "15 s")];
        assert_eq!(of(vec![a.clone(), b.clone()]), (true, None));
        assert_eq!(of(vec![a.clone()]), (false, None), "one is no comparison");
        assert_eq!(
            of(vec![a.clone(), b.clone(), slow.clone()]),
            (
                false,
                Some("configurations were used differently (hold)".to_owned())
            )
        );
        let old = used("d", "");
        let unsaid = "this run does not say how its locks were used";
        assert_eq!(of(vec![a.clone(), old]), (false, Some(unsaid.to_owned())));
        // A control, and what is not known, have no place there and disturb nobody.
        let control = ScenarioResult {
            subject: "broken:steal".to_owned(),
            ..slow.clone()
        };
        let mut unknown = slow;
        unknown.verdicts.contract.state = State::Unknown;
        assert_eq!(of(vec![a, b, control, unknown]), (true, None));
    }

    #[test]
    fn a_contended_bar_has_a_chart_without_an_uncontended_one() {
        let row = |workload: &str, tasks| BenchRow {
            workload: workload.to_owned(),
            tasks,
            ..BenchRow::default()
        };
        let mut run = Run::new("r", "bench", Meta::default());
        run.rows = vec![
            row("contended", 16),
            row("uncontended", 16),
            row("contended", 16),
        ];
        let [contended, uncontended] = &throughput(&run)[..] else {
            panic!("two charts");
        };
        let titles = [contended.title(), uncontended.title()];
        let loads = ["contended, 16 tasks", "uncontended, 16 tasks"];
        assert_eq!(
            titles,
            loads.map(|load| format!("Cycles per second: {load}"))
        );
        run.rows = (1..=20).map(|tasks| row("contended", tasks)).collect();
        assert_eq!(throughput(&run).len(), 1, "a sweep is one chart");
    }
}
