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
        let p99 = granted.get(place).map_or_else(|| length(seen[place], true), |ns| length(*ns, false));
        Some(Self {
            calls: seen.len() as u64,
            without_grant: (seen.len() - granted.len()) as u64,
            p99: enough.then_some(p99),
            longest: length(longest_ns, granted.last() != Some(&longest_ns)),
        })
    }
}
