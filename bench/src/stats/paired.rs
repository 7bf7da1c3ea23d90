//! The ratio of two arms that were measured beside each other, its interval, and how sure a difference is.

use results::{decide::FEWEST_ROUNDS, run::Ratio};

use super::special::{student_quantile, student_two_sided};

/// Pairs below which a ratio has no interval: a pair is a round.
pub const FEWEST_PAIRS: usize = FEWEST_ROUNDS as usize;

/// A test of whether two arms differ.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Test {
    /// How likely so large a difference is without any, two-sided: Student's t of the logarithms of the
    /// ratios.
    pub p: f64,
    /// The smallest ratio above 1 that so many pairs with so much spread show at 5 % in four of five cases.
    pub detectable: f64,
}

/// Logarithms of b/a, pair by pair. Pairs in which a value is not positive are left out.
fn log_ratios(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).filter(|(a, b)| **a > 0.0 && **b > 0.0).map(|(a, b)| (b / a).ln()).collect()
}

fn mean_and_error(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|x| (x - mean).powi(2)).sum();
    (mean, (squares / (n - 1.0) / n).sqrt())
}

/// The ratio b/a of paired rounds, with a 95 % interval from [`FEWEST_PAIRS`] pairs on.
///
/// It is Student's interval of the mean of the log-ratios: a round's figure sums up thousands of cycles, so
/// that its logarithm is near enough to normal, and of so few pairs a bootstrap would only imitate it. Pairs
/// in which a value is not positive are left out.
pub fn ratio(a: &[f64], b: &[f64]) -> Option<Ratio> {
    let logs = log_ratios(a, b);
    if logs.is_empty() {
        return None;
    }
    let (mean, error) = mean_and_error(&logs);
    let mut ratio = Ratio { point: mean.exp(), low: None, high: None };
    if logs.len() >= FEWEST_PAIRS {
        let half = error * student_quantile(0.025, logs.len() as f64 - 1.0);
        (ratio.low, ratio.high) = (Some((mean - half).exp()), Some((mean + half).exp()));
    }
    Some(ratio)
}

/// The test; `None` with fewer than [`FEWEST_PAIRS`] pairs.
pub fn test(a: &[f64], b: &[f64]) -> Option<Test> {
    let logs = log_ratios(a, b);
    if logs.len() < FEWEST_PAIRS {
        return None;
    }
    let freedom = logs.len() as f64 - 1.0;
    let (mean, error) = mean_and_error(&logs);
    let p = match (mean == 0.0, error == 0.0) {
        (true, _) => 1.0,
        (false, true) => 0.0,
        (false, false) => student_two_sided(mean / error, freedom),
    };
    let detectable = error * (student_quantile(0.025, freedom) + student_quantile(0.2, freedom));
    Some(Test { p, detectable: detectable.exp() })
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;
    use results::{decide::decide, run::Comparison};

    use super::*;
    use crate::stats::testing::{normal, share};

    #[test]
    fn five_pairs_give_a_point_and_no_interval() {
        let five = ratio(&[1.0; 5], &[2.0; 5]).unwrap();
        assert!((five.point - 2.0).abs() < 1e-12);
        assert_eq!(five.low, None);
        assert_eq!(test(&[1.0; 5], &[2.0; 5]), None);
    }

    #[test]
    fn equal_pairs_are_surely_equal_and_doubled_ones_surely_doubled() {
        let a = [90.0, 100.0, 110.0, 95.0, 105.0, 100.0];
        let same = ratio(&a, &a).unwrap();
        assert_eq!((same.low, same.high), (Some(1.0), Some(1.0)));
        let doubled = ratio(&a, &a.map(|x| 2.0 * x)).unwrap();
        assert!((doubled.point - 2.0).abs() < 1e-9 && doubled.low.unwrap() > 1.99);
    }

    /// Rounds of one arm whose level is `log` above 100/s, with noise that both arms of a pair share and
    /// noise of their own.
    fn pair(random: &mut ChaCha8Rng, effect: f64) -> (f64, f64) {
        let shared = 0.3 * normal(random);
        let rate = |log: f64, random: &mut ChaCha8Rng| 100.0 * (shared + log + 0.1 * normal(random)).exp();
        (rate(0.0, random), rate(effect, random))
    }

    #[test]
    fn intervals_cover_the_truth_as_often_as_they_say() {
        for n in [6, 10, 30] {
            let mut random = ChaCha8Rng::seed_from_u64(11);
            let covered = share(2_000, |_| {
                let (a, b): (Vec<f64>, Vec<f64>) = (0..n).map(|_| pair(&mut random, 0.05)).unzip();
                let found = ratio(&a, &b).unwrap();
                found.low.unwrap() <= 0.05_f64.exp() && 0.05_f64.exp() <= found.high.unwrap()
            });
            assert!((0.93..=0.97).contains(&covered), "{n} pairs: {covered}");
        }
    }

    /// What `locklab bench` does with two subjects that are the same: twelve comparisons at a time, each with
    /// an arm that is the base once more. Of 1,000 such comparisons at most 5 % may be called different; with
    /// Holm's correction, of 1,000 *runs*.
    #[test]
    fn equal_arms_are_seldom_called_different() {
        let mut random = ChaCha8Rng::seed_from_u64(13);
        let differs = |comparisons: &[Comparison]| {
            comparisons.iter().any(|c| matches!(c.verdict.as_str(), "better" | "worse"))
        };
        let mut compare = |n: usize| {
            let (a, b): (Vec<f64>, Vec<f64>) = (0..n).map(|_| pair(&mut random, 0.0)).unzip();
            Comparison {
                metric: "cycles_per_s".into(),
                ratio: ratio(&a, &b).unwrap(),
                p: test(&a, &b).map(|test| test.p),
                ..Comparison::default()
            }
        };
        for together in [1, 12] {
            let wrong = share(1_000, |_| {
                let mut run: Vec<Comparison> = (0..together).map(|_| compare(6)).collect();
                decide(&mut run);
                differs(&run)
            });
            assert!(wrong <= 0.05 + 0.014, "{together} together: {wrong}");
        }
    }

    #[test]
    fn the_detectable_difference_is_detected_four_times_of_five() {
        let mut random = ChaCha8Rng::seed_from_u64(5);
        // Spread 0.1, 10 pairs: the standard error is 0.0316, t is 2.262 + 0.883.
        let effect = 0.1 / 10_f64.sqrt() * (2.262 + 0.883);
        let shown = share(1_000, |_| {
            let (a, b): (Vec<f64>, Vec<f64>) =
                (0..10).map(|_| (100.0, 100.0 * (effect + 0.1 * normal(&mut random)).exp())).unzip();
            test(&a, &b).unwrap().p < 0.05
        });
        assert!((0.74..=0.86).contains(&shown), "{shown}");
    }
}
