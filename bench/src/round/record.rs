//! What tasks leave behind while they run: counters that others may read at any time, samples in shards.
//!
//! Shards instead of a record per task, so that a thousand waiters need no more memory than sixteen.

use std::ops::Index;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use serde::{Deserialize, Serialize};

use super::ledger::LockCycle;
use crate::load::LoadTiming;
use crate::stats::histogram::{Coarse, Latencies, merge_coarse};

/// Parts of a window that are counted apart, for intervals within a round.
pub(crate) const PARTS: usize = 40;
pub(crate) const SHARDS: usize = 4;

/// One task's state as others see it; nobody else writes it but the listener of a task that only keeps. Times
/// are nanoseconds on the round's clock, 0 for none. In cache lines of its own, as parts of
/// [`PerThread`](crate::per_thread::PerThread).
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct TaskState {
    /// When the call began that is under way; 0: none is.
    pub(crate) calling_since: AtomicU64,
    /// When the oldest hold began that is not in the samples yet; 0: none.
    pub(crate) holding_since: AtomicU64,
    /// Holds that were not given back yet.
    pub(crate) open: AtomicU64,
    /// Cycles completed since the round began, warm-up included.
    pub(crate) cycles: AtomicU64,
    pub(crate) in_window: AtomicU64,
    pub(crate) asked: AtomicU64,
}

impl TaskState {
    /// A hold that is not recorded yet begins at this time or later. The task sets the beginning of a hold
    /// before it clears the call that led to it, and this looks in the opposite order, so that no hold slips
    /// through between the two: what is released there is acquired here.
    pub(crate) fn earliest_open(&self, now_ns: u64) -> u64 {
        let or_now = |ns: u64| if ns == 0 { now_ns } else { ns };
        or_now(self.calling_since.load(Acquire)).min(or_now(self.holding_since.load(Acquire))).min(now_ns)
    }

    pub(crate) fn in_call(&self) -> bool {
        self.calling_since.load(Relaxed) != 0
    }
}

/// Raises a counter that one task alone writes, and others read: what it is now. Without the bus lock of
/// `fetch_add`, which waits until everything that was written before has left the core.
pub(super) fn raise(counter: &AtomicU64, by: i64) -> u64 {
    let now = counter.load(Relaxed).wrapping_add_signed(by);
    counter.store(now, Relaxed);
    now
}

/// What some tasks have seen within the measured window, and the turns of the whole round.
#[derive(Serialize, Deserialize)]
pub(crate) struct Samples {
    histograms: Vec<Latencies>,
    /// Cycles of an open loop that began too long after they were due.
    pub(crate) late: u64,
    /// Per part of the window: cycles that ended in it, and acquire latencies.
    pub(crate) cycles_per_part: Vec<u32>,
    pub(crate) acquire_per_part: Vec<Coarse>,
    /// Time spent in calls, cut to the window.
    pub(crate) in_calls_ns: u64,
    /// Calls that ended in an error, in the whole round.
    pub(crate) errors: u64,
    /// Those among them of which nobody knows whether they were done.
    pub(crate) unknown: u64,
    pub(crate) first_error: Option<String>,
    #[serde(skip)]
    pub(crate) turns: Vec<LockCycle>,
}

impl Index<LoadTiming> for Samples {
    type Output = Latencies;

    fn index(&self, what: LoadTiming) -> &Latencies {
        &self.histograms[what as usize]
    }
}

impl Default for Samples {
    fn default() -> Self {
        Samples {
            histograms: vec![Latencies::default(); LoadTiming::COUNT],
            late: 0,
            cycles_per_part: vec![0; PARTS],
            acquire_per_part: vec![Coarse::new(); PARTS],
            in_calls_ns: 0,
            errors: 0,
            unknown: 0,
            first_error: None,
            turns: Vec::new(),
        }
    }
}

impl Samples {
    pub(crate) fn add(&mut self, what: LoadTiming, ns: u64) {
        self.histograms[what as usize].add(ns);
    }

    pub(crate) fn fill(&mut self, what: LoadTiming, counts: &[(u64, u64)]) {
        self.histograms[what as usize].fill(counts);
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
            cycles_per_part: std::mem::take(&mut self.cycles_per_part),
            acquire_per_part: std::mem::take(&mut self.acquire_per_part),
            ..Samples::default()
        };
    }

    /// Adds what other tasks have seen; turns are not among it, since they are judged on the way.
    pub(crate) fn merge(&mut self, other: &Samples) {
        for (sum, part) in self.histograms.iter_mut().zip(&other.histograms) {
            sum.merge(part);
        }
        for (sum, part) in self.cycles_per_part.iter_mut().zip(&other.cycles_per_part) {
            *sum += part;
        }
        for (sum, part) in self.acquire_per_part.iter_mut().zip(&other.acquire_per_part) {
            merge_coarse(sum, part);
        }
        self.late += other.late;
        self.in_calls_ns += other.in_calls_ns;
        self.errors += other.errors;
        self.unknown += other.unknown;
        if self.first_error.is_none() {
            self.first_error.clone_from(&other.first_error);
        }
    }
}
