//! Finds the highest rate that a lock keeps up with: a state machine that says what to measure next and takes
//! in what came of it.
//!
//! The rate is doubled until one is not kept, then the gap between the last good and the first bad rate is
//! halved (geometrically) until it is narrow; the candidate must then hold in a longer window. If it does
//! not, it is the new first bad rate and the search goes on below. A rate of which nothing is known is tried
//! once more; then the search ends there, with what is proven of the rates that were kept.

/// What to measure next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Step {
    /// Offer this rate.
    Measure {
        /// Cycles per second.
        rate_per_s: f64,
        /// Whether it is the proof of a candidate: in a window several times as long.
        long: bool,
    },
    /// Nothing more.
    Done(Knee),
}

/// Where the curve bends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Knee {
    /// The highest rate that was kept, in a long window; `None`: not even the lowest that was tried.
    pub good_per_s: Option<f64>,
    /// The lowest rate that was not kept; `None`: all that was tried was kept.
    pub bad_per_s: Option<f64>,
    /// The rate at which the search ended, since nothing is known of it.
    pub unknown_per_s: Option<f64>,
}

/// What came of a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// It was kept.
    Kept,
    /// It was not: less was completed than was offered.
    NotKept,
    /// What was measured says neither.
    Unknown,
}

/// A search.
#[derive(Debug, Clone, Default)]
pub(super) struct Search {
    rate: f64,
    lowest: f64,
    highest: f64,
    good: Option<f64>,
    bad: Option<f64>,
    /// Nothing is known of the rate that was asked for last.
    doubted: bool,
    unknown: Option<f64>,
    /// The good rate was good in a long window, too.
    proven: bool,
    long: bool,
    left: u32,
}

/// The bracket is narrow enough when its ends are no further apart than this.
const NARROW: f64 = 1.1;

impl Search {
    /// Begins at `first` and stays within `lowest..=highest`, with at most `tries` measurements.
    pub(super) fn new(first: f64, lowest: f64, highest: f64, tries: u32) -> Self {
        Search { rate: first.clamp(lowest, highest), lowest, highest, left: tries, ..Search::default() }
    }

    /// What to do next. Asked again without an answer in between it says the same.
    pub(super) fn next(&self) -> Step {
        let found = Knee {
            good_per_s: self.good.filter(|_| self.proven),
            bad_per_s: self.bad,
            unknown_per_s: self.unknown,
        };
        let narrow = match (self.good, self.bad) {
            // What was kept for a moment may still be proven.
            _ if self.unknown.is_some() => !self.long,
            (Some(good), Some(bad)) => self.proven && bad / good <= NARROW,
            (Some(good), None) => self.proven && good >= self.highest,
            (None, Some(bad)) => bad <= self.lowest,
            (None, None) => false,
        };
        if narrow || self.left == 0 {
            return Step::Done(found);
        }
        Step::Measure { rate_per_s: self.rate, long: self.long }
    }

    /// What came of the rate that was asked for.
    pub(super) fn record(&mut self, answer: Answer) {
        self.left = self.left.saturating_sub(1);
        if answer == Answer::Unknown {
            if std::mem::replace(&mut self.doubted, true) || self.unknown.is_some() {
                self.end();
            }
            return;
        }
        self.doubted = false;
        match (answer == Answer::Kept, self.long) {
            (true, _) => {
                self.proven = self.long;
                self.good = Some(self.rate);
            }
            (false, long) => {
                self.bad = Some(self.rate);
                if long {
                    // What was good for a moment only was not good; the one below it is not known any more.
                    self.good = None;
                    self.proven = false;
                }
            }
        }
        self.long = false;
        self.rate = match (self.good, self.bad) {
            (Some(good), None) if good >= self.highest => good,
            (Some(good), None) => (good * 2.0).min(self.highest),
            (None, Some(bad)) => (bad / 2.0).max(self.lowest),
            (Some(good), Some(bad)) if bad / good > NARROW => (good * bad).sqrt(),
            (Some(good), Some(_)) => good,
            (None, None) => self.rate,
        };
        // A candidate: nothing is left to try but to try it for longer. So is the last try.
        if let Some(good) = self.good {
            let candidate = self.rate <= good || self.left == 1;
            if candidate && !self.proven {
                self.rate = good;
                self.long = true;
            }
        }
        if self.unknown.is_some() {
            self.long = false;
        }
    }

    /// Ends the search at a rate of which nothing is known, but for the proof of one that was kept.
    fn end(&mut self) {
        let proves = self.unknown.is_none() && !self.long && !self.proven && self.good.is_some();
        self.unknown = self.unknown.or(Some(self.rate));
        self.long = proves;
        self.rate = self.good.filter(|_| proves).unwrap_or(self.rate);
    }
}
