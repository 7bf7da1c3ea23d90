//! Fits the universal scalability law (Gunther 1993) to throughput over concurrency: X(N) = γN / (1 + α(N − 1) + βN(N − 1)).
//!
//! α is the share of work that is serial, β what each has to agree upon with each other. One hot lock is serial by nature: the law is
//! for many locks.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Fewer levels than this are not fitted …
pub const FEWEST_LEVELS: usize = 6;
/// … nor such that lie closer together than this factor.
const SPAN: f64 = 10.0;
/// Rounds per level below which there is no interval.
const FEWEST_ROUNDS: usize = 5;
const RESAMPLES: usize = 1_000;

/// Throughput measured at one level.
#[derive(Debug, Clone, PartialEq)]
pub struct Level {
    /// Concurrency.
    pub n: f64,
    /// Cycles per second, round by round.
    pub per_s: Vec<f64>,
}

/// The law that was found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fit {
    /// Throughput of one.
    pub gamma: f64,
    /// Serial share.
    pub alpha: f64,
    /// Cost of agreement.
    pub beta: f64,
    /// 95 % interval of α over rounds.
    pub alpha_interval: Option<(f64, f64)>,
    /// 95 % interval of β over rounds.
    pub beta_interval: Option<(f64, f64)>,
    /// The largest deviation of a level's mean from the law, as a share of it.
    pub worst_residual: f64,
}

impl Fit {
    /// What the law says of a level; nothing beyond twice the highest measured one is to be asked.
    pub fn at(&self, n: f64) -> f64 {
        self.gamma * n / (1.0 + self.alpha * (n - 1.0) + self.beta * n * (n - 1.0))
    }

    /// Where throughput is highest; `None` where it rises for ever.
    pub fn peak(&self) -> Option<f64> {
        (self.beta > 0.0).then(|| ((1.0 - self.alpha).max(0.0) / self.beta).sqrt())
    }
}

/// Fits; `None` with fewer than six levels, less than a decade, or no throughput.
pub fn fit(levels: &[Level], seed: u64) -> Option<Fit> {
    let usable: Vec<&Level> = levels
        .iter()
        .filter(|l| l.n >= 1.0 && !l.per_s.is_empty() && l.per_s.iter().all(|x| *x > 0.0))
        .collect();
    let (least, most) = usable
        .iter()
        .fold((f64::MAX, 0.0_f64), |(a, b), l| (a.min(l.n), b.max(l.n)));
    if usable.len() < FEWEST_LEVELS || most < SPAN * least {
        return None;
    }
    let mean = |xs: &[f64]| xs.iter().sum::<f64>() / xs.len() as f64;
    let points: Vec<(f64, f64)> = usable.iter().map(|l| (l.n, mean(&l.per_s))).collect();
    let [gamma, alpha, beta] = solve(&points)?;
    let mut fit = Fit {
        gamma,
        alpha,
        beta,
        alpha_interval: None,
        beta_interval: None,
        worst_residual: 0.0,
    };
    fit.worst_residual = points
        .iter()
        .map(|(n, x)| (x / fit.at(*n) - 1.0).abs())
        .fold(0.0, f64::max);
    if usable.iter().all(|l| l.per_s.len() >= FEWEST_ROUNDS) {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut draw = |xs: &[f64]| -> f64 {
            let sum: f64 = xs
                .iter()
                .map(|_| xs[random.random_range(0..xs.len())])
                .sum();
            // A resample of k values spreads by (k − 1)/k too little; its distance from the mean is stretched.
            let k = xs.len() as f64;
            let m = mean(xs);
            (m + (sum / k - m) * (k / (k - 1.0)).sqrt()).max(f64::MIN_POSITIVE)
        };
        let drawn: Vec<[f64; 3]> = (0..RESAMPLES)
            .filter_map(|_| {
                let points: Vec<(f64, f64)> =
                    usable.iter().map(|l| (l.n, draw(&l.per_s))).collect();
                solve(&points)
            })
            .collect();
        fit.alpha_interval = middle(drawn.iter().map(|d| d[1]).collect());
        fit.beta_interval = middle(drawn.iter().map(|d| d[2]).collect());
    }
    Some(fit)
}

/// The middle 95 %.
fn middle(mut values: Vec<f64>) -> Option<(f64, f64)> {
    values.sort_by(f64::total_cmp);
    let cut = values.len() / 40;
    Some((
        *values.get(cut)?,
        *values.get(values.len().checked_sub(1 + cut)?)?,
    ))
}

/// γ, α, β. N/X is linear in their combinations: N/X = 1/γ + (α/γ)(N − 1) + (β/γ)N(N − 1). Least squares of relative errors; a share
/// that would come out below nought is nought.
fn solve(points: &[(f64, f64)]) -> Option<[f64; 3]> {
    let terms: [fn(f64) -> f64; 3] = [|_| 1.0, |n| n - 1.0, |n| n * (n - 1.0)];
    for used in [&[0, 1, 2][..], &[0, 1], &[0, 2], &[0]] {
        let columns: Vec<fn(f64) -> f64> = used.iter().map(|at| terms[*at]).collect();
        let Some(found) = least_squares(points, &columns) else {
            continue;
        };
        let mut all = [0.0; 3];
        for (at, value) in used.iter().zip(found) {
            all[*at] = value;
        }
        if all[0] > 0.0 && all[1] >= 0.0 && all[2] >= 0.0 {
            return Some([1.0 / all[0], all[1] / all[0], all[2] / all[0]]);
        }
    }
    None
}

/// Normal equations, solved by elimination with the largest pivot first.
fn least_squares(points: &[(f64, f64)], columns: &[fn(f64) -> f64]) -> Option<Vec<f64>> {
    let k = columns.len();
    let mut m = vec![vec![0.0; k + 1]; k];
    for (n, x) in points {
        // Divided by N/X, so that every level's relative error counts alike.
        let row: Vec<f64> = columns.iter().map(|term| term(*n) * x / n).collect();
        for i in 0..k {
            for j in 0..k {
                m[i][j] += row[i] * row[j];
            }
            m[i][k] += row[i];
        }
    }
    for i in 0..k {
        let pivot = (i..k).max_by(|a, b| m[*a][i].abs().total_cmp(&m[*b][i].abs()))?;
        m.swap(i, pivot);
        if m[i][i].abs() < 1e-300 {
            return None;
        }
        for j in i + 1..k {
            let factor = m[j][i] / m[i][i];
            let pivot = m[i].clone();
            for (below, above) in m[j].iter_mut().zip(&pivot).skip(i) {
                *below -= factor * above;
            }
        }
    }
    let mut found = vec![0.0; k];
    for i in (0..k).rev() {
        let known: f64 = (i + 1..k).map(|j| m[i][j] * found[j]).sum();
        found[i] = (m[i][k] - known) / m[i][i];
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::testing::normal;

    const TRUTH: Fit = Fit {
        gamma: 1_000.0,
        alpha: 0.05,
        beta: 0.000_5,
        alpha_interval: None,
        beta_interval: None,
        worst_residual: 0.0,
    };
    const LEVELS: [f64; 8] = [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0];

    fn levels(noise: f64, rounds: usize, random: &mut ChaCha8Rng) -> Vec<Level> {
        LEVELS
            .iter()
            .map(|n| Level {
                n: *n,
                per_s: (0..rounds)
                    .map(|_| TRUTH.at(*n) * (noise * normal(random)).exp())
                    .collect(),
            })
            .collect()
    }

    #[test]
    fn a_curve_without_noise_gives_its_law_back() {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let found = fit(&levels(0.0, 1, &mut random), 1).unwrap();
        assert!((found.gamma - 1_000.0).abs() < 1e-6);
        assert!((found.alpha - 0.05).abs() < 1e-9 && (found.beta - 0.000_5).abs() < 1e-12);
        assert!((found.peak().unwrap() - (0.95_f64 / 0.000_5).sqrt()).abs() < 1e-6);
        assert_eq!(found.alpha_interval, None, "one round has no interval");
        assert!(found.worst_residual < 1e-9);
    }

    #[test]
    fn too_few_or_too_close_levels_are_not_fitted() {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let all = levels(0.0, 1, &mut random);
        assert_eq!(fit(&all[..5], 1), None);
        assert!(
            fit(&all[2..], 1).is_some(),
            "5 to 200 is more than a decade"
        );
    }

    #[test]
    fn a_curve_that_only_rises_has_no_peak() {
        let straight: Vec<Level> = LEVELS
            .iter()
            .map(|n| Level {
                n: *n,
                per_s: vec![10.0 * n],
            })
            .collect();
        let found = fit(&straight, 1).unwrap();
        assert!(
            found.alpha < 1e-9 && found.peak().is_none_or(|peak| peak > 1e4),
            "{found:?}"
        );
    }

    #[test]
    fn intervals_cover_the_law() {
        let mut random = ChaCha8Rng::seed_from_u64(6);
        let trials = 40;
        let mut covered = 0;
        for trial in 0..trials {
            let found = fit(&levels(0.05, 6, &mut random), trial).unwrap();
            let (low, high) = found.alpha_interval.unwrap();
            covered += u32::from(low <= TRUTH.alpha && TRUTH.alpha <= high);
        }
        // 38 of 40 are wanted; below 33 is less likely than 1 %.
        assert!(covered >= 33, "{covered} of {trials}");
    }
}
