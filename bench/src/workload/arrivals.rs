//! When the cycles of an open loop are due: an absolute schedule at a constant rate.

use std::{str::FromStr, time::Duration};

use serde::{Deserialize, Serialize};

/// The load of an open loop: a cycle each 1/rate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Pace {
    /// Cycles per second, above 0.
    pub rate_per_s: f64,
}

/// Due times in nanoseconds since the schedule began, without end.
pub(crate) type Schedule = Box<dyn Iterator<Item = u64> + Send>;

impl FromStr for Pace {
    type Err = String;

    /// `2000/s`.
    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_suffix("/s").and_then(|n| n.trim().parse().ok()) {
            Some(rate_per_s) if (0.001..1e9).contains(&rate_per_s) => Ok(Pace { rate_per_s }),
            _ => Err(format!("`{text}` is no rate; write e.g. 2000/s")),
        }
    }
}

impl Pace {
    /// Each is reckoned anew, so that nothing adds up.
    pub(crate) fn schedule(self) -> Schedule {
        Box::new((1_u64..).map_while(move |number| {
            let at = Duration::try_from_secs_f64(number as f64 / self.rate_per_s).ok()?;
            u64::try_from(at.as_nanos()).ok()
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_so_many_a_second_and_arrivals_do_not_drift() {
        let pace: Pace = "5000/s".parse().unwrap();
        let times: Vec<u64> = pace.schedule().take(50_000).collect();
        assert_eq!((times[0], times[49_999]), (200_000, 10_000_000_000));
        for wrong in ["2000", "0/s", "-1/s", "x/s", "inf/s"] {
            wrong.parse::<Pace>().unwrap_err();
        }
    }
}
