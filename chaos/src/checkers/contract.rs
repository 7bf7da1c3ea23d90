//! The times that the lock itself promised: two at once mean a broken algorithm or configuration.
//!
//! 1. A hold begins and ends as in belief, and no later than its deadline.
//! 2. The deadline is the start of the last successful acquire or extend, plus its lease less the drift. An acquire starts when
//!    the attempt that succeeded was sent, where that is known, else at its call.
//! 3. Nested grants of one owner are one hold: a re-entry that starts before the deadline renews it too.
//! 4. A renewed lease whose renewals are visible is a series of extends, and begins with what the library says it renews
//!    (30 s if it does not). Where they are not visible there is no deadline: the library promised to keep it or say lost.
//! 5. A grant with a fixed lease is late, by itself, if it returned after call + wait + lease (sending + lease, where that is
//!    known) and no pause of its client lies between. Other empty intervals are not judged.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use results::verdict::Anomaly;

use super::exclusion::{Class, described, ms};
use super::holds::{Ending, Grant, Record};
use super::{CheckOptions, Finding, belief};

/// A start of a lease, and how long it runs; `None`: until told otherwise.
type Start = (u64, Option<u64>);

/// When each grant's promise ran out by itself, releases and signals aside; `u64::MAX`: not by itself.
pub(crate) fn deadlines(record: &Record, drift: f64) -> Vec<u64> {
    let visible: BTreeSet<u32> = record
        .grants
        .iter()
        .filter(|grant| grant.extends.iter().any(|extend| extend.watchdog))
        .map(|grant| grant.client)
        .collect();
    let starts: Vec<Vec<Start>> = record
        .grants
        .iter()
        .map(|grant| starts(record, grant, visible.contains(&grant.client)))
        .collect();
    let mut deadlines = vec![0; record.grants.len()];
    // Grants that may nest, by owner, mode and lock.
    let mut groups: BTreeMap<(u32, u32, bool), Vec<usize>> = BTreeMap::new();
    for (index, grant) in record
        .grants
        .iter()
        .enumerate()
        .filter(|(_, grant)| grant.held)
    {
        if let (true, Some(lock)) = (grant.promise.nests(), grant.locks.first()) {
            let key = (*lock, grant.owner, grant.promise.is_exclusive());
            groups.entry(key).or_default().push(index);
        }
        if let (Some(slot), Some(own)) = (deadlines.get_mut(index), starts.get(index)) {
            *slot = last(own).map_or(u64::MAX, |start| deadline(start, drift));
        }
    }
    for group in groups.values().filter(|group| group.len() > 1) {
        let mut renewals: Vec<Start> = group
            .iter()
            .filter_map(|index| starts.get(*index))
            .flatten()
            .copied()
            .collect();
        renewals.sort_unstable_by_key(|start| start.0);
        for index in group {
            let (Some(grant), Some(own)) = (record.grants.get(*index), starts.get(*index)) else {
                continue;
            };
            if let Some(slot) = deadlines.get_mut(*index) {
                *slot = chained(grant, own, &renewals, drift, belief::end_ns(record, grant));
            }
        }
    }
    deadlines
}

/// The starts of a grant's lease that succeeded: its acquire and its extends.
fn starts(record: &Record, grant: &Grant, visible: bool) -> Vec<Start> {
    let renews = grant.lease_ns.is_none();
    let lease_ns = match grant.lease_ns {
        Some(lease_ns) => Some(lease_ns),
        None if visible => Some(record.renewal_ns(grant.client)),
        None => None,
    };
    let succeeded = grant
        .extends
        .iter()
        .filter(|extend| extend.ending == Ending::Ok);
    std::iter::once((grant.lease_from_ns(), lease_ns))
        .chain(succeeded.map(|extend| {
            (
                extend.sent_ns,
                Some(extend.lease_ns).filter(|_| !renews || visible),
            )
        }))
        .collect()
}

fn last(starts: &[Start]) -> Option<Start> {
    starts.iter().max_by_key(|start| start.0).copied()
}

fn deadline((from_ns, lease_ns): Start, drift: f64) -> u64 {
    let Some(lease_ns) = lease_ns else {
        return u64::MAX;
    };
    let cut_ns = (lease_ns as f64 * drift.clamp(0.0, 1.0)).round() as u64;
    from_ns.saturating_add(lease_ns.saturating_sub(cut_ns))
}

/// The deadline of a grant that may have been renewed by re-entries of its owner.
fn chained(grant: &Grant, own: &[Start], renewals: &[Start], drift: f64, until_ns: u64) -> u64 {
    let own_last = last(own);
    let mut at = own.first().copied();
    let first = renewals.partition_point(|start| start.0 < grant.lease_from_ns());
    for start in renewals
        .iter()
        .skip(first)
        .take_while(|start| start.0 <= until_ns)
    {
        let in_time = at.is_none_or(|at| start.0 <= deadline(at, 0.0));
        // An extend of the grant itself claims that it was held all the time, however late.
        if in_time || own.contains(start) {
            at = Some(*start);
        }
    }
    let latest = at.into_iter().chain(own_last).max_by_key(|start| start.0);
    latest.map_or(u64::MAX, |start| deadline(start, drift))
}

/// The contract interval of each grant.
pub(crate) fn intervals(record: &Record, drift: f64) -> Vec<Option<(u64, u64)>> {
    let deadlines = deadlines(record, drift);
    let belief = belief::intervals(record);
    belief
        .into_iter()
        .zip(deadlines)
        .map(|(interval, deadline_ns)| {
            let (from_ns, to_ns) = interval?;
            let to_ns = to_ns.min(deadline_ns);
            (from_ns <= to_ns).then_some((from_ns, to_ns))
        })
        .collect()
}

/// One finding per lock.
pub fn check(record: &Record, options: &CheckOptions<'_>) -> Vec<Finding> {
    let class = Class {
        verb: "was promised to hold",
        intervals: &intervals(record, options.drift),
    };
    let mut findings = class.findings(record, options);
    for grant in record.grants.iter().filter(|grant| !grant.unknown) {
        let Some(limit_ns) = late_after(record, grant) else {
            continue;
        };
        for lock in &grant.locks {
            let name = record.locks.get(*lock as usize);
            if let (Some(finding), Some(name)) = (findings.get_mut(*lock as usize), name) {
                finding.add(late(record, grant, name, limit_ns));
            }
        }
    }
    findings
}

/// The instant after which a grant was late, if it was.
fn late_after(record: &Record, grant: &Grant) -> Option<u64> {
    let lease_ns = grant.lease_ns?;
    grant.promise.mode?;
    let (from_ns, limit_ns) = match grant.sent_ns {
        Some(sent_ns) => (sent_ns, sent_ns.saturating_add(lease_ns)),
        None => {
            let limit_ns = grant.called_ns.saturating_add(grant.wait_ns?);
            (grant.called_ns, limit_ns.saturating_add(lease_ns))
        }
    };
    let between = (from_ns, grant.returned_ns);
    let paused = record
        .faults
        .iter()
        .any(|fault| fault.paused(grant.client, between));
    (grant.returned_ns > limit_ns && !paused).then_some(limit_ns)
}

fn late(record: &Record, grant: &Grant, lock: &str, limit_ns: u64) -> Anomaly {
    let (from, wait) = match (grant.sent_ns, grant.wait_ns) {
        (Some(sent_ns), _) => (format!("sent at {}", ms(sent_ns)), String::new()),
        (None, wait_ns) => (
            format!("called at {}", ms(grant.called_ns)),
            format!(" after a wait of at most {}", ms(wait_ns.unwrap_or(0))),
        ),
    };
    Anomaly {
        what: "late-grant".to_owned(),
        lock: lock.to_owned(),
        from_ns: limit_ns,
        to_ns: grant.returned_ns,
        grants: vec![grant.name.clone()],
        proof: format!(
            "{} was granted at {}, {from}: its lease{wait} had run out at {}, and its client was not paused in between",
            described(record, grant),
            ms(grant.returned_ns),
            ms(limit_ns)
        ),
    }
}

/// For each grant, the end of the hold that it may re-enter: its contract interval, not cut by a release that was answered
/// `failed`, `unknown` or nothing.
pub(crate) fn still_held_until(record: &Record, drift: f64) -> HashMap<u32, u64> {
    let deadlines = deadlines(record, drift);
    let until = |grant: &Grant, deadline_ns: u64| {
        let released = grant
            .releases
            .iter()
            .filter(|release| matches!(release.ending, Ending::Ok | Ending::NotHeld));
        released
            .map(|release| release.called_ns)
            .chain([deadline_ns, belief::told_ns(record, grant)])
            .min()
            .unwrap_or(deadline_ns)
    };
    (0..)
        .zip(record.grants.iter().zip(deadlines))
        .filter(|(_, (grant, _))| grant.held)
        .map(|(index, (grant, deadline_ns))| (index, until(grant, deadline_ns)))
        .collect()
}
