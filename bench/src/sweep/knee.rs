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

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that keeps up to `capacity`; in a short window it also keeps a tenth more.
    fn search(capacity: f64, first: f64, tries: u32) -> (Knee, Vec<f64>) {
        let mut search = Search::new(first, 10.0, 1e6, tries);
        let mut asked = Vec::new();
        loop {
            match search.next() {
                Step::Done(knee) => return (knee, asked),
                Step::Measure { rate_per_s, long } => {
                    assert_eq!(search.next(), Step::Measure { rate_per_s, long });
                    asked.push(rate_per_s);
                    let kept = rate_per_s <= capacity * if long { 1.0 } else { 1.1 };
                    search.record(if kept { Answer::Kept } else { Answer::NotKept });
                }
            }
        }
    }

    #[test]
    fn the_bracket_closes_around_the_capacity_of_any_server() {
        for capacity in [11.0, 140.0, 999.0, 5_000.0, 123_456.0] {
            for first in [10.0, 1_000.0, 900_000.0] {
                let (knee, asked) = search(capacity, first, 100);
                let (good, bad) = (knee.good_per_s.unwrap(), knee.bad_per_s.unwrap());
                assert!(good <= capacity, "{capacity}: {knee:?}");
                assert!(bad > capacity, "{capacity}: {knee:?}");
                assert!(bad / good <= 1.3, "{capacity}: {knee:?}");
                assert!(asked.len() <= 60, "{capacity} from {first}: {} steps", asked.len());
            }
        }
    }

    #[test]
    fn a_server_that_keeps_everything_has_no_bad_rate() {
        let (knee, _) = search(f64::INFINITY, 1_000.0, 100);
        assert_eq!((knee.good_per_s, knee.bad_per_s), (Some(1e6), None));
    }

    #[test]
    fn a_server_that_keeps_nothing_has_no_good_rate() {
        let (knee, asked) = search(0.0, 1_000.0, 100);
        assert_eq!((knee.good_per_s, knee.bad_per_s), (None, Some(10.0)));
        assert!(asked.len() < 10);
    }

    /// A server that keeps 30/s; from `dark` on nothing is known of it, or only for the first time.
    fn in_the_dark(dark: f64, lasts: bool) -> (Knee, Vec<f64>) {
        let mut search = Search::new(10.0, 1.0, 1e6, 100);
        let mut asked: Vec<f64> = Vec::new();
        while let Step::Measure { rate_per_s, .. } = search.next() {
            let again = asked.last() == Some(&rate_per_s);
            asked.push(rate_per_s);
            search.record(match rate_per_s {
                rate if rate >= dark && (lasts || !again) => Answer::Unknown,
                rate if rate <= 30.0 => Answer::Kept,
                _ => Answer::NotKept,
            });
        }
        let Step::Done(knee) = search.next() else { panic!("it is over") };
        (knee, asked)
    }

    #[test]
    fn a_rate_of_which_nothing_is_known_ends_the_search_and_is_not_called_bad() {
        let (knee, asked) = in_the_dark(20.0, true);
        assert_eq!(asked, [10.0, 20.0, 20.0, 10.0], "once more, then the proof");
        let found = (knee.good_per_s, knee.bad_per_s, knee.unknown_per_s);
        assert_eq!(found, (Some(10.0), None, Some(20.0)));
        let (knee, asked) = in_the_dark(5.0, true);
        assert_eq!(asked, [10.0, 10.0]);
        assert_eq!((knee.good_per_s, knee.bad_per_s, knee.unknown_per_s), (None, None, Some(10.0)));
    }

    #[test]
    fn a_moment_without_an_answer_does_not_end_the_search() {
        let (knee, _) = in_the_dark(40.0, false);
        let (good, bad) = (knee.good_per_s.unwrap(), knee.bad_per_s.unwrap());
        assert!(good <= 30.0 && 30.0 < bad && bad / good <= 1.3, "{knee:?}");
        assert_eq!(knee.unknown_per_s, None);
    }

    #[test]
    fn what_was_not_proven_in_a_long_window_is_not_claimed() {
        for tries in 1..12 {
            let (knee, asked) = search(5_000.0, 1_000.0, tries);
            assert!(asked.len() <= tries as usize);
            assert!(knee.good_per_s.is_none_or(|good| good <= 5_000.0), "{tries}: {knee:?}");
        }
    }
}
