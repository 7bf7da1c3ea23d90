//! Turns two benchmark rows into a ratio per figure, with its interval and what it shows.

use crate::decide::EQUIVALENCE;
use crate::measures::Interval;
use crate::run::{BenchRow, Comparison, Estimate, Quantiles, Ratio};

/// A figure of a benchmark row, and which direction is good.
#[derive(Debug)]
pub struct Metric {
    /// Its name, as in [`Comparison::metric`].
    pub name: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// Whether more is better.
    pub higher_is_better: bool,
    /// The figure; `None` where the row has none.
    pub of: fn(&BenchRow) -> Option<Estimate>,
}

const fn less(
    name: &'static str,
    unit: &'static str,
    of: fn(&BenchRow) -> Option<Estimate>,
) -> Metric {
    Metric {
        name,
        unit,
        higher_is_better: false,
        of,
    }
}

/// All figures that are compared, in the order in which they are shown.
pub static METRICS: [Metric; 8] = [
    Metric {
        name: "cycles_per_s",
        unit: "1/s",
        higher_is_better: true,
        of: |row| Some(row.cycles_per_s),
    },
    less("acquire_p50_ns", "ns", |row| {
        time(row.acquire_ns.p50, row.measures.certainty.acquire_p50_ns)
    }),
    less("acquire_p99_ns", "ns", |row| {
        time(row.acquire_ns.p99, row.measures.certainty.acquire_p99_ns)
    }),
    less("response_p99_ns", "ns", |row| {
        time(row.measures.response_ns.as_ref()?.p99, None)
    }),
    less("handoff_p50_ns", "ns", |row| {
        let of = |quantiles: Quantiles| quantiles.p50;
        time(
            row.handoff_ns.and_then(of),
            row.measures.certainty.handoff_p50_ns,
        )
    }),
    less("commands_per_cycle", "1", |row| {
        row.commands_per_cycle.map(point)
    }),
    less("server_cpu_us_per_cycle", "µs", |row| {
        row.server_cpu_us_per_cycle.map(point)
    }),
    less("client_cpu_us_per_cycle", "µs", |row| {
        row.client_cpu_us_per_cycle.map(point)
    }),
];

/// A figure without an interval.
pub(crate) fn point(median: f64) -> Estimate {
    Estimate {
        median,
        low: None,
        high: None,
    }
}

/// A quantile with its interval, where it has one.
pub(crate) fn time(ns: Option<u64>, interval: Option<Interval>) -> Option<Estimate> {
    Some(Estimate {
        median: ns? as f64,
        low: interval.map(|interval| interval.low),
        high: interval.map(|interval| interval.high),
    })
}

/// Compares every metric that both rows have, `b` against `a`. Of rows that are invalid the verdict is `not-shown`.
pub fn compare_rows(a: &BenchRow, b: &BenchRow) -> Vec<Comparison> {
    METRICS
        .iter()
        .filter_map(|metric| {
            let (ratio, verdict) = against(metric, a, b)?;
            Some(Comparison {
                a: a.subject.clone(),
                b: b.subject.clone(),
                metric: metric.name.to_owned(),
                r#where: format!("{}/{}/{}", b.topology, b.workload, b.tasks),
                ratio,
                verdict: verdict.to_owned(),
                ..Comparison::default()
            })
        })
        .collect()
}

/// The ratio of one figure, `b` over `a`, and what it shows; `None` where either has none. Of rows that are invalid nothing is shown.
pub(crate) fn against(
    metric: &Metric,
    a: &BenchRow,
    b: &BenchRow,
) -> Option<(Ratio, &'static str)> {
    let ratio = ratio(&(metric.of)(a)?, &(metric.of)(b)?)?;
    let shown = if a.valid && b.valid {
        verdict(&ratio, metric.higher_is_better)
    } else {
        "not-shown"
    };
    Some((ratio, shown))
}

/// b over a, from the lowest that it can be to the highest; `None` where a ratio has no meaning.
fn ratio(a: &Estimate, b: &Estimate) -> Option<Ratio> {
    let good = |value: f64| value.is_finite() && value > 0.0;
    if !good(a.median) || !good(b.median) {
        return None;
    }
    let interval = match (a.low, a.high, b.low, b.high) {
        (Some(a_low), Some(a_high), Some(b_low), Some(b_high))
            if good(a_low) && good(a_high) && good(b_low) && good(b_high) =>
        {
            Some((b_low / a_high, b_high / a_low))
        }
        _ => None,
    };
    Some(Ratio {
        point: b.median / a.median,
        low: interval.map(|(low, _)| low),
        high: interval.map(|(_, high)| high),
    })
}

/// `better` or `worse` if the interval leaves out 1, else `equivalent` if it is wholly within [`EQUIVALENCE`], else
/// `not-shown`; without an interval nothing is shown.
pub fn verdict(ratio: &Ratio, higher_is_better: bool) -> &'static str {
    let (Some(low), Some(high)) = (ratio.low, ratio.high) else {
        return "not-shown";
    };
    if low > 1.0 {
        if higher_is_better { "better" } else { "worse" }
    } else if high < 1.0 {
        if higher_is_better { "worse" } else { "better" }
    } else if low >= 1.0 - EQUIVALENCE && high <= 1.0 + EQUIVALENCE {
        "equivalent"
    } else {
        "not-shown"
    }
}
