//! What tasks leave behind while they run: counters that others may read at any time, and samples in a few shared shards.
//!
//! Shards instead of a record per task, so that a thousand waiters need no more memory than sixteen.

use std::sync::atomic::{
    AtomicU64,
    Ordering::{Relaxed, SeqCst},
};

use hdrhistogram::Histogram;

use super::ledger::Turn;
use crate::stats::histogram::{Coarse, histogram, merge, merge_coarse};

/// Parts of a window that are counted apart, for intervals within a round.
pub(crate) const PARTS: usize = 40;
/// Shards of samples.
pub(crate) const SHARDS: usize = 4;

/// One task's state as others see it. Times are nanoseconds on the round's clock, never 0, so that 0 can mean none.
#[derive(Default)]
pub(crate) struct TaskState {
    /// When the call began that is under way; 0: none is.
    pub(crate) calling_since: AtomicU64,
    /// When the oldest hold began that is not in the samples yet; 0: none.
    pub(crate) holding_since: AtomicU64,
    /// Holds that were not given back yet.
    pub(crate) open: AtomicU64,
    /// Cycles completed since the round began, warm-up included.
    pub(crate) cycles: AtomicU64,
    /// Cycles that ended in the window.
    pub(crate) in_window: AtomicU64,
    /// Whether it asked for a lock in the window.
    pub(crate) asked: AtomicU64,
}

impl TaskState {
    /// A hold that is not recorded yet begins at this time or later. The task sets the beginning of a hold before it clears
    /// the call that led to it, and this looks in the opposite order, so that no hold slips through between the two.
    pub(crate) fn earliest_open(&self, now_ns: u64) -> u64 {
        let or_now = |ns: u64| if ns == 0 { now_ns } else { ns };
        let calling = or_now(self.calling_since.load(SeqCst));
        let holding = or_now(self.holding_since.load(SeqCst));
        calling.min(holding).min(now_ns)
    }

    /// Whether a call is under way.
    pub(crate) fn in_call(&self) -> bool {
        self.calling_since.load(Relaxed) != 0
    }
}

/// What some tasks have seen within the measured window, and the turns of the whole round.
pub(crate) struct Samples {
    /// From the sending of an acquire to its grant.
    pub(crate) acquire: Histogram<u64>,
    /// The same of those who asked for a side, apart.
    pub(crate) reads: Histogram<u64>,
    pub(crate) writes: Histogram<u64>,
    pub(crate) release: Histogram<u64>,
    /// Open loop: from the due time to the grant.
    pub(crate) response: Histogram<u64>,
    /// Open loop: from the due time to the sending.
    pub(crate) start_lag: Histogram<u64>,
    pub(crate) late: u64,
    pub(crate) connect: Histogram<u64>,
    pub(crate) recovery: Histogram<u64>,
    pub(crate) recovery_late: Histogram<u64>,
    pub(crate) wave: Histogram<u64>,
    /// How long acquires lasted that gave up.
    pub(crate) gave_up: Histogram<u64>,
    /// Per part of the window: cycles that ended in it, and acquire latencies.
    pub(crate) cycles_per_part: [u32; PARTS],
    pub(crate) acquire_per_part: Vec<Coarse>,
    /// Time spent in calls, cut to the window.
    pub(crate) in_calls_ns: u64,
    /// Calls that ended in an error, in the whole round.
    pub(crate) errors: u64,
    /// Those among them of which nobody knows whether they were done.
    pub(crate) unknown: u64,
    pub(crate) first_error: Option<String>,
    pub(crate) turns: Vec<Turn>,
}

impl Samples {
    pub(crate) fn new() -> Self {
        Samples {
            acquire: histogram(),
            reads: histogram(),
            writes: histogram(),
            release: histogram(),
            response: histogram(),
            start_lag: histogram(),
            late: 0,
            connect: histogram(),
            recovery: histogram(),
            recovery_late: histogram(),
            wave: histogram(),
            gave_up: histogram(),
            cycles_per_part: [0; PARTS],
            acquire_per_part: vec![Coarse::new(); PARTS],
            in_calls_ns: 0,
            errors: 0,
            unknown: 0,
            first_error: None,
            turns: Vec::new(),
        }
    }

    pub(crate) fn error(&mut self, what: &str, why: &str) {
        self.errors += 1;
        if self.first_error.is_none() {
            self.first_error = Some(format!("{what}: {why}"));
        }
    }

    /// An error of which nobody knows whether the call was done.
    pub(crate) fn unknown(&mut self, what: &str, why: &str) {
        self.unknown += 1;
        self.error(what, why);
    }

    /// Forgets all but what is kept for each part of the window.
    pub(crate) fn keep_parts(&mut self) {
        *self = Samples {
            cycles_per_part: self.cycles_per_part,
            acquire_per_part: std::mem::take(&mut self.acquire_per_part),
            ..Samples::new()
        };
    }

    /// Adds what other tasks have seen; turns are not among it, since they are judged on the way.
    pub(crate) fn merge(&mut self, other: &Samples) {
        for (sum, part) in [
            (&mut self.acquire, &other.acquire),
            (&mut self.reads, &other.reads),
            (&mut self.writes, &other.writes),
            (&mut self.release, &other.release),
            (&mut self.response, &other.response),
            (&mut self.start_lag, &other.start_lag),
            (&mut self.connect, &other.connect),
            (&mut self.recovery, &other.recovery),
            (&mut self.recovery_late, &other.recovery_late),
            (&mut self.wave, &other.wave),
            (&mut self.gave_up, &other.gave_up),
        ] {
            merge(sum, part);
        }
        self.late += other.late;
        for (sum, part) in self.cycles_per_part.iter_mut().zip(other.cycles_per_part) {
            *sum += part;
        }
        for (sum, part) in self
            .acquire_per_part
            .iter_mut()
            .zip(&other.acquire_per_part)
        {
            merge_coarse(sum, part);
        }
        self.in_calls_ns += other.in_calls_ns;
        self.errors += other.errors;
        self.unknown += other.unknown;
        if self.first_error.is_none() {
            self.first_error.clone_from(&other.first_error);
        }
    }
}
