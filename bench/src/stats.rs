//! Turns samples into figures with honest intervals: medians, quantiles, Jain's index, paired ratios.

use hdrhistogram::Histogram;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use results::run::{Estimate, Quantiles, Ratio};

/// A tail quantile is given only where at least so many samples lie beyond it.
const EXCEEDANCES: f64 = 20.0;
/// Pairs below which a ratio has no interval: a sign test of five pairs cannot reach 5 %.
pub const FEWEST_PAIRS: usize = 6;
/// Resamples: the tails used with six pairs lie near 0.25 %, and need some dozens of resamples beyond them.
const RESAMPLES: usize = 10_000;

/// The middle of the values; the mean of the two middle ones where their number is even. 0 without values.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => 0.0,
        n if n % 2 == 1 => sorted[n / 2],
        n => f64::midpoint(sorted[n / 2 - 1], sorted[n / 2]),
    }
}

/// Median over rounds, with an interval of order statistics.
///
/// The interval is the narrowest pair of ranks that covers the true median with at least 95 % (binomial); below six rounds no
/// pair of ranks does, and it is the whole range. `null` with one round.
pub fn estimate(rounds: &[f64]) -> Estimate {
    let mut sorted = rounds.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    let (low, high) = if n < 2 {
        (None, None)
    } else {
        let cut = ranks_to_cut(n);
        (Some(sorted[cut]), Some(sorted[n - 1 - cut]))
    };
    Estimate {
        median: median(rounds),
        low,
        high,
    }
}

/// How many of the lowest, and of the highest, values can be left out of a 95 % interval for the median of `n`.
fn ranks_to_cut(n: usize) -> usize {
    // P(X <= k) for X ~ Binomial(n, 1/2) must stay below 2.5 %.
    let mut term = 0.5_f64.powi(i32::try_from(n).unwrap_or(i32::MAX));
    let mut below = term;
    let mut cut = 0;
    while below <= 0.025 && cut < n / 2 {
        cut += 1;
        term *= (n + 1 - cut) as f64 / cut as f64;
        below += term;
    }
    cut.saturating_sub(1)
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

/// Jain's index of fairness: 1 where all are equal, 1/n where one has everything; 1 where there is nothing to share.
pub fn jain(shares: &[u64]) -> f64 {
    let sum: f64 = shares.iter().map(|x| *x as f64).sum();
    let squares: f64 = shares.iter().map(|x| (*x as f64).powi(2)).sum();
    if squares == 0.0 {
        return 1.0;
    }
    sum * sum / (shares.len() as f64 * squares)
}

/// The ratio b/a of paired rounds, with a 95 % bootstrap interval from six pairs on.
///
/// Log-ratios are resampled as pairs. The percentile interval of so few values is too narrow; its tails are moved outwards so
/// that it agrees with Student's interval where the values are normal (Hesterberg 2015, "expanded percentile interval").
/// Pairs in which a value is not positive are left out.
pub fn paired_ratio(a: &[f64], b: &[f64], seed: u64) -> Option<Ratio> {
    let logs: Vec<f64> = a
        .iter()
        .zip(b)
        .filter(|(a, b)| **a > 0.0 && **b > 0.0)
        .map(|(a, b)| (b / a).ln())
        .collect();
    if logs.is_empty() {
        return None;
    }
    let n = logs.len();
    let mean = logs.iter().sum::<f64>() / n as f64;
    let mut ratio = Ratio {
        point: mean.exp(),
        low: None,
        high: None,
    };
    if n >= FEWEST_PAIRS {
        let (low, high) = bootstrap(&logs, RESAMPLES, seed);
        (ratio.low, ratio.high) = (Some(low.exp()), Some(high.exp()));
    }
    Some(ratio)
}

/// An expanded percentile interval for the mean.
fn bootstrap(values: &[f64], resamples: usize, seed: u64) -> (f64, f64) {
    let n = values.len();
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut means: Vec<f64> = (0..resamples)
        .map(|_| {
            (0..n)
                .map(|_| values[random.random_range(0..n)])
                .sum::<f64>()
                / n as f64
        })
        .collect();
    means.sort_by(f64::total_cmp);
    let widened = (n as f64 / (n as f64 - 1.0)).sqrt() * student_975(n - 1);
    let tail = (normal_tail(widened) * resamples as f64) as usize;
    (means[tail], means[resamples - 1 - tail])
}

/// What a ratio says of b against a: `better`, `worse`, `not-shown` or `equivalent` (surely within 2 %).
pub fn verdict(ratio: &Ratio, more_is_better: bool) -> &'static str {
    const MARGIN: f64 = 1.02;
    let (Some(low), Some(high)) = (ratio.low, ratio.high) else {
        return "not-shown";
    };
    if low >= 1.0 / MARGIN && high <= MARGIN {
        return "equivalent";
    }
    match (low > 1.0, high < 1.0) {
        (false, false) => "not-shown",
        (more, _) if more == more_is_better => "better",
        _ => "worse",
    }
}

/// The 97.5 % point of Student's t, by the expansion of Cornish and Fisher (Abramowitz and Stegun 26.7.5); good to 0.5 % from
/// five degrees of freedom on.
fn student_975(freedom: usize) -> f64 {
    let z = 1.959_964_f64;
    let v = freedom as f64;
    let g1 = (z.powi(3) + z) / 4.0;
    let g2 = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0;
    let g3 = (3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z) / 384.0;
    z + g1 / v + g2 / v.powi(2) + g3 / v.powi(3)
}

/// The upper tail of the normal distribution (Abramowitz and Stegun 26.2.17; absolute error below 1e-7).
fn normal_tail(x: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.231_641_9 * x);
    let density = (-x * x / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
    let coefficients = [
        0.319_381_530,
        -0.356_563_782,
        1.781_477_937,
        -1.821_255_978,
        1.330_274_429,
    ];
    let series = coefficients.iter().rev().fold(0.0, |sum, c| (sum + c) * t);
    density * series
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normal(random: &mut ChaCha8Rng) -> f64 {
        // The sum of twelve uniform values, less six: normal enough for a coverage test.
        (0..12).map(|_| random.random_range(0.0..1.0)).sum::<f64>() - 6.0
    }

    #[test]
    fn median_is_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(median(&[]), 0.0);
    }

    #[test]
    fn one_round_has_no_interval() {
        let one = estimate(&[5.0]);
        assert_eq!((one.median, one.low, one.high), (5.0, None, None));
    }

    #[test]
    fn intervals_leave_out_what_the_binomial_allows() {
        // 2.5 % is passed by 1/32 (five rounds), not by 1/64 (six): from then on the range is an interval. With nine rounds
        // one value may be left out at each end (10/512 = 1.95 %), with twelve two (79/4096 = 1.93 %).
        for (n, cut) in [(2, 0), (5, 0), (6, 0), (8, 0), (9, 1), (11, 1), (12, 2)] {
            assert_eq!(ranks_to_cut(n), cut, "of {n} rounds");
        }
    }

    #[test]
    fn quantiles_are_refused_where_too_few_samples_lie_beyond() {
        let mut histogram = Histogram::new(3).unwrap();
        for value in 1..=1_999 {
            histogram.record(value).unwrap();
        }
        let few = quantiles(&histogram);
        assert_eq!(few.p50, Some(1_000));
        assert_eq!(few.p99, None, "19.99 samples beyond it are not 20");
        histogram.record(2_000).unwrap();
        assert!(quantiles(&histogram).p99.is_some());
        for value in 2_001..=20_000 {
            histogram.record(value).unwrap();
        }
        assert!(quantiles(&histogram).p999.is_some());
        let none = quantiles(&Histogram::new(3).unwrap());
        assert_eq!((none.p50, none.max, none.n), (None, None, 0));
    }

    #[test]
    fn jain_knows_equal_and_one_sided() {
        assert!((jain(&[7, 7, 7]) - 1.0).abs() < 1e-12);
        assert!((jain(&[9, 0, 0]) - 1.0 / 3.0).abs() < 1e-12);
    }

    #[test]
    fn five_pairs_give_a_point_and_no_interval() {
        let five = paired_ratio(&[1.0; 5], &[2.0; 5], 1).unwrap();
        assert!((five.point - 2.0).abs() < 1e-12);
        assert_eq!(five.low, None);
        assert_eq!(verdict(&five, true), "not-shown");
    }

    #[test]
    fn verdicts_follow_the_interval() {
        let ratio = |low, high| Ratio {
            point: 1.0,
            low: Some(low),
            high: Some(high),
        };
        assert_eq!(verdict(&ratio(1.1, 1.2), true), "better");
        assert_eq!(verdict(&ratio(1.1, 1.2), false), "worse");
        assert_eq!(verdict(&ratio(0.8, 0.9), true), "worse");
        assert_eq!(verdict(&ratio(0.8, 0.9), false), "better");
        assert_eq!(verdict(&ratio(0.9, 1.1), true), "not-shown");
        assert_eq!(verdict(&ratio(0.99, 1.01), true), "equivalent");
    }

    #[test]
    fn student_and_normal_agree_with_tables() {
        assert!((student_975(5) - 2.571).abs() < 0.015);
        assert!((student_975(19) - 2.093).abs() < 0.002);
        assert!((normal_tail(1.959_964) - 0.025).abs() < 1e-5);
    }

    /// Of 200 intervals from normal log-ratios around a true one, 95 % must hold it; three standard errors of that share are
    /// 4.6 %.
    #[test]
    fn bootstrap_intervals_cover_the_truth_as_often_as_they_say() {
        let mut random = ChaCha8Rng::seed_from_u64(7);
        for n in [6, 12] {
            let covered = (0..200).filter(|trial| {
                let logs: Vec<f64> = (0..n).map(|_| 0.05 + 0.15 * normal(&mut random)).collect();
                let (low, high) = bootstrap(&logs, 2_000, *trial);
                low <= 0.05 && 0.05 <= high
            });
            let share = covered.count() as f64 / 200.0;
            assert!((0.904..=0.996).contains(&share), "{n} pairs: {share}");
        }
    }

    #[test]
    fn six_equal_pairs_are_equivalent_and_six_doubled_ones_better() {
        let a = [90.0, 100.0, 110.0, 95.0, 105.0, 100.0];
        let same = paired_ratio(&a, &a, 1).unwrap();
        assert_eq!(verdict(&same, true), "equivalent");
        let doubled = paired_ratio(&a, &a.map(|x| 2.0 * x), 1).unwrap();
        assert!((doubled.point - 2.0).abs() < 1e-9);
        assert_eq!(verdict(&doubled, true), "better");
    }
}
