//! Histograms of latencies: exact ones in nanoseconds, and small ones of which many are kept.

use std::collections::BTreeMap;
use std::ops::Deref;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// A latency histogram in nanoseconds with three digits, which grows as far as it must. In a file it is its
/// [pairs](Latencies::pairs): read back, it has the same quantiles.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(from = "Vec<(u64, u64)>", into = "Vec<(u64, u64)>")]
pub(crate) struct Latencies(Histogram<u64>);

impl Default for Latencies {
    fn default() -> Self {
        Latencies(Histogram::new(3).expect("three digits are allowed"))
    }
}

impl Deref for Latencies {
    type Target = Histogram<u64>;

    fn deref(&self) -> &Histogram<u64> {
        &self.0
    }
}

impl From<Vec<(u64, u64)>> for Latencies {
    fn from(pairs: Vec<(u64, u64)>) -> Self {
        let mut latencies = Latencies::default();
        latencies.fill(&pairs);
        latencies
    }
}

impl From<Latencies> for Vec<(u64, u64)> {
    fn from(latencies: Latencies) -> Self {
        latencies.pairs()
    }
}

impl Latencies {
    /// Adds a sample. `saturating_record` never grows the histogram and would call every sample 2 ns.
    pub(crate) fn add(&mut self, ns: u64) {
        // Fails only above half of i64::MAX, which is 146 years.
        let _ = self.0.record(ns);
    }

    /// Adds samples by how often each was seen.
    pub(crate) fn fill(&mut self, counts: &[(u64, u64)]) {
        for (ns, times) in counts {
            let _ = self.0.record_n(*ns, *times);
        }
    }

    pub(crate) fn merge(&mut self, part: &Latencies) {
        self.0.add(&part.0).expect("both grow as far as they must");
    }

    /// Each value and how often it was seen, in rising order.
    pub(crate) fn pairs(&self) -> Vec<(u64, u64)> {
        self.iter_recorded().map(|at| (at.value_iterated_to(), at.count_at_value())).collect()
    }
}

/// A small histogram: values rounded to seven bits (below 1 %), and how often; one per part of a window.
pub(crate) type Coarse = BTreeMap<u64, u32>;

/// Adds a sample to a small histogram.
pub(crate) fn add_coarse(coarse: &mut Coarse, ns: u64) {
    let shift = (64 - ns.leading_zeros()).saturating_sub(7);
    let half = if shift == 0 { 0 } else { 1 << (shift - 1) };
    *coarse.entry((ns >> shift << shift) + half).or_default() += 1;
}

/// Adds all samples of another small histogram.
pub(crate) fn merge_coarse(sum: &mut Coarse, part: &Coarse) {
    for (ns, count) in part {
        *sum.entry(*ns).or_default() += count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_keep_their_size() {
        let mut kept = Latencies::default();
        for ns in [800, 5_000_000, 90_000_000_000] {
            kept.add(ns);
        }
        assert_eq!(kept.len(), 3);
        let near = |ns: u64, wanted: u64| ns.abs_diff(wanted) <= wanted / 500;
        assert!(near(kept.min(), 800) && near(kept.value_at_quantile(0.5), 5_000_000));
        assert!(near(kept.max(), 90_000_000_000));
    }

    #[test]
    fn small_histograms_are_within_one_percent() {
        for ns in [0, 1, 127, 128, 5_003, 123_456_789, u64::MAX / 3] {
            let mut coarse = Coarse::new();
            add_coarse(&mut coarse, ns);
            let (kept, count) = coarse.first_key_value().unwrap();
            assert_eq!(*count, 1);
            assert!(kept.abs_diff(ns) <= ns / 100, "{ns} became {kept}");
        }
    }
}
