//! The recovery from each fault of a history: one row per fault.
//!
//! As a specification, for one fault:
//!
//! 1. Its window begins with the injection and ends with the heal, or with the first grant after the injection if that is later or
//!    there is no heal; without either, with the history.
//! 2. An operation is of the window if it was called in it, or under way when it began. Its error share is the share that ended
//!    `failed` or `unknown`; its hang share the share without an answer a second after the wait that was asked for.
//! 3. The holder knew when the first of the grants that were believed in at the injection was notified: lost, or `not_held` to an extend
//!    or a release.
//! 4. The herd is the acquires under way in the first second after the heal (after the injection, where there is no heal).
//! 5. Stuck locks are those of which liveness says so, from the injection on until the next fault's.

use std::collections::{BTreeMap, BTreeSet};

use results::run::FaultRecovery;
use results::verdict::Verdicts;

use super::belief;
use super::faults::Fault;
use super::holds::{Ending, Record};

/// An answer that is late by more than this hangs.
const HANGS_AFTER_NS: u64 = 1_000_000_000;

/// The herd is counted for so long.
const HERD_NS: u64 = 1_000_000_000;

/// One row per fault, in the order of [`Record::faults`].
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
            let until_ns = next.map_or(u64::MAX, |next| next.injected_ns);
            row(record, fault, until_ns, &operations, locks)
        })
        .collect()
}

/// An operation as far as it matters here.
struct Operation {
    called_ns: u64,
    returned_ns: Option<u64>,
    failed: bool,
    /// How long an answer may take.
    patience_ns: u64,
}

fn operations(record: &Record) -> Vec<Operation> {
    let operation = |called_ns, returned_ns, ending, wait_ns: u64| Operation {
        called_ns,
        returned_ns,
        failed: matches!(ending, Ending::Failed | Ending::Unknown),
        patience_ns: wait_ns.saturating_add(HANGS_AFTER_NS),
    };
    let asks = record.asks.iter().map(|ask| {
        let wait_ns = ask.wait_ns.unwrap_or(u64::MAX);
        operation(ask.called_ns, ask.returned_ns, ask.ending, wait_ns)
    });
    let steps = record.steps.iter();
    let steps = steps.map(|step| operation(step.called_ns, step.returned_ns, step.ending, 0));
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
    let first_ns = granted().filter(|t_ns| *t_ns >= from_ns).min();
    let to_ns = fault.healed_ns.max(first_ns).unwrap_or(record.end_ns);
    let inside: Vec<&Operation> = operations
        .iter()
        .filter(|op| op.called_ns <= to_ns && op.returned_ns.is_none_or(|t_ns| t_ns >= from_ns))
        .collect();
    let share = |of: &dyn Fn(&Operation) -> bool| {
        let those = inside.iter().filter(|op| of(op)).count();
        (!inside.is_empty()).then(|| those as f64 / inside.len() as f64)
    };
    let hangs = |op: &Operation| {
        let until_ns = op.returned_ns.unwrap_or(record.end_ns);
        until_ns.saturating_sub(op.called_ns) > op.patience_ns
    };
    let herd_ns = fault.healed_ns.unwrap_or(from_ns);
    let herd = record.asks.iter().filter(|ask| {
        ask.called_ns <= herd_ns.saturating_add(HERD_NS)
            && record.over_ns(ask).is_none_or(|t_ns| t_ns >= herd_ns)
    });
    let stuck: BTreeSet<&String> = locks
        .iter()
        .filter(|(_, verdicts)| {
            let mut anomalies = verdicts.liveness.anomalies.iter();
            anomalies.any(|anomaly| {
                anomaly.what == "stuck" && (from_ns..next_ns).contains(&anomaly.from_ns)
            })
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
    }
}

/// From an instant until the first of those that held then heard that it does not hold any more.
fn holder_knew_ns(record: &Record, from_ns: u64) -> Option<u64> {
    let held = record.grants.iter().filter(|grant| {
        grant.held && grant.returned_ns <= from_ns && belief::end_ns(record, grant) >= from_ns
    });
    let told = held.flat_map(|grant| {
        let refused = record
            .steps(grant)
            .filter(|step| step.ending == Ending::NotHeld);
        refused
            .filter_map(|step| step.returned_ns)
            .chain(grant.lost_ns)
    });
    told.filter_map(|t_ns| t_ns.checked_sub(from_ns)).min()
}
