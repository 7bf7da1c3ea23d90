//! The times that the lock itself promised: two at once mean a broken algorithm or configuration.
//!
//! 1. A hold begins and ends as in belief, and no later than its deadline.
//! 2. The deadline is the start of the last successful acquire or extend, plus its lease less the drift. An
//!    acquire starts when the attempt that succeeded was sent, where that is known, else at its call.
//! 3. Nested grants of one owner are one hold: a re-entry that was answered before the deadline renews it
//!    too. One that was answered later may have been granted a lock that was free again, or that somebody
//!    else had held meanwhile, whenever it was called or sent. A library that says `nested_leases` gives each
//!    grant a lease of its own: there a re-entry renews nothing.
//! 4. A renewed lease whose renewals are visible is a series of extends, and begins with what the library
//!    says it renews (30 s if it does not). They are visible where there is one, or where the library is said
//!    to report each. Where they are not there is no deadline: the library promised to keep it or say lost.
//! 5. A grant with a fixed lease is late, by itself, if it returned after call + wait + lease (sending +
//!    lease, where that is known) and no pause of its client lies between. When it returned its client says,
//!    where it can: the recorder may have stood still. Other empty intervals are not judged.

use results::verdict::Anomaly;

use super::exclusion::{Class, described};
use super::{CheckOptions, Finding, belief};
use crate::checkers::record::holds::{AcquireCall, Grant, OperationEnd, Record, StepKind, ms};
use crate::checkers::record::spans::partition_near;

/// A start of a lease, and how long it runs; `None`: it does not run out by itself.
type Start = (u64, Option<u64>);

/// A start of a lease, and the instant that must not be after the deadline of a hold that it renews.
type Renewal = (Start, u64);

/// When each grant's promise ran out by itself, releases and signals aside; `u64::MAX`: not by itself. A
/// re-entry counts by `entered_ns`. `believed_ns` is the end of belief of a grant by its index.
fn deadlines(
    record: &Record,
    drift: f64,
    entered_ns: impl Fn(&Grant) -> u64,
    believed_ns: impl Fn(usize) -> u64,
) -> Vec<u64> {
    let starts = Starts::of(record);
    let own = |grant: &Grant| match grant.held {
        true => deadline(starts.last(grant), drift),
        false => 0,
    };
    let mut deadlines: Vec<u64> = record.grants.iter().map(own).collect();
    // Grants of one lock that may nest, by owner and mode.
    let mut nesting: Vec<(u32, bool, u32)> = Vec::new();
    let mut renewals: Vec<Renewal> = Vec::new();
    for lock in 0..record.locks.len() {
        nesting.clear();
        nesting.extend(record.held(lock).filter_map(|(index, grant)| {
            // Those of several locks stand under the first.
            let ask = record.acquire_of(grant);
            let first = record.locks_of(ask).first() == Some(&(lock as u32));
            let nests = first && grant.promise.nests() && !record.nested_leases.contains(&ask.client);
            nests.then_some((grant.owner, grant.promise.is_exclusive(), index))
        }));
        nesting.sort_unstable();
        for group in nesting.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)).filter(|group| group.len() > 1) {
            let grants = || group.iter().map(|(.., index)| *index as usize);
            if !starts.meet(grants(), &believed_ns) {
                continue;
            }
            renewals.clear();
            for index in grants() {
                let grant = &record.grants[index];
                renewals.push((starts.first(grant), entered_ns(grant)));
                renewals.extend(starts.extends(grant).map(|start| (start, start.0)));
            }
            renewals.sort_unstable_by_key(|(start, _)| start.0);
            let mut first = 0;
            for index in grants() {
                let grant = &record.grants[index];
                let from_ns = record.lease_from_ns(grant);
                first = partition_near(&renewals, first, |(start, _)| start.0 < from_ns);
                deadlines[index] = starts.chained(grant, &renewals[first..], believed_ns(index), drift);
            }
        }
    }
    deadlines
}

/// When the leases of grants began, and how long they run.
pub(super) struct Starts<'a> {
    record: &'a Record,
    /// Clients whose library's renewals are on record.
    visible: Vec<bool>,
}

impl<'a> Starts<'a> {
    pub(super) fn of(record: &'a Record) -> Self {
        let clients = 0..record.clients.len() as u32;
        let mut visible: Vec<bool> = clients.map(|client| record.reporting.contains(&client)).collect();
        for grant in &record.grants {
            let mut steps = record.steps(grant);
            if steps.any(|step| step.kind == StepKind::Renewal) {
                visible[record.acquire_of(grant).client as usize] = true;
            }
        }
        Self { record, visible }
    }

    fn extends(&self, grant: &'a Grant) -> impl Iterator<Item = Start> + use<'a> {
        let record = self.record;
        let succeeded = record.extends(grant).filter(|extend| extend.ending == OperationEnd::Ok);
        let visible = self.is_visible(record.acquire_of(grant));
        succeeded.map(move |extend| (extend.sent_ns, Some(extend.lease_ns).filter(|_| visible)))
    }

    /// Whether every start of a grant's lease is on record.
    pub(super) fn is_visible(&self, ask: &AcquireCall) -> bool {
        ask.asked_ns().is_some() || self.visible[ask.client as usize]
    }

    pub(super) fn first(&self, grant: &Grant) -> Start {
        let ask = self.record.acquire_of(grant);
        let renewed = || {
            let usual = || self.record.renewal_ns(ask.client);
            self.is_visible(ask).then(|| ask.granted_ns().unwrap_or_else(usual))
        };
        (self.record.lease_from_ns(grant), ask.lease_ns().or_else(renewed))
    }

    fn last(&self, grant: &'a Grant) -> Start {
        let first = self.first(grant);
        self.extends(grant).fold(first, |last, start| if start.0 >= last.0 { start } else { last })
    }

    /// Whether one of these grants began or was extended while another that returned before it was believed
    /// in, or the other way round: then one may have renewed the other.
    fn meet(&self, grants: impl Iterator<Item = usize>, believed_ns: impl Fn(usize) -> u64) -> bool {
        let mut reached_ns = 0;
        for index in grants {
            let grant = &self.record.grants[index];
            let from_ns = self.record.lease_from_ns(grant);
            let starts_ns = || self.record.extends(grant).map(|extend| extend.sent_ns).chain([from_ns]);
            if starts_ns().min() <= Some(reached_ns) {
                return true;
            }
            reached_ns = starts_ns().fold(reached_ns.max(believed_ns(index)), u64::max);
        }
        false
    }

    /// The deadline of a grant that may have been renewed by re-entries of its owner: those that start when
    /// it did, or later.
    fn chained(&self, grant: &'a Grant, renewals: &[Renewal], until_ns: u64, drift: f64) -> u64 {
        let mut at = self.first(grant);
        for (start, by_ns) in renewals.iter().take_while(|(start, _)| start.0 <= until_ns) {
            // An extend of the grant itself claims that it was held all the time, however late.
            if *by_ns <= deadline(at, drift) || self.extends(grant).any(|own| own == *start) {
                at = *start;
            }
        }
        let last = self.last(grant);
        deadline(if last.0 >= at.0 { last } else { at }, drift)
    }
}

fn deadline((from_ns, lease_ns): Start, drift: f64) -> u64 {
    let Some(lease_ns) = lease_ns else { return u64::MAX };
    let cut_ns = (lease_ns as f64 * drift.clamp(0.0, 1.0)).round() as u64;
    from_ns.saturating_add(lease_ns.saturating_sub(cut_ns))
}

pub(crate) fn intervals(record: &Record, drift: f64) -> Vec<Option<(u64, u64)>> {
    let belief = belief::intervals(record);
    let believed_ns = |index: usize| belief[index].map_or(0, |(_, to_ns)| to_ns);
    let deadlines = deadlines(record, drift, |grant| grant.handed_over_ns, believed_ns);
    let cut = |(interval, deadline_ns): (Option<(u64, u64)>, u64)| {
        let (from_ns, to_ns) = interval?;
        let to_ns = to_ns.min(deadline_ns);
        (from_ns <= to_ns).then_some((from_ns, to_ns))
    };
    belief.into_iter().zip(deadlines).map(cut).collect()
}

/// One finding per lock.
pub fn check(record: &Record, options: &CheckOptions<'_>) -> Vec<Finding> {
    let class = Class { verb: "was promised to hold", intervals: &intervals(record, options.drift) };
    let mut findings = class.findings(record);
    for grant in record.granted() {
        let Some(limit_ns) = late_after(record, grant) else { continue };
        for lock in record.locks_of(record.acquire_of(grant)) {
            findings[*lock as usize].add(late(record, grant, record.locks.get(*lock), limit_ns));
        }
    }
    findings
}

fn late_after(record: &Record, grant: &Grant) -> Option<u64> {
    let ask = record.acquire_of(grant);
    let lease_ns = ask.lease_ns()?;
    grant.promise.mode?;
    let (from_ns, limit_ns) = match grant.sent_ns() {
        Some(sent_ns) => (sent_ns, sent_ns.saturating_add(lease_ns)),
        None => (ask.called_ns, ask.called_ns.saturating_add(ask.wait_ns()?).saturating_add(lease_ns)),
    };
    let between = (from_ns, grant.handed_over_ns);
    let mut faults = record.faults.iter();
    let is_late = grant.handed_over_ns > limit_ns && !faults.any(|fault| fault.paused(ask.client, between));
    is_late.then_some(limit_ns)
}

fn late(record: &Record, grant: &Grant, lock: &str, limit_ns: u64) -> Anomaly {
    let ask = record.acquire_of(grant);
    let (from, wait) = match (grant.sent_ns(), ask.wait_ns()) {
        (Some(sent_ns), _) => (format!("sent at {}", ms(sent_ns)), String::new()),
        (None, wait_ns) => (
            format!("called at {}", ms(ask.called_ns)),
            format!(" after a wait of at most {}", ms(wait_ns.unwrap_or(0))),
        ),
    };
    Anomaly {
        what: "late-grant".to_owned(),
        lock: lock.to_owned(),
        from_ns: limit_ns,
        to_ns: grant.handed_over_ns,
        grants: vec![record.name_of(grant).to_owned()],
        after: String::new(),
        proof: format!(
            "{} was granted at {}, {from}: its lease{wait} had run out at {}, and its client was not paused in between",
            described(record, grant),
            ms(grant.handed_over_ns),
            ms(limit_ns)
        ),
    }
}

/// For each grant, the end of the hold that may be re-entered: its contract interval, not cut by a release
/// that was answered `failed`, `unknown` or nothing. It only excuses, so that a re-entry that started before
/// the deadline renews here: it may have.
pub(crate) fn still_held_until(record: &Record, drift: f64) -> Vec<u64> {
    let believed_ns = |index: usize| belief::end_ns(record, &record.grants[index]);
    let deadlines = deadlines(record, drift, |grant| record.lease_from_ns(grant), believed_ns);
    let until = |(grant, deadline_ns): (&Grant, u64)| {
        let released = record
            .releases(grant)
            .filter(|release| matches!(release.ending, OperationEnd::Ok | OperationEnd::NotHeld));
        released
            .map(|release| release.called_ns)
            .chain([deadline_ns, belief::end_unless_released_ns(record, grant)])
            .min()
            .unwrap_or(deadline_ns)
    };
    record.grants.iter().zip(deadlines).map(until).collect()
}
