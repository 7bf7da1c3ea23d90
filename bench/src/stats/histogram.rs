//! Histograms of latencies: exact ones in nanoseconds, and small ones of which many are kept.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;

/// A latency histogram in nanoseconds with three digits, which grows as far as it must.
pub(crate) fn histogram() -> Histogram<u64> {
    Histogram::new(3).expect("three digits are allowed")
}

/// Adds a sample. Not by `saturating_record`, which never grows the histogram and so would call every sample
/// 2 ns.
pub(crate) fn add(histogram: &mut Histogram<u64>, ns: u64) {
    // Fails only above half of i64::MAX, which is 146 years.
    let _ = histogram.record(ns);
}

/// Adds samples by how often each was seen.
pub(crate) fn fill(histogram: &mut Histogram<u64>, counts: &[(u64, u64)]) {
    for (ns, times) in counts {
        let _ = histogram.record_n(*ns, *times);
    }
}

/// Adds all samples of another histogram.
pub(crate) fn merge(sum: &mut Histogram<u64>, part: &Histogram<u64>) {
    sum.add(part).expect("both grow as far as they must");
}

/// What a histogram holds, as it is kept and sent: each value and how often, in rising order.
pub(crate) fn pairs(histogram: &Histogram<u64>) -> Vec<(u64, u64)> {
    histogram.iter_recorded().map(|at| (at.value_iterated_to(), at.count_at_value())).collect()
}

/// A histogram in a file, as what it [holds](pairs): read back, it has the same quantiles.
pub(crate) mod as_pairs {
    use hdrhistogram::Histogram;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    type Pairs = Vec<(u64, u64)>;

    fn filled(pairs: &Pairs) -> Histogram<u64> {
        let mut histogram = super::histogram();
        super::fill(&mut histogram, pairs);
        histogram
    }

    pub(crate) fn serialize<S: Serializer>(from: &Histogram<u64>, to: S) -> Result<S::Ok, S::Error> {
        super::pairs(from).serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Histogram<u64>, D::Error> {
        Ok(filled(&Pairs::deserialize(from)?))
    }

    pub(crate) mod each {
        use super::*;

        pub(crate) fn serialize<S: Serializer>(from: &[Histogram<u64>], to: S) -> Result<S::Ok, S::Error> {
            to.collect_seq(from.iter().map(crate::stats::histogram::pairs))
        }

        pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
            from: D,
        ) -> Result<Vec<Histogram<u64>>, D::Error> {
            Ok(Vec::<Pairs>::deserialize(from)?.iter().map(filled).collect())
        }
    }
}

/// A small histogram: values rounded to seven bits (below 1 %), and how often. One is kept per part of a
/// window, so that resampling can draw parts.
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
        let mut kept = histogram();
        for ns in [800, 5_000_000, 90_000_000_000] {
            add(&mut kept, ns);
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
