//! Finds the stretches in which a free lock was refused.
//!
//! 1. A grant is possible until the earliest of: its release answered `ok` or `not_held`; with a fixed lease,
//!    the return of its last ok or unknown acquire or extend, plus the lease; with a renewed one, a lease
//!    after its release was answered `failed` or `unknown`, after `lost`, or after its client died. One that
//!    was granted for less than was asked for may have claimed the rest before it was lost, if a fault
//!    touched its client: that is until a lease after.
//!    A power cut, or a replica that is put in its master's place, may undo a release that was answered: then
//!    the grant is possible until its lease ends.
//! 2. An acquire in flight is a possible hold only while a fault touches its client; unanswered, until the
//!    heal + lease. An unknown one is until the later of its answer and the heal, + lease. A killed client's
//!    is until its death + lease, and in a line for 5 s at least. One that a fault touched and that goes on
//!    beyond its wait is one until its answer: it waits for what that fault has lost, and no more for the
//!    lock. So is one that was refused a place in a line, until the heal, for 5 s at most: its leaving is
//!    lost, too. What is asked for while no request reaches a majority of the masters is no hold until that
//!    is over.
//! 3. A call of several locks may hold some of them while it waits for another that is held.
//! 4. A client asks while an acquire of its is in flight, no fault touches it and the servers answer the
//!    probe. It goes on asking from a refusal to its next try, if that comes soon: some locks refuse at once,
//!    whatever wait they are given.
//! 5. Between two grants, while none is possible: asking for more than the grace in sum means that the lock
//!    is stuck.
//! 6. Of a history from several clocks each end of a stretch is off by both uncertainties: what the sum is
//!    beyond the grace for certain is a violation, and what it may be beyond it a doubt.
//! 7. A call without an answer 10 s beyond its wait, and 10 s after every fault that touches its client had
//!    healed and the servers took the probe, never returns: that is a violation, whatever touched its client
//!    before. Where the faults had not healed for so long it is a doubt. A client that died is excused.
//! 8. Starvation and bypasses violate kinds that promise order, and are nothing against the others.

use hashbrown::HashMap;
use results::verdict::Anomaly;

use super::{CheckOptions, Finding, order};
use crate::checkers::record::faults::{self, ClientFaults, Fault, TouchesByLock};
use crate::checkers::record::holds::{AcquireCall, Grant, OperationEnd, Record, Step, StepKind, ms};
use crate::checkers::record::spans::{Span, Spans, partition_near};
use crate::scenario::nanoseconds;

/// Two tries of one owner with no more than this between them are one asking.
const POLL_NS: u64 = 250_000_000;

/// For so long at most a line serves one who has left it unheard: its place lasts 3 s, and a call 2 s.
const CALLED_NS: u64 = 5_000_000_000;

/// The faults of servers after which one may not know of a release that was answered.
const UNDO_RELEASES: [&str; 3] = ["power-cut", "promote", "takeover"];

/// A call that has no answer for so long beyond its wait never returns.
const RETURNS_WITHIN_NS: u64 = 10_000_000_000;

/// Nobody can say whether a lock stood still for longer than the grace.
const UNKNOWN: &str = "how long the lock was free and asked for is known to the generators' clocks only, and that may be longer than the grace";

/// What was the deployment's or the load's doing, not the lock's.
pub(crate) fn notes(record: &Record) -> Vec<String> {
    down_time(record).into_iter().chain(short_waits(record)).collect()
}

/// ` and 3 other locks` behind the name of one of so many.
fn and_others(locks: usize) -> String {
    match locks - 1 {
        0 => String::new(),
        others => format!(" and {others} other locks"),
    }
}

fn down_time(record: &Record) -> Option<String> {
    let down = record.probes.iter().filter_map(|(lock, probes)| {
        let here: Spans = faults::refused(probes).within((0, record.end_ns)).collect();
        (!here.is_empty()).then(|| (here.length(), record.locks.get(*lock)))
    });
    let down: Vec<(u64, &str)> = down.collect();
    // All locks have one probe.
    let (ns, lock) = down.iter().copied().max_by_key(|(ns, _)| *ns)?;
    Some(format!(
        "the servers did not take the probe of {lock}{} for {} in all: that is not counted against the lock",
        and_others(down.len()),
        ms(ns)
    ))
}

/// Acquires whose wait is over before any answer can come: each may have taken the lock, and leaves an undo.
fn short_waits(record: &Record) -> Option<String> {
    let took = |(called_ns, returned_ns): (u64, Option<u64>)| Some(returned_ns?.saturating_sub(called_ns));
    let short = (0..record.locks.len()).filter_map(|lock| {
        let all = record.acquires(lock).count();
        let unknown = || record.acquires(lock).filter(|ask| ask.ending == OperationEnd::Unknown);
        // Mostly there are few, and nobody need go through all answers.
        if 2 * unknown().count() <= all {
            return None;
        }
        let answers = record.held(lock).flat_map(|(_, grant)| {
            let ask = record.acquire_of(grant);
            let own = record.steps(grant).filter(|step| step.kind != StepKind::Renewal);
            own.map(|step| (step.called_ns, step.returned_ns())).chain([(ask.called_ns, ask.returned_ns())])
        });
        // Where nothing was ever answered a fault may be the reason.
        let round_trip_ns = match answers.filter_map(took).min() {
            None if record.faults.is_empty() => u64::MAX,
            quickest_ns => quickest_ns?,
        };
        let is_short = |ask: &&AcquireCall| {
            let ran_out = |wait_ns| took((ask.called_ns, ask.returned_ns())) >= Some(wait_ns);
            ask.wait_ns().filter(|wait_ns| *wait_ns < round_trip_ns).is_some_and(ran_out)
        };
        let unknown = unknown().filter(is_short).count();
        (2 * unknown > all).then(|| (unknown, all, record.locks.get(lock as u32)))
    });
    let short: Vec<_> = short.collect();
    let (unknown, all, lock) = short.iter().max()?;
    Some(format!(
        "{unknown} of {all} acquires of {lock}{} ended unknown with waits that are shorter than a round trip: each may have taken the lock, and its library has to undo it; wait longer",
        and_others(short.len())
    ))
}

/// One finding per lock.
pub fn check(record: &Record, options: &CheckOptions<'_>) -> Vec<Finding> {
    let touches = TouchesByLock::of(record, &options.masters);
    let held: Vec<Spans> =
        (0..record.locks.len()).map(|lock| held(record, touches.get(lock as u32), lock)).collect();
    let partial = partial(record, &held);
    let asking = asking(record, &touches, &held);
    let grace_ns = nanoseconds(options.grace);
    let stretches = held.iter().zip(partial).zip(asking);
    let mut findings = vec![Finding::default(); record.locks.len()];
    for (lock, ((held, partial), asking)) in stretches.enumerate() {
        let finding = &mut findings[lock];
        stuck(record, lock, &held.union(&partial), &asking, grace_ns, finding);
        order::broken(record, lock, touches.get(lock as u32), finding);
        if record.clocks.off_ns() > 0 && record.clocks.off_ns().saturating_mul(2) >= grace_ns {
            finding.doubt(UNKNOWN);
        }
    }
    unreturned(record, &touches, &mut findings);
    findings
}

/// Adds the calls that never return.
fn unreturned(record: &Record, touches: &TouchesByLock, findings: &mut [Finding]) {
    let asks = record.acquires.iter().filter_map(|ask| {
        let bound_ns = ask.called_ns.saturating_add(ask.wait_ns()?);
        Some((ask, "acquire", ask.called_ns, bound_ns, record.over_ns(ask)))
    });
    let steps = record.grants.iter().flat_map(|grant| {
        let own = record.steps(grant).filter(|step| step.kind != StepKind::Renewal);
        own.map(move |step| {
            let what = match step.kind {
                StepKind::Release => "release",
                _ => "extend",
            };
            let over_ns = step.returned_ns().or_else(|| record.died_ns(grant));
            (record.acquire_of(grant), what, step.called_ns, step.called_ns, over_ns)
        })
    });
    let late = |bound_ns: u64, over_ns: Option<u64>| {
        over_ns.unwrap_or(record.end_ns) > bound_ns.saturating_add(RETURNS_WITHIN_NS)
    };
    let mut calls = asks.chain(steps).filter(|(.., bound_ns, over_ns)| late(*bound_ns, *over_ns)).peekable();
    if calls.peek().is_none() {
        return;
    }
    for (ask, what, called_ns, bound_ns, over_ns) in calls {
        let over_ns = over_ns.unwrap_or(record.end_ns);
        // One that stands still to the end is not alive.
        if record.faults.iter().any(|fault| fault.paused(ask.client, (over_ns, over_ns))) {
            continue;
        }
        let owner = record.owners.get(ask.owner);
        for lock in record.locks_of(ask) {
            let finding = &mut findings[*lock as usize];
            let touches = touches.get(*lock);
            let healed_ns = touches.last_heal_ns(ask.client, (0, over_ns)).unwrap_or(0);
            let up_ns = touches.down().within((0, over_ns)).last().map_or(0, |(_, up_ns)| up_ns);
            let from_ns = bound_ns.max(healed_ns).max(up_ns);
            if !late(from_ns, Some(over_ns)) {
                finding.doubt(&format!(
                    "a call had no answer 10 s beyond its wait, and the faults had not healed for so long: {what} of {owner} at {}",
                    ms(called_ns)
                ));
                continue;
            }
            finding.add(Anomaly {
                what: "no-return".to_owned(),
                lock: record.locks.get(*lock).to_owned(),
                from_ns,
                to_ns: over_ns,
                grants: Vec::new(),
                after: String::new(),
                proof: format!(
                    "a call that never returns: {what} of {owner}, called at {}, was due by {} and had no answer {} later, with all faults healed and its client alive",
                    ms(called_ns),
                    ms(from_ns),
                    ms(over_ns - from_ns)
                ),
            });
        }
    }
}

fn lease_ns(record: &Record, ask: &AcquireCall) -> u64 {
    let renewed = || record.renewal_ns(ask.client);
    ask.lease_ns().unwrap_or_else(renewed)
}

/// When a hold of a lock was possible by the answers given.
fn held(record: &Record, touches: &ClientFaults, lock: usize) -> Spans {
    let grants = &record.grants_of[lock];
    // The nesting grants by owner, in order of their returns.
    let mut nesting: Vec<(u32, u32)> = grants
        .iter()
        .map(|index| (record.grants[*index as usize].owner, *index))
        .filter(|(_, index)| record.grants[*index as usize].promise.nests())
        .collect();
    nesting.sort_unstable();
    let possible_span = |index: u32, after: usize| {
        let grant = &record.grants[index as usize];
        if !grant.held || grant.promise.mode.is_none() {
            return None;
        }
        let later = nesting[after..].iter();
        let later = later
            .take_while(|(owner, _)| *owner == grant.owner)
            .map(|(_, index)| &record.grants[*index as usize]);
        Some((grant.sent_ns().unwrap_or(grant.returned_ns), until_ns(record, touches, grant, later)))
    };
    let mut possible: Vec<Span> = Vec::with_capacity(grants.len());
    possible.extend((1..).zip(&nesting).filter_map(|(after, (_, index))| possible_span(*index, after)));
    if nesting.len() < grants.len() {
        let others = grants.iter().filter(|index| !record.grants[**index as usize].promise.nests());
        possible.extend(others.filter_map(|index| {
            let owner = record.grants[*index as usize].owner;
            possible_span(*index, nesting.partition_point(|other| *other <= (owner, *index)))
        }));
    }
    for ask in record.acquires(lock) {
        let before = possible.len();
        in_flight(record, touches, ask, &mut possible);
        let mute = touches.mute(ask.client);
        if mute.contains(ask.called_ns) {
            let can = possible.split_off(before);
            possible.extend(can.into_iter().flat_map(|span| mute.outside(span)));
        }
    }
    possible.into_iter().collect()
}

/// Until when a grant is possible; `u64::MAX`: to the end. `nested`: its owner's later nesting grants.
fn until_ns<'a>(
    record: &'a Record,
    touches: &ClientFaults,
    grant: &Grant,
    nested: impl Iterator<Item = &'a Grant>,
) -> u64 {
    let ask = record.acquire_of(grant);
    let given_back = |step: &&Step| matches!(step.ending, OperationEnd::Ok | OperationEnd::NotHeld);
    let released_ns = record
        .releases(grant)
        .filter(given_back)
        .filter_map(|release| release.returned_ns())
        .min()
        .unwrap_or(u64::MAX);
    let Some(fixed_ns) = ask.lease_ns() else {
        let lease_ns = record.renewal_ns(ask.client);
        let doubtful = record
            .releases(grant)
            .filter(|step| !given_back(step))
            .map(|step| answered_ns(touches, ask.client, step));
        let told = doubtful.chain(grant.lost_ns()).chain(record.died_ns(grant)).min();
        let released_ns = until_release_ns(record, released_ns, released_ns.saturating_add(lease_ns));
        return released_ns.min(told.map_or(u64::MAX, |lost_ns| lost_ns.saturating_add(lease_ns)));
    };
    let mut until_ns = grant.returned_ns.saturating_add(fixed_ns);
    let extends = record
        .extends(grant)
        .filter(|step| matches!(step.ending, OperationEnd::Ok | OperationEnd::Unknown | OperationEnd::Open))
        .map(|step| (answered_ns(touches, ask.client, step), step.lease_ns));
    for (returned_ns, lease_ns) in extends {
        until_ns = until_ns.max(returned_ns.saturating_add(lease_ns));
    }
    // A claim whose answer came too late, or never, is made until one is answered in time.
    let is_claimed = |step: &Step| step.kind == StepKind::Renewal && step.ending == OperationEnd::Ok;
    if let Some(claimed_ns) = ask.claimed_ns()
        && !record.steps(grant).any(is_claimed)
    {
        let last_ns = grant.lost_ns().unwrap_or(u64::MAX).min(until_ns);
        if touches.in_flight(ask.client).within((grant.returned_ns, last_ns)).next().is_some() {
            until_ns = until_ns.max(last_ns.saturating_add(claimed_ns));
        }
    }
    // A re-entry, and giving one back, set the key's lease anew: the outer grant lives on it.
    for other in nested {
        if other.returned_ns > until_ns.min(released_ns) {
            break;
        }
        let lease_ns = lease_ns(record, record.acquire_of(other));
        let steps = record.steps(other);
        let renewed = steps.filter(|step| matches!(step.ending, OperationEnd::Ok | OperationEnd::Unknown));
        for returned_ns in renewed.filter_map(|step| step.returned_ns()).chain([other.returned_ns]) {
            until_ns = until_ns.max(returned_ns.saturating_add(lease_ns));
        }
    }
    until_release_ns(record, released_ns, until_ns)
}

/// When a release has ended a hold whose lease ends then: with its answer, unless a fault may undo it.
fn until_release_ns(record: &Record, released_ns: u64, lease_end_ns: u64) -> u64 {
    let may_undo = |fault: &Fault| {
        fault.everybody
            && UNDO_RELEASES.contains(&fault.fault.as_str())
            && fault.injected_ns <= lease_end_ns
            && fault.healed_ns.is_none_or(|healed_ns| released_ns <= healed_ns)
    };
    if record.faults.iter().any(may_undo) { lease_end_ns } else { released_ns.min(lease_end_ns) }
}

/// When a step took effect at the latest: its answer, else the last heal of what touched it, or its call.
fn answered_ns(touches: &ClientFaults, client: u32, step: &Step) -> u64 {
    step.returned_ns().unwrap_or_else(|| {
        touches.last_heal_ns(client, (step.called_ns, u64::MAX)).unwrap_or(step.called_ns).max(step.called_ns)
    })
}

/// When an acquire that is not granted, or not yet, may hold all the same.
fn in_flight(record: &Record, touches: &ClientFaults, ask: &AcquireCall, spans: &mut Vec<Span>) {
    let end_ns = record.over_ns(ask).unwrap_or(u64::MAX);
    let flight = (ask.called_ns, end_ns);
    spans.extend(touches.in_flight(ask.client).within(flight));
    let touched = touches.in_flight(ask.client).within(flight).next();
    if let (Some(_), Some(wait_ns), OperationEnd::Ok | OperationEnd::Unknown) =
        (touched, ask.wait_ns(), ask.ending)
    {
        let late_ns = ask.called_ns.saturating_add(wait_ns);
        spans.extend((late_ns < end_ns).then_some((late_ns, end_ns)));
    }
    let lease_ns = lease_ns(record, ask);
    let dead_ns = if ask.promise.ordered { lease_ns.max(CALLED_NS) } else { lease_ns };
    let heal_ns = touches.last_heal_ns(ask.client, flight);
    match ask.ending {
        OperationEnd::Unknown => {
            // Given back for certain after it was proven: the grant's own rule says until when.
            let proven = record.grant_of(ask);
            if !proven.is_some_and(|grant| grant.held) {
                let last_ns = end_ns.max(heal_ns.unwrap_or(0));
                spans.push((end_ns, last_ns.saturating_add(lease_ns)));
                // It ended with its client, and left its place there.
                let ended_with_it =
                    |died_ns: &u64| ask.promise.ordered && died_ns.saturating_sub(end_ns) < POLL_NS;
                let died_ns = record.death_since(ask.client, ask.called_ns);
                let died_ns = died_ns.filter(ended_with_it);
                spans.extend(died_ns.map(|died_ns| (end_ns, died_ns.saturating_add(dead_ns))));
            }
        }
        OperationEnd::Open => {
            if let Some(heal_ns) = heal_ns {
                let from_ns = touched.map_or(ask.called_ns, |span| span.0);
                // A dead client's faults matter no more.
                let heal_ns = heal_ns.min(end_ns);
                spans.push((from_ns, heal_ns.saturating_add(lease_ns)));
            }
            if let Some(died_ns) = record.caller_died_ns(ask) {
                spans.push((died_ns, died_ns.saturating_add(dead_ns)));
            }
        }
        // Its place may be called until the servers hear that it has left.
        OperationEnd::Busy if ask.promise.ordered => {
            let unheard = (end_ns, end_ns.saturating_add(CALLED_NS));
            let touched = touches.in_flight(ask.client).within(unheard).next();
            spans.extend(touched.filter(|span| span.0 == end_ns));
        }
        _ => {}
    }
}

fn flight(record: &Record, ask: &AcquireCall) -> Span {
    (ask.called_ns, record.over_ns(ask).unwrap_or(record.end_ns))
}

/// When a call of several locks may hold a lock while it waits for another.
fn partial(record: &Record, held: &[Spans]) -> Vec<Spans> {
    let mut partial: Vec<Vec<Span>> = vec![Vec::new(); held.len()];
    for ask in &record.acquires {
        let locks = record.locks_of(ask);
        for lock in locks.iter().filter(|_| locks.len() > 1) {
            let others = locks.iter().filter(|other| *other != lock);
            let waits = others.flat_map(|other| held[*other as usize].within(flight(record, ask)));
            partial[*lock as usize].extend(waits);
        }
    }
    partial.into_iter().map(Spans::from_iter).collect()
}

/// When somebody untouched asked for each lock while the servers were up.
fn asking(record: &Record, touches: &TouchesByLock, held: &[Spans]) -> Vec<Spans> {
    let mut asking: Vec<Vec<Span>> = vec![Vec::new(); held.len()];
    let mut last_try: HashMap<(u32, u32), u64> = HashMap::new();
    for ask in record.acquires.iter().filter(|ask| ask.promise.mode.is_some()) {
        let locks = record.locks_of(ask);
        for lock in locks {
            let (mut from_ns, to_ns) = flight(record, ask);
            if let Some(tried_ns) = last_try.remove(&(*lock, ask.owner))
                && from_ns.saturating_sub(tried_ns) <= POLL_NS
            {
                from_ns = from_ns.min(tried_ns);
            }
            if ask.ending.is_refusal() {
                last_try.insert((*lock, ask.owner), to_ns);
            }
            let away = touches.get(*lock).away(ask.client);
            let spans = &mut asking[*lock as usize];
            if locks.len() == 1 {
                spans.extend(away.outside((from_ns, to_ns)));
                continue;
            }
            let others = locks.iter().filter(|other| *other != lock);
            let waits = others.flat_map(|other| held[*other as usize].within((from_ns, to_ns)));
            let away: Spans = away.iter().chain(waits).collect();
            spans.extend(away.outside((from_ns, to_ns)));
        }
    }
    asking.into_iter().map(Spans::from_iter).collect()
}

/// Adds the stretches of one lock in which it was free, asked for, and not granted.
fn stuck(
    record: &Record,
    lock: usize,
    possible: &Spans,
    asking: &Spans,
    grace_ns: u64,
    finding: &mut Finding,
) {
    let grants: Vec<u64> = record.held(lock).map(|(_, grant)| grant.returned_ns).collect();
    let (mut first, mut place) = (0, 0);
    for (from_ns, to_ns) in possible.outside((0, record.end_ns)) {
        first = partition_near(&grants, first, |granted_ns| *granted_ns <= from_ns);
        let cuts = grants[first..].iter().copied().take_while(|granted_ns| *granted_ns < to_ns);
        let mut at_ns = from_ns;
        for cut_ns in cuts.chain([to_ns]) {
            let asked = asking.within_near(&mut place, (at_ns, cut_ns));
            let (sum_ns, ends) = asked
                .fold((0_u64, 0), |(sum_ns, ends), (from_ns, to_ns)| (sum_ns + (to_ns - from_ns), ends + 2));
            let off_ns = record.clocks.off_ns().saturating_mul(ends);
            if off_ns > 0 && sum_ns.abs_diff(grace_ns) <= off_ns {
                finding.doubt(UNKNOWN);
            } else if sum_ns > grace_ns {
                let asked: Spans = asking.within((at_ns, cut_ns)).collect();
                finding.add(describe(record, lock, &asked, sum_ns, at_ns));
            }
            at_ns = cut_ns;
        }
    }
}

fn describe(record: &Record, lock: usize, asked: &Spans, sum_ns: u64, free_ns: u64) -> Anomaly {
    let from_ns = asked.iter().next().map_or(free_ns, |span| span.0);
    let to_ns = asked.iter().last().map_or(free_ns, |span| span.1);
    let mut owners: Vec<&str> = record
        .acquires(lock)
        .filter(|ask| {
            let (called_ns, ended_ns) = flight(record, ask);
            called_ns < to_ns && ended_ns > from_ns
        })
        .map(|ask| record.owners.get(ask.owner))
        .collect();
    owners.sort_unstable();
    owners.dedup();
    let before = record.held(lock).filter(|(_, grant)| grant.returned_ns <= from_ns);
    let last = before.max_by_key(|(_, grant)| grant.returned_ns);
    Anomaly {
        what: "stuck".to_owned(),
        lock: record.locks.get(lock as u32).to_owned(),
        from_ns,
        to_ns,
        grants: last.iter().map(|(_, grant)| record.name_of(grant).to_owned()).collect(),
        after: String::new(),
        proof: format!(
            "free by every answer given since {}, it was asked for by {} for {} in sum from {} to {}, and nobody was granted{}",
            ms(free_ns),
            owners.join(", "),
            ms(sum_ns),
            ms(from_ns),
            ms(to_ns),
            last.map_or(String::new(), |(_, grant)| format!(
                "; the last grant was {}",
                record.name_of(grant)
            ))
        ),
    }
}
