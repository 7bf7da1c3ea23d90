//! What one task leaves behind while it runs: counters that others may read at any time, and samples.

use std::sync::{
    Mutex,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use hdrhistogram::Histogram;

use super::judge::Hold;

/// A latency histogram in nanoseconds with three digits, which grows as far as it must.
pub(crate) fn histogram() -> Histogram<u64> {
    Histogram::new(3).expect("three digits are allowed")
}

/// Adds a sample. Not by `saturating_record`, which never grows the histogram and so would call every sample 2 ns.
pub(crate) fn add(histogram: &mut Histogram<u64>, ns: u64) {
    // Fails only above half of i64::MAX, which is 146 years.
    let _ = histogram.record(ns);
}

/// One task's record. Times are nanoseconds on the round's clock, never 0, so that 0 can mean none.
pub(crate) struct TaskRecord {
    /// When the call began that is under way; 0: none is.
    pub(crate) calling_since: AtomicU64,
    /// When the hold began that is not in `samples` yet; 0: none.
    pub(crate) holding_since: AtomicU64,
    /// Cycles completed since the round began, warm-up included.
    pub(crate) cycles: AtomicU64,
    pub(crate) samples: Mutex<Samples>,
}

/// What a task has seen within the measured window, and the holds of the whole round.
pub(crate) struct Samples {
    pub(crate) acquire: Histogram<u64>,
    pub(crate) release: Histogram<u64>,
    pub(crate) handoff: Histogram<u64>,
    /// Cycles that ended in the window.
    pub(crate) cycles: u64,
    /// Time spent in calls, cut to the window.
    pub(crate) in_calls_ns: u64,
    /// Acquires that gave up.
    pub(crate) censored: u64,
    /// Calls that ended in an error, in the whole round.
    pub(crate) errors: u64,
    pub(crate) first_error: Option<String>,
    pub(crate) holds: Vec<Hold>,
}

impl TaskRecord {
    pub(crate) fn new() -> Self {
        TaskRecord {
            calling_since: AtomicU64::new(0),
            holding_since: AtomicU64::new(0),
            cycles: AtomicU64::new(0),
            samples: Mutex::new(Samples {
                acquire: histogram(),
                release: histogram(),
                handoff: histogram(),
                cycles: 0,
                in_calls_ns: 0,
                censored: 0,
                errors: 0,
                first_error: None,
                holds: Vec::new(),
            }),
        }
    }

    /// A hold that is not recorded yet begins at this time or later. The task sets the beginning of a hold before it clears
    /// the call that led to it, and this looks in the opposite order, so that no hold slips through between the two.
    pub(crate) fn earliest_open(&self, now_ns: u64) -> u64 {
        let or_now = |ns: u64| if ns == 0 { now_ns } else { ns };
        let calling = or_now(self.calling_since.load(std::sync::atomic::Ordering::SeqCst));
        let holding = or_now(self.holding_since.load(std::sync::atomic::Ordering::SeqCst));
        calling.min(holding).min(now_ns)
    }

    /// Whether a call is under way.
    pub(crate) fn in_call(&self) -> bool {
        self.calling_since.load(Relaxed) != 0
    }
}

impl Samples {
    pub(crate) fn error(&mut self, what: &str, why: &str) {
        self.errors += 1;
        if self.first_error.is_none() {
            self.first_error = Some(format!("{what}: {why}"));
        }
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
}
