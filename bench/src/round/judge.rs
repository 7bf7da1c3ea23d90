//! Whether two holds of a round overlapped, without keeping them: those of a lock come in their order.
//!
//! A hold lasts from the acquire's return to the release's call, cut at sending + lease − drift; closed.

use std::{cmp::Reverse, collections::BinaryHeap};

use serde::{Deserialize, Serialize};

/// A hold on the run's clock, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hold {
    pub(crate) lock: u32,
    pub(crate) from_ns: u64,
    pub(crate) to_ns: u64,
    pub(crate) shared: bool,
}

/// Two holds at once: the stretch of the later one in which the earlier one lasted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Overlap {
    pub(crate) lock: u32,
    pub(crate) from_ns: u64,
    pub(crate) to_ns: u64,
}

#[derive(Debug, Default)]
struct HoldEnds {
    alone: Option<u64>,
    shared: Option<u64>,
    permits: BinaryHeap<Reverse<u64>>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Judge {
    /// How many may hold a lock at once, where they are counted; else each hold says whether it shares.
    #[serde(skip)]
    permits: Option<u32>,
    #[serde(skip)]
    locks: Vec<HoldEnds>,
    pub(crate) seen: u64,
    /// The first overlap; of permits, the first time that there were too many.
    #[serde(skip)]
    pub(crate) overlap: Option<Overlap>,
}

impl Judge {
    /// A judge of locks that so many may hold at once; `None`: one, or readers together.
    pub(crate) fn new(permits: Option<u32>) -> Self {
        Judge { permits, ..Judge::default() }
    }

    /// Adds a hold that began after all of its lock before it, or with them.
    pub(crate) fn add(&mut self, hold: Hold) {
        // A hold that was over by contract before it began (a late grant) protects and overlaps nothing.
        if hold.to_ns < hold.from_ns {
            return;
        }
        self.seen += 1;
        let at = hold.lock as usize;
        if self.locks.len() <= at {
            self.locks.resize_with(at + 1, HoldEnds::default);
        }
        let until = &mut self.locks[at];
        let ends = Some(hold.to_ns);
        let taken_until = match (self.permits, hold.shared) {
            (Some(permits), _) => {
                let permits = permits as usize;
                let held = &mut until.permits;
                while held.peek().is_some_and(|end| end.0 < hold.from_ns) {
                    held.pop();
                }
                let first = held.peek().map(|end| end.0);
                let full = held.len() >= permits;
                held.push(Reverse(hold.to_ns));
                first.filter(|_| full)
            }
            (None, true) => {
                until.shared = until.shared.max(ends);
                until.alone
            }
            (None, false) => {
                let taken = until.alone.max(until.shared);
                until.alone = until.alone.max(ends);
                taken
            }
        };
        if let Some(taken_ns) = taken_until.filter(|end_ns| *end_ns >= hold.from_ns) {
            let found = Overlap { lock: hold.lock, from_ns: hold.from_ns, to_ns: taken_ns.min(hold.to_ns) };
            let first = self.overlap.get_or_insert(found);
            if found.from_ns < first.from_ns {
                *first = found;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hold(lock: u32, from_ns: u64, to_ns: u64) -> Hold {
        Hold { lock, from_ns, to_ns, shared: false }
    }

    fn read(from_ns: u64, to_ns: u64) -> Hold {
        Hold { shared: true, ..hold(0, from_ns, to_ns) }
    }

    fn overlap(permits: Option<u32>, holds: &[Hold]) -> Option<(u64, u64)> {
        let mut judge = Judge::new(permits);
        holds.iter().for_each(|hold| judge.add(*hold));
        judge.overlap.map(|found| (found.from_ns, found.to_ns))
    }

    #[test]
    fn holds_one_after_the_other_are_clean_and_what_touches_is_not() {
        let clean = [hold(0, 0, 9), hold(1, 5, 15), hold(0, 10, 19)];
        assert_eq!(overlap(None, &clean), None);
        assert_eq!(overlap(None, &[hold(3, 0, 10), hold(3, 10, 12)]), Some((10, 10)));
        // A grant that came too late protects nothing.
        assert_eq!(overlap(None, &[hold(0, 0, 9), hold(0, 5, 4)]), None);
        let of_two = [hold(0, 5, 9), hold(0, 7, 9), hold(1, 2, 4), hold(1, 3, 4)];
        assert_eq!(overlap(None, &of_two), Some((3, 4)), "the first in time");
    }

    #[test]
    fn a_long_hold_is_compared_beyond_its_neighbour() {
        let holds = [hold(0, 0, 100), hold(0, 101, 400), hold(0, 399, 401), hold(0, 402, 403)];
        assert_eq!(overlap(None, &holds), Some((399, 400)));
    }

    #[test]
    fn readers_share_and_a_writer_beside_one_does_not() {
        let apart = [read(0, 10), read(5, 15), hold(0, 16, 20)];
        assert_eq!(overlap(None, &apart), None);
        assert_eq!(overlap(None, &[read(22, 40), hold(0, 30, 35)]), Some((30, 35)));
        assert_eq!(overlap(None, &[hold(0, 30, 35), read(32, 40)]), Some((32, 35)));
    }

    #[test]
    fn permits_are_held_together_up_to_their_number() {
        let two = [hold(0, 0, 10), hold(0, 5, 15), hold(0, 11, 20)];
        assert_eq!(overlap(Some(2), &two), None);
        let third = [two[0], two[1], two[2], hold(0, 12, 13)];
        assert_eq!(overlap(Some(2), &third), Some((12, 13)));
    }
}
