//! Verdicts on the ratios of a run, made so that many comparisons together are wrong no more often than one.

use std::cmp::Ordering;

use crate::record::figure::more_is_better;
use crate::record::run::{Comparison, Ratio};

/// Within this share of 1 a ratio's whole interval counts as no difference.
pub const EQUIVALENCE: f64 = 0.02;
/// Fewer rounds show nothing: a sign test of five pairs, and the range of five rounds, miss 5 %.
pub const FEWEST_ROUNDS: u32 = 6;
/// The chance that is taken of calling equal things different, in all comparisons of a run together.
const LEVEL: f64 = 0.05;

/// Sets `p_adjusted` and `verdict` of comparisons that were measured side by side, all of one run together.
///
/// `better` and `worse` need three things: an interval that leaves out 1, a p-value that stands after Holm's
/// correction, and an effect that is larger than what the base differed from itself
/// ([`Comparison::same_again`]). `equivalent` needs an interval within [`EQUIVALENCE`]. Else: `not-shown`.
pub fn decide(comparisons: &mut [Comparison]) {
    let ps: Vec<Option<f64>> = comparisons.iter().map(|c| c.p).collect();
    for (comparison, adjusted) in comparisons.iter_mut().zip(holm(&ps)) {
        comparison.p_adjusted = adjusted;
        comparison.verdict = verdict(comparison).to_owned();
    }
}

fn verdict(comparison: &Comparison) -> &'static str {
    let ratio = &comparison.ratio;
    let (Some(low), Some(high)) = (ratio.low, ratio.high) else {
        return "not-shown";
    };
    if low >= 1.0 / (1.0 + EQUIVALENCE) && high <= 1.0 + EQUIVALENCE {
        return "equivalent";
    }
    let significant = comparison.p_adjusted.is_some_and(|p| p <= LEVEL);
    let far = |ratio: &Ratio| ratio.point.ln().abs();
    let same = comparison.same_again.as_ref();
    let beyond_noise = same.is_none_or(|same| far(ratio) > far(same));
    if !significant || !beyond_noise || (low <= 1.0 && high >= 1.0) {
        return "not-shown";
    }
    if (low > 1.0) == more_is_better(&comparison.metric) { "better" } else { "worse" }
}

/// Holm's step-down correction: the smallest of m p-values times m, the next times m − 1, …, never falling.
fn holm(ps: &[Option<f64>]) -> Vec<Option<f64>> {
    let known = ps.iter().enumerate().filter_map(|(at, p)| Some((at, (*p)?)));
    let mut known: Vec<(usize, f64)> = known.collect();
    known.sort_by(|a, b| a.1.partial_cmp(&b.1).unwrap_or(Ordering::Equal));
    let mut adjusted = vec![None; ps.len()];
    let mut at_least: f64 = 0.0;
    for (rank, (at, p)) in known.iter().enumerate() {
        at_least = at_least.max(p * (known.len() - rank) as f64).min(1.0);
        adjusted[*at] = Some(at_least);
    }
    adjusted
}
