//! The ratio of two arms that were measured beside each other, its interval, and how sure a difference is.

use results::{decide::FEWEST_ROUNDS, run::Ratio};

use super::special::{student_quantile, student_two_sided};

/// Pairs below which a ratio has no interval: a pair is a round.
pub const FEWEST_PAIRS: usize = FEWEST_ROUNDS as usize;

/// A test of whether two arms differ.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Test {
    /// How likely so large a difference is by chance, two-sided: Student's t of the ratios' logarithms.
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
