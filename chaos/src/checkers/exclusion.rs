//! Finds two grants that held at one time and must not, given one interval per grant.
//!
//! 1. Each grant gives one closed interval, or none; a grant of several locks holds each of them for that
//!    interval.
//! 2. The overlaps are those of [`results::overlap`], with the modes of the table in [`super::kinds`].
//! 3. `permits` on an acquire is read as the semaphore's size if it is above 1, each hold weighing 1. Without
//!    it, permits held together are a doubt.

use std::collections::BTreeSet;

use results::overlap::{Hold, Mode, Overlap, overlaps};
use results::verdict::Anomaly;

use super::Finding;
use crate::checkers::record::clocks::certain;
use crate::checkers::record::holds::{Grant, OperationEnd, Record, StepKind, ms};
use crate::checkers::record::kinds::Promise;

pub(crate) struct Class<'a> {
    /// What a holder does in it, e.g. `believed to hold`.
    pub(crate) verb: &'static str,
    /// The interval of each grant of the record that is held; `None` where it is empty.
    pub(crate) intervals: &'a [Option<(u64, u64)>],
}

impl Class<'_> {
    pub(crate) fn findings(&self, record: &Record) -> Vec<Finding> {
        let sizes = sizes(record);
        let mut findings = vec![Finding::default(); record.locks.len()];
        // Lock by lock: the holds of one fit into a cache more often than those of all.
        for (lock, finding) in (0..).zip(&mut findings) {
            let size = sizes[lock as usize];
            let holds = self.holds(record, lock);
            if size.is_none() && permits_together(&holds) {
                finding.doubts.push(
                    "permits were held together, and the history does not say how many there are".to_owned(),
                );
            }
            let found = match record.clocks.are_several() {
                false => overlaps(holds, |_| size),
                true => {
                    let (found, unknown) = certain(record, holds, size);
                    if unknown > 0 {
                        finding.doubts.push(format!(
                            "{unknown} pairs of holds of different generators are closer to each other than their clocks are known"
                        ));
                    }
                    found
                }
            };
            for overlap in listed(&found.list) {
                finding.add(self.anomaly(record, overlap));
            }
            // All count here, listed or not; the sweep lists one pair per newcomer, and counts all.
            finding.lengths_ns = found.list.iter().map(|o| o.to_ns - o.from_ns).collect();
            finding.worst_ns = found.worst_ns;
            finding.count = found.count;
        }
        unknown_kinds(record, &mut findings);
        findings
    }

    /// The holds of a lock in order of their returns: so the sweep finds them all but sorted.
    fn holds(&self, record: &Record, lock: u32) -> Vec<Hold> {
        let grants = &record.grants_of[lock as usize];
        let mut holds = Vec::with_capacity(grants.len());
        for index in grants {
            let Some((from_ns, to_ns)) = self.intervals[*index as usize] else { continue };
            let grant = &record.grants[*index as usize];
            let Some(mode) = grant.promise.mode else { continue };
            holds.push(Hold { lock, owner: grant.owner, from_ns, to_ns, mode, weight: 1, grant: *index });
        }
        holds
    }

    fn anomaly(&self, record: &Record, overlap: Overlap) -> Anomaly {
        let interval = |index: u32| self.intervals.get(index as usize).copied().flatten();
        // Nested grants are swept as one hold under its first grant: name the one that lasts longest then.
        let earlier = record.grants.get(overlap.earlier as usize);
        let nested = earlier.into_iter().flat_map(|first| {
            record.held(overlap.lock as usize).filter(move |(_, grant)| {
                grant.owner == first.owner && grant.promise.mode == first.promise.mode
            })
        });
        let there = nested
            .filter_map(|(index, _)| interval(index).map(|(from, to)| (to, from, index)))
            .filter(|(to, from, _)| *from <= overlap.from_ns && *to >= overlap.from_ns)
            .max()
            .map_or(overlap.earlier, |(_, _, index)| index);
        let holder = |index: u32| {
            let (from, to) = interval(index).unwrap_or((overlap.from_ns, overlap.to_ns));
            let grant = record.grants.get(index as usize);
            let grant = grant.map_or(String::new(), |grant| described(record, grant));
            format!("{grant} {} from {} to {}", self.verb, ms(from), ended(record, to))
        };
        let name = |index: u32| Some(record.name_of(record.grants.get(index as usize)?).to_owned());
        let mut proof = holder(there);
        if there != overlap.later {
            proof = format!("{proof}, and {}", holder(overlap.later));
        }
        let (after, how) = after(record, there, &overlap);
        Anomaly {
            what: "overlap".to_owned(),
            after: after.to_owned(),
            proof: format!(
                "{proof}: together for {} from {}{how}",
                ms(overlap.to_ns - overlap.from_ns),
                ms(overlap.from_ns)
            ),
            lock: record.locks.get(overlap.lock).to_owned(),
            from_ns: overlap.from_ns,
            to_ns: overlap.to_ns,
            grants: BTreeSet::from([there, overlap.later]).into_iter().filter_map(name).collect(),
        }
    }
}

/// What a holder did that explains an overlap, as a word and for a sentence; both are empty where nothing
/// does.
///
/// 1. The earlier of the two extended the lock, and was told that it worked, when the later one had it.
/// 2. A third one released the lock after its lease and beside the earlier one's, and the later one got it
///    when not three quarters of the earlier one's lease can have passed.
fn after(record: &Record, earlier: u32, overlap: &Overlap) -> (&'static str, String) {
    let grant = |index: u32| record.grants.get(index as usize);
    let (Some(earlier), Some(later)) = (grant(earlier), grant(overlap.later)) else {
        return ("", String::new());
    };
    let late_extend = record.steps(earlier).find(|step| {
        let while_another_has_it = (later.returned_ns..=overlap.to_ns).contains(&step.called_ns);
        step.kind != StepKind::Release && step.ending == OperationEnd::Ok && while_another_has_it
    });
    if let Some(step) = late_extend {
        let (who, at) = (record.name_of(earlier), ms(step.called_ns));
        return ("late-extend", format!("; {who} extended it at {at} though it was another's"));
    }
    let Some(lease_ns) = record.acquire_of(earlier).lease_ns() else { return ("", String::new()) };
    let is_early = later.returned_ns < earlier.returned_ns.saturating_add(lease_ns / 4 * 3);
    let late_release = record.held(overlap.lock as usize).find_map(|(_, third)| {
        let lease_ns = record.acquire_of(third).lease_ns()?;
        let lapsed_ns = record.lease_from_ns(third).saturating_add(lease_ns);
        let is_before = third.returned_ns <= earlier.returned_ns && third.owner != earlier.owner;
        let release = record.releases(third).find(|release| {
            let until_ns = release.returned_ns().unwrap_or(u64::MAX);
            release.called_ns <= later.returned_ns && until_ns >= earlier.returned_ns
        })?;
        (is_before && lapsed_ns <= earlier.returned_ns).then_some((third, release.called_ns))
    });
    match late_release.filter(|_| is_early) {
        None => ("", String::new()),
        Some((third, called_ns)) => {
            let (who, at) = (record.name_of(third), ms(called_ns));
            let how =
                format!("; {who}, whose lease had run out, was released from {at} on, when it was another's");
            ("late-release", how)
        }
    }
}

/// Whether two permits among the holds of one lock were held at one time.
fn permits_together(holds: &[Hold]) -> bool {
    let permits = holds.iter().filter(|hold| hold.mode == Mode::Permit);
    overlaps(permits.map(|hold| Hold { mode: Mode::Exclusive, ..*hold }).collect(), |_| None).count > 0
}

/// The overlaps worth a proof: the first ones and the longest ones.
fn listed(overlaps: &[Overlap]) -> Vec<Overlap> {
    let mut rest: Vec<Overlap> = overlaps.iter().skip(20).copied().collect();
    rest.sort_by_key(|overlap| std::cmp::Reverse(overlap.to_ns - overlap.from_ns));
    overlaps.iter().take(20).copied().chain(rest.into_iter().take(20)).collect()
}

/// How many permits each lock has, where it is known.
pub(super) fn sizes(record: &Record) -> Vec<Option<u64>> {
    let mut sizes = vec![None; record.locks.len()];
    if record.kinds.iter().all(|kind| Promise::of(kind).mode != Some(Mode::Permit)) {
        return sizes;
    }
    for ask in &record.acquires {
        let is_permit = ask.promise.mode == Some(Mode::Permit);
        if let Some(said) = ask.permits.filter(|said| is_permit && *said > 1) {
            for lock in record.locks_of(ask) {
                let size = &mut sizes[*lock as usize];
                *size = (*size).max(Some(u64::from(said)));
            }
        }
    }
    sizes
}

fn unknown_kinds(record: &Record, findings: &mut [Finding]) {
    if record.kinds.iter().all(|kind| Promise::of(kind).known) {
        return;
    }
    let asked = record.acquires.iter().filter(|ask| !ask.promise.known);
    let unknown: BTreeSet<(u32, &str)> = asked
        .flat_map(|ask| record.locks_of(ask).iter().map(|lock| (*lock, record.kinds.get(ask.kind))))
        .collect();
    for (lock, kind) in unknown {
        if let Some(finding) = findings.get_mut(lock as usize) {
            finding.notes.push(format!("kind {kind} is not known: judged as a plain mutex"));
        }
    }
}

/// A grant for a message: its name, whose it is, and its lease.
pub(crate) fn described(record: &Record, grant: &Grant) -> String {
    let lease = match record.acquire_of(grant).lease_ns() {
        Some(lease_ns) => {
            let from_ns = record.lease_from_ns(grant);
            format!("lease {} from {}", ms(lease_ns), ms(from_ns))
        }
        None => "renewed lease".to_owned(),
    };
    let owner = record.owners.get(grant.owner);
    format!("{owner} ({}, {lease})", record.name_of(grant))
}

fn ended(record: &Record, to_ns: u64) -> String {
    if to_ns >= record.end_ns {
        return "the end of the history".to_owned();
    }
    ms(to_ns)
}
