//! Whether two holds of a round overlapped, found without keeping them all.
//!
//! A hold is the contract's: from the acquire's return to the release's call, cut at the sending + lease − drift. Intervals
//! are closed. Holds are looked at in batches; one is forgotten when no later hold can begin before its end.

use results::overlap::{Hold as Interval, Mode, Overlap, overlaps};

/// A hold on the run's clock, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hold {
    pub(crate) lock: u32,
    pub(crate) from_ns: u64,
    pub(crate) to_ns: u64,
    /// Whether readers may hold it, too.
    pub(crate) shared: bool,
}

/// What was seen so far.
#[derive(Debug, Default)]
pub(crate) struct Judge {
    /// How many may hold a lock at once, where they are counted; else each hold says whether it shares.
    permits: Option<u32>,
    /// Holds that a later one may still overlap.
    kept: Vec<Hold>,
    /// Holds seen.
    pub(crate) seen: u64,
    /// The first overlap; of permits, the first time that there were too many.
    pub(crate) overlap: Option<Overlap>,
}

impl Judge {
    /// A judge of locks that so many may hold at once; `None`: one, or readers together.
    pub(crate) fn new(permits: Option<u32>) -> Self {
        Judge {
            permits,
            ..Judge::default()
        }
    }

    /// Adds holds that have ended. Every hold that is still to come begins at `watermark_ns` or later.
    pub(crate) fn add(&mut self, ended: impl IntoIterator<Item = Hold>, watermark_ns: u64) {
        let before = self.kept.len();
        // A hold whose contract was over before it began (a late grant) protects nothing and overlaps nothing.
        self.kept
            .extend(ended.into_iter().filter(|hold| hold.to_ns >= hold.from_ns));
        self.seen += (self.kept.len() - before) as u64;
        if self.overlap.is_none() {
            // Tasks do not nest holds, so each is an owner of its own.
            let holds = self.kept.iter().zip(0..).map(|(hold, number)| Interval {
                lock: hold.lock,
                owner: number,
                from_ns: hold.from_ns,
                to_ns: hold.to_ns,
                mode: self.mode(hold),
                weight: 1,
                grant: number,
            });
            let found = overlaps(holds.collect(), |_| self.permits.map(u64::from));
            self.overlap = found.list.into_iter().next();
        }
        self.kept.retain(|hold| hold.to_ns >= watermark_ns);
    }

    fn mode(&self, hold: &Hold) -> Mode {
        match (self.permits, hold.shared) {
            (Some(_), _) => Mode::Permit,
            (None, true) => Mode::Read,
            (None, false) => Mode::Exclusive,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hold(lock: u32, from_ns: u64, to_ns: u64) -> Hold {
        Hold {
            lock,
            from_ns,
            to_ns,
            shared: false,
        }
    }

    fn read(from_ns: u64, to_ns: u64) -> Hold {
        Hold {
            shared: true,
            ..hold(0, from_ns, to_ns)
        }
    }

    #[test]
    fn holds_one_after_the_other_are_clean() {
        let mut judge = Judge::default();
        judge.add([hold(0, 0, 9), hold(0, 10, 19), hold(1, 5, 15)], 20);
        judge.add([hold(0, 20, 30)], 31);
        assert_eq!(judge.overlap, None);
        assert_eq!(judge.seen, 4);
        assert!(judge.kept.is_empty());
    }

    //  a: |------------------|        recorded only when it ends, in the second batch
    //  b:      |--|                   recorded in the first
    #[test]
    fn an_overlap_across_batches_is_found() {
        let mut judge = Judge::default();
        judge.add([hold(0, 10, 20)], 5);
        assert_eq!(judge.overlap, None);
        judge.add([hold(0, 5, 100)], 101);
        let overlap = judge.overlap.unwrap();
        assert_eq!((overlap.from_ns, overlap.to_ns), (10, 20));
    }

    #[test]
    fn closed_intervals_that_touch_overlap() {
        let mut judge = Judge::default();
        judge.add([hold(3, 0, 10), hold(3, 10, 12)], 13);
        assert!(judge.overlap.is_some());
    }

    #[test]
    fn a_long_hold_is_compared_beyond_its_neighbour() {
        let mut judge = Judge::default();
        judge.add([hold(0, 0, 100), hold(0, 200, 210), hold(0, 150, 160)], 300);
        assert_eq!(judge.overlap, None);
        judge.add(
            [hold(0, 301, 400), hold(0, 402, 403), hold(0, 399, 401)],
            500,
        );
        assert!(judge.overlap.is_some());
    }

    #[test]
    fn readers_share_and_a_writer_beside_one_does_not() {
        let mut judge = Judge::default();
        judge.add([read(0, 10), read(5, 15), hold(0, 16, 20)], 21);
        assert_eq!(judge.overlap, None);
        judge.add([read(22, 40), hold(0, 30, 35)], 41);
        assert_eq!(judge.overlap.unwrap().from_ns, 30);
    }

    #[test]
    fn permits_are_held_together_up_to_their_number() {
        let mut judge = Judge::new(Some(2));
        judge.add([hold(0, 0, 10), hold(0, 5, 15), hold(0, 11, 20)], 0);
        assert_eq!(judge.overlap, None);
        judge.add([hold(0, 12, 13)], 21);
        assert_eq!(judge.overlap.unwrap().from_ns, 12);
    }
}
