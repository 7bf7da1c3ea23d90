//! How long callers of an open loop waited before, during and after faults, each from when it was due.

use itertools::Itertools;
use serde::{Deserialize, Serialize};

use crate::record::run::FaultSpan;

/// The share of callers whose wait is stated.
const SHARE: f64 = 0.99;

/// One caller of an open loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenLoopCall {
    /// When it was due, since the run began.
    pub due_ns: u64,
    /// From then to its grant, or to the end of what was seen of it.
    pub waited_ns: u64,
    /// Whether the wait ended in a grant; otherwise it was longer than `waited_ns`.
    pub granted: bool,
}

/// The waits of an open loop.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema, Default)]
pub struct OpenLoop {
    /// Cycles per second that were asked for.
    pub asked_per_s: f64,
    /// Callers that were granted, per second of load.
    pub granted_per_s: f64,
    /// When the first fault was injected; `None`: there was none.
    pub fault_ns: Option<u64>,
    /// When the last fault was healed and a caller granted that was due after it; `None`: never, or no fault.
    pub recovered_ns: Option<u64>,
    /// Callers due before the first fault; `None` of none, here and below.
    pub before: Option<OpenLoopWaits>,
    /// Callers due from the first fault until recovery, or until the end where there was none.
    pub during: Option<OpenLoopWaits>,
    /// Callers due after recovery.
    pub after: Option<OpenLoopWaits>,
}

/// How long some callers waited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema, Default)]
pub struct OpenLoopWaits {
    /// How many there were.
    pub calls: u64,
    /// How many of them got no grant.
    pub without_grant: u64,
    /// What 99 in 100 did not exceed, those without a grant as the longest; `None` of fewer than 100.
    pub p99: Option<Length>,
    /// The longest of them.
    pub longest: Length,
}

/// A length that is known, or known to be exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema, Default)]
pub struct Length {
    /// Nanoseconds.
    pub ns: u64,
    /// The true length is larger: the wait ended without a grant.
    pub more: bool,
}

impl OpenLoop {
    /// Sorts callers by when they were due. `None` without a caller or a load of any length.
    pub fn of(asked_per_s: f64, load_ns: u64, waits: &[OpenLoopCall], faults: &[FaultSpan]) -> Option<Self> {
        if load_ns == 0 || waits.is_empty() {
            return None;
        }
        let fault_ns = faults.iter().map(|fault| fault.injected_ns).min();
        let over = faults.iter().map(|fault| over_ns(fault, waits)).collect::<Option<Vec<u64>>>();
        let recovered_ns = over.and_then(|over| over.into_iter().max());
        let [from, to] = [fault_ns, recovered_ns].map(|ns| ns.unwrap_or(u64::MAX));
        let due = |which: &dyn Fn(u64) -> bool| OpenLoopWaits::of(waits.iter().filter(|w| which(w.due_ns)));
        let granted = waits.iter().filter(|wait| wait.granted).count();
        Some(Self {
            asked_per_s,
            granted_per_s: granted as f64 * 1e9 / load_ns as f64,
            fault_ns,
            recovered_ns,
            before: due(&|at| at < from),
            during: due(&|at| from <= at && at < to),
            after: due(&|at| from <= at && to <= at),
        })
    }

    /// All of them that there are.
    pub fn parts(&self) -> impl Iterator<Item = &OpenLoopWaits> {
        [&self.before, &self.during, &self.after].into_iter().flatten()
    }
}

/// When a fault was over: healed, and a caller granted that was due once the fault was in place. A grant
/// before that says nothing of the recovery. `None` where there is no such caller.
fn over_ns(fault: &FaultSpan, waits: &[OpenLoopCall]) -> Option<u64> {
    let in_place_ns = fault.done_ns.unwrap_or(fault.injected_ns);
    let granted = (waits.iter()).filter(|wait| wait.granted && wait.due_ns >= in_place_ns);
    Some(granted.map(|wait| wait.due_ns + wait.waited_ns).min()?.max(fault.healed_ns.unwrap_or(0)))
}

impl OpenLoopWaits {
    fn of<'w>(waits: impl Iterator<Item = &'w OpenLoopCall>) -> Option<Self> {
        let waits: Vec<&OpenLoopCall> = waits.sorted_unstable_by_key(|wait| wait.waited_ns).collect();
        let seen: Vec<u64> = waits.iter().map(|wait| wait.waited_ns).collect();
        let granted: Vec<u64> = waits.iter().filter(|wait| wait.granted).map(|wait| wait.waited_ns).collect();
        let longest_ns = *seen.last()?;
        let enough = (1.0 - SHARE) * seen.len() as f64 >= 1.0 - 1e-9;
        let place = ((SHARE * seen.len() as f64 - 1e-9).ceil() as usize).saturating_sub(1);
        // Among those without a grant the true p99 is unknown, and not below that of what was seen.
        let length = |ns, more| Length { ns, more };
        let p99 = match granted.get(place) {
            Some(ns) => length(*ns, false),
            None => length(seen[place], true),
        };
        Some(Self {
            calls: seen.len() as u64,
            without_grant: (seen.len() - granted.len()) as u64,
            p99: enough.then_some(p99),
            longest: length(longest_ns, granted.last() != Some(&longest_ns)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A caller each 10 ms from 0 on, which waits so many milliseconds; a negative one gets no grant.
    fn callers(waits: &[i64]) -> Vec<OpenLoopCall> {
        let callers = waits.iter().zip(0..);
        let caller = |(ms, number): (&i64, u64)| OpenLoopCall {
            due_ns: number * 10 * MS,
            waited_ns: ms.unsigned_abs() * MS,
            granted: *ms >= 0,
        };
        callers.map(caller).collect()
    }

    fn fault(injected_ms: u64, done_ms: u64, healed_ms: Option<u64>) -> FaultSpan {
        FaultSpan {
            injected_ns: injected_ms * MS,
            done_ns: Some(done_ms * MS),
            healed_ns: healed_ms.map(|ms| ms * MS),
            ..FaultSpan::default()
        }
    }

    fn of(waits: &[i64], faults: &[FaultSpan]) -> OpenLoop {
        OpenLoop::of(100.0, 1_000 * MS, &callers(waits), faults).expect("callers")
    }

    fn exactly(ms: u64) -> Length {
        let (ns, more) = (ms * MS, false);
        Length { ns, more }
    }

    fn more_than(ms: u64) -> Length {
        let (ns, more) = (ms * MS, true);
        Length { ns, more }
    }

    #[test]
    fn without_a_fault_all_were_due_before_one() {
        let waits: Vec<i64> = (1..=200).collect();
        let open = of(&waits, &[]);
        let all = open.before.expect("callers");
        assert_eq!((all.calls, all.without_grant), (200, 0));
        assert_eq!((all.p99, all.longest), (Some(exactly(198)), exactly(200)));
        assert_eq!(open.granted_per_s, 200.0);
        assert_eq!((open.during, open.after), (None, None));
        assert_eq!((open.fault_ns, open.recovered_ns), (None, None));
    }

    #[test]
    fn callers_without_a_grant_push_the_p99_up() {
        // One in a hundred may be left out; two in two hundred were not granted, after a short wait.
        let mut waits: Vec<i64> = (1..=198).collect();
        waits.extend([-1, -1]);
        let all = of(&waits, &[]).before.expect("callers");
        assert_eq!(all.p99, Some(exactly(198)));
        assert_eq!((all.without_grant, all.longest), (2, exactly(198)));
        assert_eq!(of(&waits, &[]).granted_per_s, 198.0);
    }

    #[test]
    fn a_p99_among_those_without_a_grant_is_a_bound() {
        let mut waits = vec![5; 195];
        waits.extend([-500; 5]);
        let all = of(&waits, &[]).before.expect("callers");
        assert_eq!((all.p99, all.longest), (Some(more_than(500)), more_than(500)));
        // Refused at once: what is known is only that it is above the grants that were seen at that place.
        let mut waits = vec![5; 195];
        waits.extend([-1; 5]);
        let all = of(&waits, &[]).before.expect("callers");
        assert_eq!((all.p99, all.longest), (Some(more_than(5)), exactly(5)));
        let none = of(&[-7; 100], &[]);
        assert_eq!(none.before.expect("callers").p99, Some(more_than(7)));
        assert_eq!(none.granted_per_s, 0.0);
    }

    #[test]
    fn too_few_callers_have_no_p99_but_a_longest_wait() {
        let few = of(&[3; 99], &[]).before.expect("callers");
        assert_eq!((few.p99, few.longest), (None, exactly(3)));
        assert_eq!(of(&[3; 100], &[]).before.expect("callers").p99, Some(exactly(3)));
        assert_eq!(OpenLoop::of(1.0, MS, &[], &[]), None);
        assert_eq!(OpenLoop::of(1.0, 0, &callers(&[1]), &[]), None);
    }

    #[test]
    fn callers_are_cut_by_when_they_were_due_exactly() {
        // Due at 0, 10, … 40 ms; the fault at 20 ms is healed at 35 ms; the first grant came at 38 ms.
        let open = of(&[1, 90, 18, 14, 5], &[fault(20, 20, Some(35))]);
        let longest = |part: Option<OpenLoopWaits>| part.expect("callers").longest;
        assert_eq!(longest(open.before), exactly(90), "granted after the fault");
        assert_eq!(open.during.expect("callers").calls, 2);
        assert_eq!(longest(open.after), exactly(5));
        assert_eq!(open.recovered_ns, Some(38 * MS));
        // A grant before the heal does not end it.
        let open = of(&[1, 90, 3, 4, 5], &[fault(20, 20, Some(41))]);
        assert_eq!((open.during.expect("callers").calls, open.after), (3, None));
        assert_eq!(open.recovered_ns, Some(41 * MS));
        // Nor does one to a caller that was due before the fault was in place.
        let open = of(&[1, 15, 2, 90, 5], &[fault(20, 21, None)]);
        assert_eq!(open.recovered_ns, Some(45 * MS));
        assert_eq!(open.during.expect("callers").calls, 3);
    }

    #[test]
    fn a_fault_without_recovery_lasts_to_the_end() {
        let open = of(&[1, 2, 3, -4], &[fault(10, 10, Some(15)), fault(20, 25, Some(28))]);
        assert_eq!(open.before.expect("callers").calls, 1);
        assert_eq!(open.during.expect("callers").calls, 3);
        assert_eq!((open.after, open.recovered_ns), (None, None));
    }
}
