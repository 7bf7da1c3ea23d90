//! How each lock went from hand to hand in a round; keeps only what a later turn may still change.
//!
//! A turn is one trip through a lock: called, granted, release sent, release answered. Turns come in any
//! order with a watermark: every later turn was called, and so granted, at that time or later.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use serde::{Deserialize, Serialize};

use super::judge::{Hold, Judge};
use super::record::PARTS;
use crate::stats::histogram::{Coarse, Latencies, add_coarse};

/// A lock that was free for longer than this beside a waiter: nobody was notified, or nobody listened.
const LOST_WAKEUP_NS: u64 = 100_000_000;

/// One trip through a lock, on the round's clock in nanoseconds. Ordered by grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LockCycle {
    pub(crate) granted_ns: u64,
    pub(crate) called_ns: u64,
    pub(crate) release_ns: u64,
    pub(crate) freed_ns: u64,
    /// The end of the hold by contract, at most `release_ns`.
    pub(crate) to_ns: u64,
    pub(crate) lock: u32,
    pub(crate) task: u32,
    /// Whether others may hold the lock meanwhile: a reader's.
    pub(crate) shared: bool,
}

/// What was seen of hand-offs within the window.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct HandoffCounts {
    pub(crate) grants: u64,
    pub(crate) to_another: u64,
    pub(crate) to_itself: u64,
    /// From the sending of a release to the grant of another task.
    pub(crate) handoff: Latencies,
    /// Of a round that was watched, for each part of its window.
    pub(crate) handoff_per_part: Vec<Coarse>,
    /// From the sending of a release to the next grant of the same task.
    pub(crate) again: Latencies,
    /// From the answer to a release to the grant of another task that was waiting by then.
    pub(crate) notified: Latencies,
    pub(crate) most_bypasses: u64,
    /// Grants that passed over an earlier call.
    pub(crate) inversions: u64,
    /// Time during which a lock was free although somebody waited.
    pub(crate) idle_ns: u64,
    pub(crate) longest_idle_ns: u64,
    pub(crate) lost_wakeups: u64,
}

impl HandoffCounts {
    /// Adds what was seen in another window; the parts of each stay by themselves.
    pub(crate) fn merge(&mut self, other: &HandoffCounts) {
        self.handoff.merge(&other.handoff);
        self.notified.merge(&other.notified);
        self.grants += other.grants;
        self.to_another += other.to_another;
        self.to_itself += other.to_itself;
        self.inversions += other.inversions;
        self.idle_ns += other.idle_ns;
        self.lost_wakeups += other.lost_wakeups;
        self.most_bypasses = self.most_bypasses.max(other.most_bypasses);
        self.longest_idle_ns = self.longest_idle_ns.max(other.longest_idle_ns);
    }
}

/// A grant that a call made before it, and granted after it, may still say something about.
#[derive(Debug, Clone, Copy)]
struct RecentGrant {
    called_ns: u64,
    granted_ns: u64,
    /// The lock was free from here on …
    free_ns: u64,
    /// … and from here on somebody is known to have waited; not before `free_ns`.
    waited_ns: u64,
    passed_over: bool,
    counted: bool,
    shared: bool,
}

/// The end of a hold, which makes room for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct FreedSlot {
    release_ns: u64,
    freed_ns: u64,
    task: u32,
}

#[derive(Debug, Default)]
struct OfLock {
    /// Turns granted at the watermark or later; nearly in order, since they come in the order of their ends.
    early: Vec<LockCycle>,
    /// The latest end of all, and of those that shared with nobody.
    last: Option<FreedSlot>,
    last_alone: Option<FreedSlot>,
    /// Ends that no grant has used up yet, where permits are counted: as many as permits, the earliest first.
    rooms: BinaryHeap<Reverse<FreedSlot>>,
    recent: VecDeque<RecentGrant>,
}

impl OfLock {
    /// The hold whose end let this turn in; `None`: nothing stood in its way. Remembers the turn's own end.
    fn room_for(&mut self, turn: &LockCycle, permits: usize) -> Option<FreedSlot> {
        let end = FreedSlot { release_ns: turn.release_ns, freed_ns: turn.freed_ns, task: turn.task };
        let latest = |of: Option<FreedSlot>| of.map_or(end, |last| last.max(end));
        let room = if permits > 1 {
            // The n-th grant needs as many ends before it as make n − permits: the earliest that is left.
            let full = self.rooms.len() >= permits;
            let room = full.then(|| self.rooms.pop()).flatten();
            self.rooms.push(Reverse(end));
            room.map(|Reverse(room)| room)
        } else if turn.shared {
            // Readers make room for nobody but a writer; a reader that came later found the lock open.
            self.last_alone.filter(|end| turn.called_ns < end.release_ns)
        } else {
            self.last
        };
        self.last = Some(latest(self.last));
        if !turn.shared {
            self.last_alone = Some(latest(self.last_alone));
        }
        room
    }
}

#[derive(Debug)]
pub(crate) struct Ledger {
    /// How many may hold a lock at once.
    permits: usize,
    judge: Judge,
    window: (u64, u64),
    /// By the number of the lock.
    locks: Vec<OfLock>,
    passed: HandoffCounts,
    /// Room for the turns that a task hands over next.
    spare: Vec<LockCycle>,
}

impl Ledger {
    pub(crate) fn new(permits: Option<u32>) -> Self {
        Ledger {
            permits: permits.map_or(1, |permits| permits as usize),
            judge: Judge::new(permits),
            window: (u64::MAX, u64::MAX),
            locks: Vec::new(),
            passed: HandoffCounts {
                handoff_per_part: vec![Coarse::new(); PARTS],
                ..HandoffCounts::default()
            },
            spare: Vec::new(),
        }
    }

    /// Says which grants count: those of `from_ns..to_ns`. Before it is said none does.
    pub(crate) fn set_window(&mut self, from_ns: u64, to_ns: u64) {
        self.window = (from_ns, to_ns);
    }

    /// Takes the turns that are over from where they were written; nobody waits while they are sorted in.
    pub(crate) fn take(&mut self, from: impl FnOnce(&mut Vec<LockCycle>)) {
        let mut turns = std::mem::take(&mut self.spare);
        from(&mut turns);
        self.add(&mut turns);
        self.spare = turns;
    }

    pub(crate) fn add(&mut self, turns: &mut Vec<LockCycle>) {
        for turn in turns.drain(..) {
            let at = turn.lock as usize;
            if self.locks.len() <= at {
                self.locks.resize_with(at + 1, OfLock::default);
            }
            self.locks[at].early.push(turn);
        }
    }

    /// Looks at those that were granted before the watermark.
    pub(crate) fn look(&mut self, watermark_ns: u64) {
        // Each lock by itself: no rule is about two, and their turns together would have to be sorted.
        for at in 0..self.locks.len() {
            let mut turns = std::mem::take(&mut self.locks[at].early);
            // Mostly in order already; those that are equal are the same.
            turns.sort_unstable();
            let due = turns.partition_point(|turn| turn.granted_ns < watermark_ns);
            for turn in turns.drain(..due) {
                self.granted(turn);
            }
            self.locks[at].early = turns;
            let recent = &mut self.locks[at].recent;
            while recent.front().is_some_and(|recent| recent.granted_ns <= watermark_ns) {
                settle(&mut self.passed, &recent.pop_front().expect("looked at"));
            }
        }
    }

    /// What was seen; no turn comes any more.
    pub(crate) fn finish(mut self) -> (HandoffCounts, Judge) {
        self.look(u64::MAX);
        (self.passed, self.judge)
    }

    fn granted(&mut self, turn: LockCycle) {
        self.judge.add(Hold {
            lock: turn.lock,
            from_ns: turn.granted_ns,
            to_ns: turn.to_ns,
            shared: turn.shared,
        });
        let (from, to) = self.window;
        let counted = (from..to).contains(&turn.granted_ns);
        let passed = &mut self.passed;
        let of_lock = &mut self.locks[turn.lock as usize];
        let mut bypasses = 0;
        for earlier in of_lock.recent.iter_mut().rev() {
            // Granted before this one was called: so were all that are further back.
            if earlier.granted_ns <= turn.called_ns {
                break;
            }
            // One reader does not keep another one waiting.
            if earlier.called_ns > turn.called_ns && !(earlier.shared && turn.shared) {
                bypasses += 1;
                earlier.passed_over = true;
            }
            earlier.waited_ns = earlier.waited_ns.min(turn.called_ns.max(earlier.free_ns));
        }
        if counted {
            passed.grants += 1;
            passed.most_bypasses = passed.most_bypasses.max(bypasses);
        }
        let mut recent = RecentGrant {
            called_ns: turn.called_ns,
            granted_ns: turn.granted_ns,
            free_ns: turn.granted_ns,
            waited_ns: turn.granted_ns,
            passed_over: false,
            counted,
            shared: turn.shared,
        };
        let all_gone = of_lock.last;
        let room = of_lock.room_for(&turn, self.permits);
        let free = if self.permits > 1 { room } else { all_gone };
        if let Some(free) = free {
            recent.free_ns = free.release_ns.min(turn.granted_ns);
            recent.waited_ns = recent.free_ns.max(turn.called_ns);
        }
        if let Some(last) = room {
            let gap_ns = turn.granted_ns.saturating_sub(last.release_ns);
            match (counted, last.task == turn.task) {
                (true, true) => {
                    passed.to_itself += 1;
                    passed.again.add(gap_ns);
                }
                (true, false) => {
                    passed.to_another += 1;
                    passed.handoff.add(gap_ns);
                    let part = part_of(turn.granted_ns, from, to);
                    add_coarse(&mut passed.handoff_per_part[part], gap_ns);
                    if turn.called_ns < last.release_ns {
                        // The news may well overtake the answer: then it took no time after it.
                        passed.notified.add(turn.granted_ns.saturating_sub(last.freed_ns));
                    }
                }
                (false, _) => {}
            }
        }
        of_lock.recent.push_back(recent);
    }
}

fn settle(passed: &mut HandoffCounts, recent: &RecentGrant) {
    if !recent.counted {
        return;
    }
    let idle_ns = recent.granted_ns - recent.waited_ns;
    passed.idle_ns += idle_ns;
    passed.longest_idle_ns = passed.longest_idle_ns.max(idle_ns);
    passed.lost_wakeups += u64::from(idle_ns > LOST_WAKEUP_NS);
    passed.inversions += u64::from(recent.passed_over);
}

/// The part of the window that a moment lies in.
pub(crate) fn part_of(t_ns: u64, from_ns: u64, to_ns: u64) -> usize {
    let length = to_ns.saturating_sub(from_ns).max(1);
    // Within 14 years nothing is cut off, and a division of 64 bits takes half the time of one of 128.
    let parts = t_ns.saturating_sub(from_ns).saturating_mul(PARTS as u64);
    usize::try_from(parts / length).unwrap_or(PARTS).min(PARTS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(task: u32, called_ns: u64, granted_ns: u64, release_ns: u64) -> LockCycle {
        LockCycle {
            granted_ns,
            called_ns,
            release_ns,
            freed_ns: release_ns + 2,
            to_ns: release_ns,
            lock: 0,
            task,
            shared: false,
        }
    }

    fn read(task: u32, called_ns: u64, granted_ns: u64, release_ns: u64) -> LockCycle {
        LockCycle { shared: true, ..turn(task, called_ns, granted_ns, release_ns) }
    }

    fn passed_of(permits: Option<u32>, turns: &[LockCycle]) -> HandoffCounts {
        let mut ledger = Ledger::new(permits);
        ledger.set_window(0, 1_000_000_000_000);
        ledger.add(&mut turns.to_vec());
        ledger.finish().0
    }

    fn passed(turns: &[LockCycle]) -> HandoffCounts {
        passed_of(None, turns)
    }

    //  t0  |hold----|
    //  t1     wait  ··|hold--|          hand-off of 3 to another, notified 1 after the answer
    //  t1                       |hold|  to itself
    #[test]
    fn hand_offs_to_another_and_to_itself_are_told_apart() {
        let passed = passed(&[turn(0, 1, 2, 10), turn(1, 5, 13, 20), turn(1, 25, 26, 30)]);
        assert_eq!((passed.grants, passed.to_another, passed.to_itself), (3, 1, 1));
        assert_eq!((passed.handoff.len(), passed.handoff.max()), (1, 3));
        assert_eq!((passed.notified.len(), passed.notified.max()), (1, 1));
        assert_eq!(passed.idle_ns, 3 + 1, "10 to 13, and 25 to 26");
    }

    //  t0  |hold|
    //  t2    wait ···············|hold|       called first, served last: two passed it by
    //  t1       wait |hold|
    //  t1                wait |hold|
    #[test]
    fn a_waiter_that_sees_others_pass_is_counted_and_so_is_the_idle_time_it_waited_through() {
        let passed =
            passed(&[turn(0, 1, 2, 10), turn(1, 14, 15, 20), turn(1, 25, 26, 30), turn(2, 5, 31, 40)]);
        assert_eq!(passed.most_bypasses, 2);
        assert_eq!(passed.inversions, 2);
        // Free from 10 to 15, 20 to 26 and 30 to 31, and t2 waited all the time.
        assert_eq!(passed.idle_ns, 5 + 6 + 1);
        assert_eq!(passed.longest_idle_ns, 6);
    }

    #[test]
    fn a_lock_nobody_asks_for_is_not_idle() {
        let passed = passed(&[turn(0, 1, 2, 10), turn(1, 1_000, 1_001, 1_010)]);
        assert_eq!(passed.idle_ns, 1);
        assert_eq!(passed.inversions, 0);
    }

    #[test]
    fn a_lock_left_free_before_a_waiter_is_a_lost_wake_up() {
        let passed = passed(&[turn(0, 1, 2, 10), turn(1, 5, 10 + LOST_WAKEUP_NS + 1, u64::MAX - 9)]);
        assert_eq!(passed.lost_wakeups, 1);
    }

    //  t0  |write--|
    //  t1     wait ·|read------|        handed on by the writer, as t2's
    //  t2      wait ·|read|
    //  t3                  |read--|     found the lock open
    //  t0                 wait ·····|write|   waits for the last reader, not for the first
    #[test]
    fn a_writer_lets_all_readers_in_and_the_last_of_them_lets_a_writer_in() {
        let passed = passed(&[
            turn(0, 1, 2, 10),
            read(1, 5, 12, 30),
            read(2, 6, 13, 20),
            read(3, 24, 25, 40),
            turn(0, 22, 47, 50),
        ]);
        assert_eq!((passed.grants, passed.to_another), (5, 3));
        assert_eq!(passed.handoff.max(), 7, "from 40 to 47");
        // The writer was there before the third reader and saw it pass; readers do not pass each other.
        assert_eq!((passed.most_bypasses, passed.inversions), (1, 1));
        assert_eq!(passed.idle_ns, 2 + 7, "free from 10 to 12 and from 40 to 47");
    }

    //  t0  |hold----|
    //  t1  |hold--------------|
    //  t2     wait ·|hold-------|       the permit of t0
    //  t3       wait ··········|hold|   that of t1
    #[test]
    fn a_permit_goes_to_whoever_waits_for_the_next_end() {
        let turns = [turn(0, 1, 2, 10), turn(1, 1, 3, 20), turn(2, 5, 12, 30), turn(3, 7, 24, 40)];
        let passed = passed_of(Some(2), &turns);
        assert_eq!((passed.grants, passed.to_another), (4, 2));
        assert_eq!((passed.handoff.min(), passed.handoff.max()), (2, 4));
        assert_eq!(passed.idle_ns, 2 + 4);
    }

    #[test]
    fn turns_may_come_in_any_order_and_in_any_pieces() {
        let mut turns: Vec<LockCycle> = (0..200)
            .map(|i| turn(i % 7, 10 * u64::from(i) + 1, 40 * u64::from(i) + 100, 40 * u64::from(i) + 130))
            .collect();
        let whole = passed(&turns);
        let mut ledger = Ledger::new(None);
        ledger.set_window(0, 1_000_000_000_000);
        // Over in the order of time, handed over in pairs the wrong way round, the watermark at the open one.
        turns.sort_by_key(|turn| turn.freed_ns);
        for pair in turns.chunks_mut(2) {
            pair.reverse();
            let open = pair.iter().map(|turn| turn.called_ns).min().unwrap();
            ledger.add(&mut pair.to_vec());
            ledger.look(open);
        }
        let (pieces, judge) = ledger.finish();
        assert!(judge.overlap.is_none(), "one after the other");
        assert_eq!(pieces.idle_ns, whole.idle_ns);
        assert_eq!(pieces.most_bypasses, whole.most_bypasses);
        assert_eq!(pieces.to_another, whole.to_another);
    }

    #[test]
    fn what_is_kept_does_not_grow_with_the_turns() {
        for permits in [1, 3] {
            let mut ledger = Ledger::new(Some(permits));
            for n in 0..10_000 {
                let t_ns = 10 * u64::from(n);
                ledger.add(&mut vec![turn(n % 7, t_ns + 1, t_ns + 2, t_ns + 8)]);
                ledger.look(t_ns + 9);
            }
            let of_lock = &ledger.locks[0];
            assert!(of_lock.early.len() < 5 && of_lock.recent.len() < 5);
            assert!(of_lock.rooms.len() <= permits as usize);
        }
    }

    #[test]
    fn only_grants_of_the_window_count() {
        let mut ledger = Ledger::new(None);
        ledger.set_window(20, 40);
        ledger.add(&mut vec![turn(0, 1, 2, 10), turn(1, 5, 25, 30), turn(0, 26, 41, 50)]);
        let (passed, _) = ledger.finish();
        assert_eq!((passed.grants, passed.to_another), (1, 1));
    }

    #[test]
    fn the_window_is_cut_into_equal_parts() {
        assert_eq!(part_of(100, 100, 500), 0);
        assert_eq!(part_of(499, 100, 500), PARTS - 1);
        assert_eq!(part_of(500, 100, 500), PARTS - 1);
        assert_eq!(part_of(110, 100, 500), 1);
    }
}
