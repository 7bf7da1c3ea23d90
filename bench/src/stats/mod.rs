//! Figures with honest intervals: a method per file, each tried on series whose truth is known.
//!
//! | file | what it is for |
//! |---|---|
//! | `histogram.rs` | latencies, counted |
//! | `batch.rs` | the interval of a rate |
//! | `blocks.rs` | the interval of a quantile |
//! | `censored.rs` | quantiles where some waits were given up |
//! | `paired.rs` | the ratio of two arms, and how sure it is |
//! | `special.rs` | normal and Student's t |

pub mod batch;
pub(crate) mod blocks;
pub mod censored;
pub(crate) mod histogram;
pub mod paired;
#[cfg(test)]
#[path = "../../tests/support/series.rs"]
mod series;
mod special;

use hdrhistogram::Histogram;
use results::run::{Estimate, Quantiles};

/// A tail quantile is given only where at least so many samples lie beyond it.
const EXCEEDANCES: f64 = 20.0;

/// The middle of the values; the mean of the two middle ones where their number is even. 0 without values.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    match sorted.len() {
        0 => 0.0,
        n if n % 2 == 1 => sorted[n / 2],
        n => f64::midpoint(sorted[n / 2 - 1], sorted[n / 2]),
    }
}

/// Median over rounds, with an interval of order statistics.
///
/// From six rounds on it is a 95 % interval: the two nearest pairs of ranks, of which one covers the true
/// median more often than that and one less, interpolated (Hettmansperger and Sheather 1986). Below six
/// rounds it is the whole range, which covers the median less often: [`coverage`] says how often. `null` with
/// one round.
pub fn estimate(rounds: &[f64]) -> Estimate {
    let mut sorted = rounds.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let n = sorted.len();
    let (low, high) = if n < 2 {
        (None, None)
    } else {
        let (cut, share) = ranks(n);
        let between = |outer: f64, inner: f64| outer + share * (inner - outer);
        let inner = (cut + 1).min(n - 1);
        (Some(between(sorted[cut], sorted[inner])), Some(between(sorted[n - 1 - cut], sorted[n - 1 - inner])))
    };
    Estimate { median: median(rounds), low, high }
}

/// How often an interval of [`estimate`] over so many rounds holds the true median; `None`: no interval.
pub fn coverage(rounds: usize) -> Option<f64> {
    match rounds {
        0 | 1 => None,
        n if range_covers(n) < LEVEL => Some(range_covers(n)),
        _ => Some(LEVEL),
    }
}

/// What [`coverage`] says of an interval that is no longer the whole range.
pub(crate) const LEVEL: f64 = 0.95;

fn range_covers(n: usize) -> f64 {
    1.0 - 2.0 * 0.5_f64.powi(i32::try_from(n).unwrap_or(i32::MAX))
}

/// How many of the lowest, and of the highest, values are left out of a 95 % interval for the median of `n`,
/// and how far towards the next value the ends move, 0 to 1.
fn ranks(n: usize) -> (usize, f64) {
    let mut term = 0.5_f64.powi(i32::try_from(n).unwrap_or(i32::MAX));
    let mut below = term;
    let mut cut = 0;
    if 1.0 - 2.0 * below < LEVEL {
        return (0, 0.0);
    }
    loop {
        // Leaving out one more at each end: P(X <= cut + 1) for X ~ Binomial(n, 1/2).
        term *= (n - cut) as f64 / (cut + 1) as f64;
        let next = below + term;
        let (covers, covers_next) = (1.0 - 2.0 * below, 1.0 - 2.0 * next);
        if covers_next < LEVEL {
            let along = (covers - LEVEL) / (covers - covers_next);
            let (rank, n) = ((cut + 1) as f64, n as f64);
            return (cut, (n - rank) * along / (rank + (n - 2.0 * rank) * along));
        }
        below = next;
        cut += 1;
    }
}

/// Quantiles of a histogram; each is `null` where too few samples lie beyond it.
///
/// `p99` and `p999` need 20 samples beyond them, `p90` five, `p50` and `max` one sample at all.
pub fn quantiles(histogram: &Histogram<u64>) -> Quantiles {
    let n = histogram.len();
    let at = |q: f64, beyond: f64| {
        // A hair of slack: 20 000 × (1 − 0.999) is a little less than 20 in binary.
        (n > 0 && n as f64 * (1.0 - q) >= beyond - 1e-6).then(|| histogram.value_at_quantile(q))
    };
    Quantiles {
        p50: at(0.5, 0.0),
        p90: at(0.9, 5.0),
        p99: at(0.99, EXCEEDANCES),
        p999: at(0.999, EXCEEDANCES),
        max: (n > 0).then(|| histogram.max()),
        n,
    }
}

/// Jain's index of fairness: 1 where all are equal, 1/n where one has all; `None` where nobody has anything.
pub fn jain(shares: &[u64]) -> Option<f64> {
    results::over_time::jain(shares.iter().map(|share| *share as f64))
}
