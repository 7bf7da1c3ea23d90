//! The recovery from each fault of a history: one row per fault.
//!
//! As a specification, for one fault:
//!
//! 1. Its window begins with the injection and ends with the heal, or with the first grant after the
//!    injection if that is later or there is no heal; without either, with the history.
//! 2. An operation is of the window if it was called in it, or under way when it began. Its error share is
//!    the share that ended `failed` or `unknown`; its hang share the share without an answer a second after
//!    the wait that was asked for.
//! 3. The holder knew when the first of the grants that were believed in at the injection was notified: lost,
//!    or `not_held` to an extend or a release.
//! 4. The herd is the acquires under way in the first second after the heal (after the injection, where there
//!    is no heal).
//! 5. Stuck locks are those of which liveness says so, from the injection on until the next fault's.
//! 6. A hold spans a fault if it was granted before the injection and is believed in after the heal, and
//!    after the servers took the lock's probe again if they had refused it.
//! 7. A lock is without a grant while nobody believes to hold it, from the first to the last call that asks
//!    for it meanwhile.

use std::collections::{BTreeMap, BTreeSet};

use results::run::FaultRecovery;
use results::verdict::Verdicts;

use super::belief;
use crate::checkers::record::faults::{self, Fault};
use crate::checkers::record::holds::{AcquireCall, OperationEnd, Record};
use crate::checkers::record::spans::{Span, partition_near};

const HANGS_AFTER_NS: u64 = 1_000_000_000;

const HERD_NS: u64 = 1_000_000_000;

pub(super) fn rows(record: &Record, locks: &BTreeMap<String, Verdicts>) -> Vec<FaultRecovery> {
    if record.faults.is_empty() {
        return Vec::new();
    }
    let operations = operations(record);
    record
        .faults
        .iter()
        .enumerate()
        .map(|(place, fault)| {
            let next = record.faults.get(place + 1);
            row(record, fault, next.map_or(u64::MAX, |next| next.injected_ns), &operations, locks)
        })
        .collect()
}

struct Operation {
    called_ns: u64,
    returned_ns: Option<u64>,
    failed: bool,
    patience_ns: u64,
}

fn operations(record: &Record) -> Vec<Operation> {
    let operation = |called_ns, returned_ns, ending, wait_ns: u64| Operation {
        called_ns,
        returned_ns,
        failed: matches!(ending, OperationEnd::Failed | OperationEnd::Unknown),
        patience_ns: wait_ns.saturating_add(HANGS_AFTER_NS),
    };
    let asks = record.acquires.iter().map(|ask| {
        let wait_ns = ask.wait_ns().unwrap_or(u64::MAX);
        operation(ask.called_ns, ask.returned_ns(), ask.ending, wait_ns)
    });
    let steps = record.steps.iter();
    let steps = steps.map(|step| operation(step.called_ns, step.returned_ns(), step.ending, 0));
    asks.chain(steps).collect()
}

fn row(
    record: &Record,
    fault: &Fault,
    next_ns: u64,
    operations: &[Operation],
    locks: &BTreeMap<String, Verdicts>,
) -> FaultRecovery {
    let from_ns = fault.injected_ns;
    let granted = || record.granted().map(|grant| grant.returned_ns);
    let to_ns = fault.healed_ns.max(granted().filter(|t_ns| *t_ns >= from_ns).min()).unwrap_or(record.end_ns);
    let inside: Vec<&Operation> = operations
        .iter()
        .filter(|op| op.called_ns <= to_ns && op.returned_ns.is_none_or(|t_ns| t_ns >= from_ns))
        .collect();
    let share = |of: &dyn Fn(&Operation) -> bool| {
        let those = inside.iter().filter(|op| of(op)).count();
        (!inside.is_empty()).then(|| those as f64 / inside.len() as f64)
    };
    let hangs = |op: &Operation| {
        op.returned_ns.unwrap_or(record.end_ns).saturating_sub(op.called_ns) > op.patience_ns
    };
    let herd_ns = fault.healed_ns.unwrap_or(from_ns);
    let healed_ns = fault.healed_ns.unwrap_or(u64::MAX);
    let herd = record.acquires.iter().filter(|ask| {
        ask.called_ns <= herd_ns.saturating_add(HERD_NS)
            && record.over_ns(ask).is_none_or(|t_ns| t_ns >= herd_ns)
    });
    let stuck: BTreeSet<&String> = locks
        .iter()
        .filter(|(_, verdicts)| {
            let mut anomalies = verdicts.liveness.anomalies.iter();
            anomalies.any(|anomaly| anomaly.what == "stuck" && (from_ns..next_ns).contains(&anomaly.from_ns))
        })
        .map(|(name, _)| name)
        .collect();
    FaultRecovery {
        last_grant_before_ns: granted().filter_map(|t_ns| from_ns.checked_sub(t_ns)).min(),
        window_ns: to_ns.saturating_sub(from_ns),
        operations: inside.len() as u64,
        error_share: share(&|op| op.failed),
        hang_share: share(&|op| hangs(op)),
        holder_knew_ns: holder_knew_ns(record, from_ns),
        herd: herd.count() as u64,
        stuck_locks: stuck.len() as u64,
        grants_before: granted().filter(|t_ns| *t_ns < from_ns).count() as u64,
        grants_during: granted().filter(|t_ns| (from_ns..healed_ns).contains(t_ns)).count() as u64,
        grants_after: granted().filter(|t_ns| *t_ns >= healed_ns).count() as u64,
        holds_across: holds_across(record, fault) as u64,
    }
}

pub(super) fn holds_across(record: &Record, fault: &Fault) -> usize {
    let from_ns = fault.injected_ns;
    let again = |lock: u32| {
        let down = faults::refused(record.probes.get(&lock).map_or(&[][..], Vec::as_slice));
        // The probe may be refused at once, or only when the fault is in place.
        let mut since = down.iter().filter(|(down_ns, _)| *down_ns >= from_ns);
        since.next().map_or(from_ns, |(_, up_ns)| up_ns)
    };
    let healed_ns = fault.healed_ns.unwrap_or(from_ns);
    let across = |lock: usize| {
        let after_ns = again(lock as u32).max(healed_ns);
        let held = record.held(lock);
        held.filter(move |(_, grant)| {
            grant.returned_ns <= from_ns && belief::end_ns(record, grant) > after_ns
        })
        .count()
    };
    (0..record.locks.len()).map(across).sum()
}

/// The longest time for which a free lock was asked for and not granted; `None` where nobody asked.
pub(super) fn without_grant_ns(record: &Record) -> Option<u64> {
    let of_lock = |lock: usize| -> Option<u64> {
        let asks: &[u32] = record.acquires_of.get(lock)?;
        let flight = |index: &u32| -> Span {
            let ask: &AcquireCall = &record.acquires[*index as usize];
            (ask.called_ns, record.over_ns(ask).unwrap_or(record.end_ns))
        };
        let longest_ns = asks.iter().map(flight).map(|(from, to)| to - from).max()?;
        let (mut longest, mut first) = (0, 0);
        let mut free_ns = record.begin_ns;
        let holds = record.held(lock).map(|(_, grant)| (grant.returned_ns, belief::end_ns(record, grant)));
        for (granted_ns, end_ns) in holds.chain([(record.end_ns, record.end_ns)]) {
            if granted_ns.saturating_sub(free_ns) > longest {
                let since_ns = free_ns.saturating_sub(longest_ns);
                first = partition_near(asks, first, |ask| flight(ask).0 < since_ns);
                let meanwhile =
                    asks[first..].iter().map(flight).take_while(|(called_ns, _)| *called_ns < granted_ns);
                let meanwhile = meanwhile.filter(|(_, over_ns)| *over_ns > free_ns);
                let ends = meanwhile.fold(None, |ends: Option<Span>, (from, to)| {
                    let (first, last) = ends.unwrap_or((from, to));
                    Some((first.min(from), last.max(to)))
                });
                let asked_ns = ends.map(|(from, to)| to.min(granted_ns).saturating_sub(from.max(free_ns)));
                longest = longest.max(asked_ns.unwrap_or(0));
            }
            free_ns = free_ns.max(end_ns);
        }
        Some(longest)
    };
    (0..record.locks.len()).filter_map(of_lock).max()
}

/// From an instant until the first holder of that time learns that it has lost the lock.
fn holder_knew_ns(record: &Record, from_ns: u64) -> Option<u64> {
    let held = record.grants.iter().filter(|grant| {
        grant.held && grant.returned_ns <= from_ns && belief::end_ns(record, grant) >= from_ns
    });
    let told = held.flat_map(|grant| {
        let refused = record.steps(grant).filter(|step| step.ending == OperationEnd::NotHeld);
        refused.filter_map(|step| step.returned_ns()).chain(grant.lost_ns())
    });
    told.filter_map(|t_ns| t_ns.checked_sub(from_ns)).min()
}
