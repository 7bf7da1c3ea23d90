//! Turns the holds of a round into whether two of them overlapped, without keeping them all.
//!
//! A hold is the contract's: from the acquire's return to the release's call, cut at the sending + lease − drift. Intervals
//! are closed. Holds are looked at in batches; one is forgotten when no later hold can begin before its end.

use results::overlap::exclusive_overlaps;

/// A hold on the run's clock, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hold {
    pub(crate) lock: u32,
    pub(crate) from_ns: u64,
    pub(crate) to_ns: u64,
}

/// What was seen so far.
#[derive(Debug, Default)]
pub(crate) struct Judge {
    /// Holds that a later one may still overlap.
    kept: Vec<Hold>,
    /// Holds seen.
    pub(crate) seen: u64,
    /// The first overlap, as two holds.
    pub(crate) overlap: Option<(Hold, Hold)>,
}

impl Judge {
    /// Adds holds that have ended. Every hold that is still to come begins at `watermark_ns` or later.
    pub(crate) fn add(&mut self, ended: impl IntoIterator<Item = Hold>, watermark_ns: u64) {
        let before = self.kept.len();
        // A hold whose contract was over before it began (a late grant) protects nothing and overlaps nothing.
        self.kept
            .extend(ended.into_iter().filter(|hold| hold.to_ns >= hold.from_ns));
        self.seen += (self.kept.len() - before) as u64;
        if self.overlap.is_none() {
            let holds: Vec<_> = self
                .kept
                .iter()
                .map(|h| (h.lock, h.from_ns, h.to_ns))
                .collect();
            let found = exclusive_overlaps(&holds);
            let at = |grant: u32| self.kept[grant as usize];
            self.overlap = found.list.first().map(|o| (at(o.earlier), at(o.later)));
        }
        self.kept.retain(|hold| hold.to_ns >= watermark_ns);
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
        assert_eq!(judge.overlap, Some((hold(0, 5, 100), hold(0, 10, 20))));
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
}
