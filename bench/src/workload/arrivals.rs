//! When the cycles of an open loop are due: an absolute schedule, drawn from a rate and a seed before anything runs.

use std::{fmt, str::FromStr, time::Duration};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

/// How arrivals follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Arrivals {
    /// One each 1/rate.
    #[default]
    Constant,
    /// Independent of each other: exponential gaps, as many independent callers make them.
    Poisson,
}

impl Arrivals {
    /// Its name, as in flags and rows.
    pub fn name(self) -> &'static str {
        match self {
            Arrivals::Constant => "constant",
            Arrivals::Poisson => "poisson",
        }
    }
}

impl fmt::Display for Arrivals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Arrivals {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "constant" => Ok(Arrivals::Constant),
            "poisson" => Ok(Arrivals::Poisson),
            other => Err(format!(
                "`{other}` is no kind of arrivals; write constant or poisson"
            )),
        }
    }
}

/// The load of an open loop.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Pace {
    /// Cycles per second, above 0.
    pub rate_per_s: f64,
    /// How they follow each other.
    pub arrivals: Arrivals,
}

impl FromStr for Pace {
    type Err = String;

    /// A constant rate, `2000/s`.
    fn from_str(text: &str) -> Result<Self, String> {
        let number = text.strip_suffix("/s").and_then(|n| n.trim().parse().ok());
        match number {
            Some(rate_per_s) if (0.001..1e9).contains(&rate_per_s) => Ok(Pace {
                rate_per_s,
                arrivals: Arrivals::Constant,
            }),
            _ => Err(format!("`{text}` is no rate; write e.g. 2000/s")),
        }
    }
}

/// Due times in nanoseconds since the schedule began, without end; the same for the same pace and seed.
#[derive(Debug, Clone)]
pub(crate) struct Schedule {
    pace: Pace,
    random: ChaCha8Rng,
    number: u64,
    at_s: f64,
}

impl Schedule {
    pub(crate) fn new(pace: Pace, seed: u64) -> Self {
        Schedule {
            pace,
            random: ChaCha8Rng::seed_from_u64(seed),
            number: 0,
            at_s: 0.0,
        }
    }
}

impl Iterator for Schedule {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        self.number += 1;
        self.at_s = match self.pace.arrivals {
            // Reckoned anew each time, so that nothing adds up.
            Arrivals::Constant => self.number as f64 / self.pace.rate_per_s,
            Arrivals::Poisson => {
                let u: f64 = self.random.random_range(0.0..1.0);
                self.at_s - (1.0 - u).ln() / self.pace.rate_per_s
            }
        };
        u64::try_from(Duration::try_from_secs_f64(self.at_s).ok()?.as_nanos()).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(arrivals: Arrivals, seed: u64, n: usize) -> Vec<u64> {
        let pace = Pace {
            rate_per_s: 5_000.0,
            arrivals,
        };
        Schedule::new(pace, seed).take(n).collect()
    }

    #[test]
    fn constant_arrivals_do_not_drift() {
        let times = times(Arrivals::Constant, 1, 50_000);
        assert_eq!(times[0], 200_000);
        assert_eq!(times[49_999], 10_000_000_000);
    }

    #[test]
    fn poisson_arrivals_have_the_rate_and_the_spread_of_independent_callers() {
        let times = times(Arrivals::Poisson, 1, 50_000);
        assert!(times.is_sorted());
        let end_s = times[49_999] as f64 / 1e9;
        // The time of the 50,000th is 10 s, with a standard deviation of 10/√50,000 = 0.045 s.
        assert!((end_s - 10.0).abs() < 0.2, "{end_s}");
        let mut counts = vec![0_f64; 1_000];
        for t in times.iter().filter(|t| **t < 9_000_000_000) {
            counts[usize::try_from(t / 10_000_000).unwrap()] += 1.0;
        }
        let mean = counts[..900].iter().sum::<f64>() / 900.0;
        let variance = counts[..900]
            .iter()
            .map(|c| (c - mean).powi(2))
            .sum::<f64>()
            / 899.0;
        // Variance over mean is 1 for Poisson, 0 for constant arrivals; its standard error here is √(2/900) = 0.047.
        assert!((variance / mean - 1.0).abs() < 0.2, "{}", variance / mean);
    }

    #[test]
    fn a_rate_is_so_many_a_second() {
        assert_eq!("2000/s".parse::<Pace>().unwrap().rate_per_s, 2_000.0);
        for wrong in ["2000", "0/s", "-1/s", "x/s", "inf/s"] {
            wrong.parse::<Pace>().unwrap_err();
        }
    }

    #[test]
    fn the_seed_decides_the_schedule() {
        let of = |seed| times(Arrivals::Poisson, seed, 100);
        assert_eq!(of(7), of(7));
        assert_ne!(of(7), of(8));
    }
}
