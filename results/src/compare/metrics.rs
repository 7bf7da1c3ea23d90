//! Two benchmark rows compared: a ratio per figure, with its interval and what it shows.

use crate::decide::EQUIVALENCE;
use crate::figure::{COMPARED, Figure};
use crate::run::{BenchRow, Comparison, Estimate, Ratio};

/// Compares every metric that both rows have, `b` against `a`. Of rows that are invalid the verdict is `not-shown`.
pub fn compare_rows(a: &BenchRow, b: &BenchRow) -> Vec<Comparison> {
    let compared = COMPARED.iter().filter_map(|figure| {
        let (ratio, verdict) = against(figure, a, b)?;
        Some(Comparison {
            a: a.subject.clone(),
            b: b.subject.clone(),
            metric: figure.name.to_owned(),
            r#where: format!("{}/{}/{}", b.topology, b.workload, b.tasks),
            ratio,
            verdict: verdict.to_owned(),
            ..Comparison::default()
        })
    });
    compared.collect()
}

/// The ratio of one figure, `b` over `a`, and what it shows; `None` where either has none. Of rows that are invalid nothing is shown.
pub(crate) fn against(
    figure: &Figure<BenchRow>,
    a: &BenchRow,
    b: &BenchRow,
) -> Option<(Ratio, &'static str)> {
    let ratio = ratio(&(figure.of)(a)?, &(figure.of)(b)?)?;
    let shown = match a.valid && b.valid {
        true => verdict(&ratio, figure.more_is_better),
        false => "not-shown",
    };
    Some((ratio, shown))
}

/// b over a, from the lowest that it can be to the highest; `None` where a ratio has no meaning.
fn ratio(a: &Estimate, b: &Estimate) -> Option<Ratio> {
    let good = |value: f64| value.is_finite() && value > 0.0;
    if !good(a.median) || !good(b.median) {
        return None;
    }
    let known = [a.low, a.high, b.low, b.high];
    let known = known.iter().all(|end| end.is_some_and(good));
    let over = |b: Option<f64>, a: Option<f64>| b.zip(a).filter(|_| known).map(|(b, a)| b / a);
    Some(Ratio {
        point: b.median / a.median,
        low: over(b.low, a.high),
        high: over(b.high, a.low),
    })
}

/// `better` or `worse` if the interval leaves out 1, else `equivalent` if it is wholly within [`EQUIVALENCE`], else
/// `not-shown`; without an interval nothing is shown.
pub fn verdict(ratio: &Ratio, more_is_better: bool) -> &'static str {
    let (Some(low), Some(high)) = (ratio.low, ratio.high) else {
        return "not-shown";
    };
    if low > 1.0 || high < 1.0 {
        match (low > 1.0) == more_is_better {
            true => "better",
            false => "worse",
        }
    } else if low >= 1.0 - EQUIVALENCE && high <= 1.0 + EQUIVALENCE {
        "equivalent"
    } else {
        "not-shown"
    }
}
