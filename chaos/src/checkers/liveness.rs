//! Finds the stretches in which a free lock was refused.
//!
//! 1. A grant is possible until the earliest of: its release answered `ok` or `not_held`; with a fixed lease, the return of
//!    its last ok or unknown acquire or extend, plus the lease; with a renewed one, a lease after its release was answered
//!    `failed` or `unknown`, after `lost`, or after its client died.
//! 2. An acquire in flight is a possible hold only while a fault touches its client; unanswered, until the heal + lease. An
//!    unknown one is until the later of its answer and the heal, + lease. A killed client's is until its death + lease.
//! 3. A call of several locks may hold some of them while it waits for another that is held.
//! 4. A client asks while an acquire of its is in flight, no fault touches it and the servers answer the probe. Single
//!    tries one after the other are asking too.
//! 5. Between two grants, while none is possible: asking for more than the grace in sum means that the lock is stuck.
//! 6. Starvation and bypasses violate kinds that promise order, and are figures for the others.

use std::collections::HashMap;

use results::verdict::Anomaly;

use super::exclusion::ms;
use super::faults::{self, Touches};
use super::holds::{Answer, Ask, Ending, Grant, Record, Step};
use super::spans::{Span, Spans};
use super::{CheckOptions, Finding, order};

/// Two single tries of one owner with no more than this between them are one asking.
const POLL_NS: u64 = 250_000_000;

/// How long askers of one lock waited, and how often they were passed over. These violate nothing by themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Figures {
    /// Grants of the lock.
    pub grants: u64,
    /// The longest wait that ended in a grant.
    pub longest_wait_ns: u64,
    /// Grants that went before a waiter that had asked half a second earlier or more.
    pub bypasses: u64,
    /// The most of them that one waiter saw.
    pub bypasses_of_one: u64,
}

/// Figures lock by lock.
pub(crate) fn figures(record: &Record) -> std::collections::BTreeMap<String, Figures> {
    let of = |lock: usize| {
        let mut figures = Figures::default();
        for (_, grant) in record.held(lock) {
            figures.grants += 1;
            let wait_ns = grant.returned_ns - grant.called_ns;
            figures.longest_wait_ns = figures.longest_wait_ns.max(wait_ns);
        }
        for bypassed in order::bypassed(record, lock) {
            let bypasses = bypassed.by.len() as u64;
            figures.bypasses += bypasses;
            figures.bypasses_of_one = figures.bypasses_of_one.max(bypasses);
        }
        figures
    };
    let locks = record.locks.iter().enumerate();
    locks.map(|(lock, name)| (name.clone(), of(lock))).collect()
}

/// Down-time of the servers: the deployment's, not the lock's.
pub(crate) fn notes(record: &Record) -> Vec<String> {
    let mut notes = Vec::new();
    for (lock, name) in record.locks.iter().enumerate() {
        let down = faults::down(record, lock);
        let here: Spans = down.within((0, record.end_ns)).collect();
        if !here.is_empty() {
            notes.push(format!(
                "the servers did not take the probe of {name} for {} in all: that is not counted against the lock",
                ms(here.length())
            ));
        }
    }
    notes
}

/// One finding per lock.
pub fn check(record: &Record, options: &CheckOptions<'_>) -> Vec<Finding> {
    let touches: Vec<Touches> = (0..record.locks.len())
        .map(|lock| Touches::of(record, lock))
        .collect();
    let held = held(record, &touches);
    let possible = with_partial(record, &held);
    let asking = asking(record, &touches, &held);
    let grace_ns = u64::try_from(options.grace.as_nanos()).unwrap_or(u64::MAX);
    let mut findings = vec![Finding::default(); record.locks.len()];
    for (lock, finding) in findings.iter_mut().enumerate() {
        let (Some(touches), Some(possible), Some(asking)) =
            (touches.get(lock), possible.get(lock), asking.get(lock))
        else {
            continue;
        };
        stuck(record, lock, possible, asking, grace_ns, finding);
        order::broken(record, lock, touches, finding);
    }
    findings
}

fn lease_ns(record: &Record, client: u32, lease_ns: Option<u64>) -> u64 {
    lease_ns.unwrap_or_else(|| record.renewal_ns(client))
}

/// When a hold was possible by the answers given, lock by lock.
fn held(record: &Record, touches: &[Touches]) -> Vec<Spans> {
    let mut possible: Vec<Vec<Span>> = vec![Vec::new(); record.locks.len()];
    let siblings = siblings(record);
    for (index, grant) in (0u32..).zip(&record.grants).filter(|(_, grant)| grant.held) {
        if grant.promise.mode.is_none() {
            continue;
        }
        for lock in &grant.locks {
            let (Some(spans), Some(touches)) = (
                possible.get_mut(*lock as usize),
                touches.get(*lock as usize),
            ) else {
                continue;
            };
            let from_ns = grant.sent_ns.unwrap_or(grant.returned_ns);
            let nested = siblings
                .get(&(*lock, grant.owner))
                .map_or(&[][..], Vec::as_slice);
            spans.push((from_ns, until_ns(record, touches, index, grant, nested)));
        }
    }
    for ask in &record.asks {
        for lock in &ask.locks {
            let (Some(spans), Some(touches)) = (
                possible.get_mut(*lock as usize),
                touches.get(*lock as usize),
            ) else {
                continue;
            };
            in_flight(record, touches, ask, spans);
        }
    }
    possible.into_iter().map(Spans::from_iter).collect()
}

/// The nesting grants of each lock and owner, in order of their returns.
fn siblings(record: &Record) -> HashMap<(u32, u32), Vec<u32>> {
    let mut siblings: HashMap<(u32, u32), Vec<u32>> = HashMap::new();
    for (index, grant) in (0u32..).zip(&record.grants) {
        if grant.promise.nests() {
            for lock in &grant.locks {
                siblings
                    .entry((*lock, grant.owner))
                    .or_default()
                    .push(index);
            }
        }
    }
    siblings
}

/// Until when a grant is possible; `u64::MAX`: to the end.
fn until_ns(record: &Record, touches: &Touches, index: u32, grant: &Grant, nested: &[u32]) -> u64 {
    let given_back = |step: &&Step| matches!(step.ending, Ending::Ok | Ending::NotHeld);
    let released_ns = grant
        .releases
        .iter()
        .filter(given_back)
        .filter_map(|release| release.returned_ns)
        .min()
        .unwrap_or(u64::MAX);
    let Some(fixed_ns) = grant.lease_ns else {
        let lease_ns = record.renewal_ns(grant.client);
        let doubtful = grant
            .releases
            .iter()
            .filter(|step| !given_back(step))
            .map(|step| answered_ns(touches, grant.client, step));
        let told = doubtful.chain(grant.lost_ns).chain(grant.died_ns).min();
        return released_ns.min(told.map_or(u64::MAX, |told_ns| told_ns.saturating_add(lease_ns)));
    };
    let mut until_ns = grant.returned_ns.saturating_add(fixed_ns);
    let extends = grant
        .extends
        .iter()
        .filter(|step| matches!(step.ending, Ending::Ok | Ending::Unknown | Ending::Open))
        .map(|step| (answered_ns(touches, grant.client, step), step.lease_ns));
    for (returned_ns, lease_ns) in extends {
        until_ns = until_ns.max(returned_ns.saturating_add(lease_ns));
    }
    // A re-entry, and giving one back, set the key's lease anew: the outer grant lives on it.
    let first = nested.partition_point(|other| *other <= index);
    for other in nested
        .iter()
        .skip(first)
        .filter_map(|other| record.grants.get(*other as usize))
    {
        if other.returned_ns > until_ns.min(released_ns) {
            break;
        }
        let lease_ns = lease_ns(record, other.client, other.lease_ns);
        let steps = other.extends.iter().chain(&other.releases);
        let renewed = steps.filter(|step| matches!(step.ending, Ending::Ok | Ending::Unknown));
        for returned_ns in renewed
            .filter_map(|step| step.returned_ns)
            .chain([other.returned_ns])
        {
            until_ns = until_ns.max(returned_ns.saturating_add(lease_ns));
        }
    }
    released_ns.min(until_ns)
}

/// When a step took effect at the latest: its answer; without one the last heal of what touched it, else its call.
fn answered_ns(touches: &Touches, client: u32, step: &Step) -> u64 {
    step.returned_ns.unwrap_or_else(|| {
        let heal_ns = touches.last_heal_ns(client, (step.called_ns, u64::MAX));
        heal_ns.unwrap_or(step.called_ns).max(step.called_ns)
    })
}

/// When an acquire that is not granted, or not yet, may hold all the same.
fn in_flight(record: &Record, touches: &Touches, ask: &Ask, spans: &mut Vec<Span>) {
    let lease_ns = lease_ns(record, ask.client, ask.lease_ns);
    let end_ns = ask.returned_ns.or(ask.died_ns).unwrap_or(u64::MAX);
    let flight = (ask.called_ns, end_ns);
    spans.extend(touches.in_flight(ask.client).within(flight));
    let heal_ns = touches.last_heal_ns(ask.client, flight);
    match ask.answer {
        Answer::Unknown => {
            // Given back for certain after it was proven: the grant's own rule says until when.
            let proven = ask
                .grant
                .and_then(|grant| record.grants.get(grant as usize));
            if !proven.is_some_and(|grant| grant.held) {
                let last_ns = end_ns.max(heal_ns.unwrap_or(0));
                spans.push((end_ns, last_ns.saturating_add(lease_ns)));
            }
        }
        Answer::Open => {
            if let Some(heal_ns) = heal_ns {
                let from_ns = touches.in_flight(ask.client).within(flight).next();
                let from_ns = from_ns.map_or(ask.called_ns, |span| span.0);
                // A dead client's faults matter no more.
                let heal_ns = heal_ns.min(end_ns);
                spans.push((from_ns, heal_ns.saturating_add(lease_ns)));
            }
            if let Some(died_ns) = ask.died_ns {
                spans.push((died_ns, died_ns.saturating_add(lease_ns)));
            }
        }
        Answer::Ok | Answer::Refused => {}
    }
}

fn several(ask: &Ask) -> bool {
    ask.locks.len() > 1
}

fn flight(record: &Record, ask: &Ask) -> Span {
    let end_ns = ask.returned_ns.or(ask.died_ns);
    (ask.called_ns, end_ns.unwrap_or(record.end_ns))
}

/// Adds the locks that a call of several may hold while it waits for another.
fn with_partial(record: &Record, held: &[Spans]) -> Vec<Spans> {
    let mut partial: Vec<Vec<Span>> = vec![Vec::new(); held.len()];
    for ask in record.asks.iter().filter(|ask| several(ask)) {
        for lock in &ask.locks {
            let others = ask.locks.iter().filter(|other| *other != lock);
            let waits = others.filter_map(|other| held.get(*other as usize));
            if let Some(spans) = partial.get_mut(*lock as usize) {
                spans.extend(waits.flat_map(|other| other.within(flight(record, ask))));
            }
        }
    }
    held.iter()
        .zip(partial)
        .map(|(held, partial)| held.union(&partial.into_iter().collect()))
        .collect()
}

/// When somebody untouched asked for each lock while the servers were up.
fn asking(record: &Record, touches: &[Touches], held: &[Spans]) -> Vec<Spans> {
    let mut asking: Vec<Vec<Span>> = vec![Vec::new(); held.len()];
    let down: Vec<Spans> = (0..held.len())
        .map(|lock| faults::down(record, lock))
        .collect();
    let mut last_try: HashMap<(u32, u32), u64> = HashMap::new();
    for ask in record.asks.iter().filter(|ask| ask.promise.mode.is_some()) {
        for lock in &ask.locks {
            let place = *lock as usize;
            let (Some(spans), Some(touches), Some(down)) =
                (asking.get_mut(place), touches.get(place), down.get(place))
            else {
                continue;
            };
            let (mut from_ns, to_ns) = flight(record, ask);
            if let Some(tried_ns) = last_try.remove(&(*lock, ask.owner))
                && from_ns.saturating_sub(tried_ns) <= POLL_NS
            {
                from_ns = from_ns.min(tried_ns);
            }
            if ask.wait_ns == Some(0) && ask.answer == Answer::Refused {
                last_try.insert((*lock, ask.owner), to_ns);
            }
            let others = ask.locks.iter().filter(|other| *other != lock);
            let mut away = touches.spans(ask.client).union(down);
            for other in others.filter_map(|other| held.get(*other as usize)) {
                away = away.union(&other.within((from_ns, to_ns)).collect());
            }
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
    let grants: Vec<u64> = record
        .held(lock)
        .map(|(_, grant)| grant.returned_ns)
        .collect();
    for (from_ns, to_ns) in possible.outside((0, record.end_ns)) {
        let first = grants.partition_point(|granted_ns| *granted_ns <= from_ns);
        let cuts = grants
            .iter()
            .skip(first)
            .copied()
            .take_while(|granted_ns| *granted_ns < to_ns);
        let mut at_ns = from_ns;
        for cut_ns in cuts.chain([to_ns]) {
            let asked: Spans = asking.within((at_ns, cut_ns)).collect();
            let sum_ns = asked.length();
            if sum_ns > grace_ns {
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
        .asks(lock)
        .filter(|ask| {
            let (called_ns, ended_ns) = flight(record, ask);
            called_ns < to_ns && ended_ns > from_ns
        })
        .filter_map(|ask| record.owners.get(ask.owner as usize).map(String::as_str))
        .collect();
    owners.sort_unstable();
    owners.dedup();
    let before = record
        .held(lock)
        .filter(|(_, grant)| grant.returned_ns <= from_ns);
    let last = before.max_by_key(|(_, grant)| grant.returned_ns);
    Anomaly {
        what: "stuck".to_owned(),
        lock: record.locks.get(lock).cloned().unwrap_or_default(),
        from_ns,
        to_ns,
        grants: last.iter().map(|(_, grant)| grant.name.clone()).collect(),
        proof: format!(
            "free by every answer given since {}, it was asked for by {} for {} in sum from {} to {}, and nobody was granted{}",
            ms(free_ns),
            owners.join(", "),
            ms(sum_ns),
            ms(from_ns),
            ms(to_ns),
            last.map_or(String::new(), |(_, grant)| format!(
                "; the last grant was {}",
                grant.name
            ))
        ),
    }
}
