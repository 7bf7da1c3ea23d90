//! Latencies over time: a small histogram per interval.
//!
//! They are kept inside `run.json`, so that a report can draw latency over time: an interval is a second or
//! longer, and there are never more than [`INTERVALS_MAX`], whatever the run's length. Values are rounded to
//! one significant digit of an HdrHistogram, which is less than 7 %; those of the whole run have three.

use serde::{Deserialize, Serialize};

/// The most intervals into which a run is cut.
pub const INTERVALS_MAX: u64 = 30;
/// No interval is shorter.
const SHORTEST_NS: u64 = 1_000_000_000;

/// How long something took, interval by interval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema, Default)]
pub struct Intervals {
    /// The length of each interval in nanoseconds; the first begins at 0.
    pub interval_ns: u64,
    /// Per interval: durations in nanoseconds and how often. In the file as HdrHistograms of one digit.
    #[serde(with = "crate::record::hdr::coarse")]
    #[schemars(with = "Vec<String>")]
    pub histograms: Vec<Vec<(u64, u64)>>,
}

impl Intervals {
    /// Sorts `(ended_ns, duration_ns, how often)` into intervals, what ended later into the last.
    pub fn of(length_ns: u64, samples: impl IntoIterator<Item = (u64, u64, u64)>) -> Option<Self> {
        let count = (length_ns / SHORTEST_NS).clamp(1, INTERVALS_MAX);
        let interval_ns = length_ns.div_ceil(count).max(1);
        let mut histograms = vec![Vec::new(); usize::try_from(count).ok()?];
        for (ended_ns, duration_ns, times) in samples {
            let at = usize::try_from(ended_ns / interval_ns).unwrap_or(usize::MAX);
            let last = histograms.len() - 1;
            if times > 0 {
                histograms[at.min(last)].push((duration_ns, times));
            }
        }
        histograms.iter_mut().for_each(crate::record::hdr::coarse::round);
        histograms.iter().any(|histogram| !histogram.is_empty()).then_some(Self { interval_ns, histograms })
    }

    /// The value that a share of each interval's durations does not exceed, 0.0 to 1.0, which is the longest;
    /// `None` where nothing ended, and where so few did that less than one is beyond the share.
    pub fn quantile(&self, share: f64) -> Vec<Option<u64>> {
        let quantile = |histogram: &Vec<(u64, u64)>| {
            let all: u64 = histogram.iter().map(|(_, times)| *times).sum();
            if all == 0 || (share < 1.0 && (1.0 - share) * (all as f64) < 1.0) {
                return None;
            }
            let wanted = ((share * all as f64).ceil() as u64).max(1);
            let mut seen = 0;
            histogram.iter().find_map(|(value, times)| {
                seen += times;
                (seen >= wanted).then_some(*value)
            })
        };
        self.histograms.iter().map(quantile).collect()
    }
}
