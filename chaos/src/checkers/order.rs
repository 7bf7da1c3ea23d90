//! Figures of how long was waited, and anomalies where a kind promises an order.
//!
//! 1. A waiter is bypassed by a grant of its lock to another that was asked for half a second or more after
//!    the waiter asked and was given while the waiter still waited. A re-entry of the holder bypasses nobody.
//! 2. Half a second, since nobody can see from outside when a waiter reached the queue; an ask that waits is
//!    in it by then.
//! 3. Clients of different clocks whose moments are too close to have an order bypass nobody for certain:
//!    that is a doubt.
//! 4. It violates only if both asked for a kind that promises order, and no fault touched either, nor were
//!    the servers down, from the waiter's call to the grant.

use results::verdict::Anomaly;

use super::exclusion::described;
use super::{Finding, belief};
use crate::checkers::record::faults::ClientFaults;
use crate::checkers::record::holds::{AcquireCall, Grant, OperationEnd, Record, ms};

/// By then a waiter is in the queue.
const QUEUED_NS: u64 = 500_000_000;

/// A waiter and the grants that went before it though they were asked for after it.
pub(crate) struct OvertakenWaiter<'a> {
    pub(crate) waiter: &'a AcquireCall,
    pub(crate) by: Vec<&'a Grant>,
}

pub(crate) fn bypassed(record: &Record, lock: usize) -> Vec<OvertakenWaiter<'_>> {
    let over_ns = |ask: &AcquireCall| record.over_ns(ask).unwrap_or(u64::MAX);
    // An acquire that was over sooner is bypassed by nobody.
    let is_long = |ask: &&AcquireCall| over_ns(ask).saturating_sub(ask.called_ns) > QUEUED_NS;
    let mut asks = record.acquires(lock).filter(|ask| ask.promise.mode.is_some()).filter(is_long).peekable();
    if asks.peek().is_none() {
        return Vec::new();
    }
    let grants: Vec<&Grant> = record.held(lock).map(|(_, grant)| grant).collect();
    let mut waiting: Vec<OvertakenWaiter<'_>> = Vec::new();
    let mut done = Vec::new();
    for grant in &grants {
        let called_ns = record.acquire_of(grant).called_ns;
        let has_news = asks.peek().is_some_and(|ask| ask.called_ns < grant.returned_ns);
        if (waiting.is_empty() && !has_news) || re_enters(record, &grants, grant) {
            continue;
        }
        while let Some(waiter) = asks.next_if(|ask| ask.called_ns < grant.returned_ns) {
            waiting.push(OvertakenWaiter { waiter, by: Vec::new() });
        }
        for mut waiter in std::mem::take(&mut waiting) {
            let ask = waiter.waiter;
            if over_ns(ask) <= grant.returned_ns {
                done.extend((!waiter.by.is_empty()).then_some(waiter));
                continue;
            }
            if ask.owner != grant.owner && ask.called_ns.saturating_add(QUEUED_NS) <= called_ns {
                waiter.by.push(grant);
            }
            waiting.push(waiter);
        }
    }
    done.extend(waiting.into_iter().filter(|waiter| !waiter.by.is_empty()));
    done
}

/// Whether a grant was asked for while its owner believed that it held.
fn re_enters(record: &Record, by_return: &[&Grant], grant: &Grant) -> bool {
    let called_ns = record.acquire_of(grant).called_ns;
    let before = by_return.partition_point(|other| other.returned_ns < called_ns);
    // A holder that nests is among the last grants; looking at a few is enough and keeps this linear.
    by_return.iter().take(before).rev().take(16).any(|other| {
        other.owner == grant.owner && other.promise.nests() && belief::end_ns(record, other) >= called_ns
    })
}

/// Adds the bypasses of one lock that break a promise.
pub(crate) fn broken(record: &Record, lock: usize, touches: &ClientFaults, finding: &mut Finding) {
    for bypassed in bypassed(record, lock) {
        let waiter = bypassed.waiter;
        if !waiter.promise.ordered || waiter.ending == OperationEnd::Unknown {
            continue;
        }
        let undisturbed = |grant: &Grant| {
            let span = (waiter.called_ns, grant.returned_ns.saturating_add(1));
            let quiet = |client| touches.spans(client).within(span).next().is_none();
            grant.promise.ordered
                && !grant.unknown
                && quiet(waiter.client)
                && quiet(record.acquire_of(grant).client)
                && touches.down().within(span).next().is_none()
        };
        let by: Vec<&Grant> = bypassed.by.into_iter().filter(|grant| undisturbed(grant)).collect();
        let sure = |grant: &&Grant| {
            let ask = record.acquire_of(grant);
            let queued = (waiter.client, waiter.called_ns.saturating_add(QUEUED_NS));
            let over = (waiter.client, record.over_ns(waiter).unwrap_or(u64::MAX));
            record.clocks.are_ordered(queued, (ask.client, ask.called_ns))
                && (record.clocks).are_ordered(over, (ask.client, grant.returned_ns))
        };
        let (by, doubtful): (Vec<&Grant>, Vec<&Grant>) = by.into_iter().partition(sure);
        if !doubtful.is_empty() {
            finding.doubt("who asked first is closer than the generators' clocks are known");
        }
        let (Some(first), Some(last)) = (by.first(), by.last()) else { continue };
        finding.add(Anomaly {
            what: "bypass".to_owned(),
            lock: record.locks.get(lock as u32).to_owned(),
            from_ns: waiter.called_ns,
            to_ns: last.returned_ns,
            grants: by
                .iter()
                .take(20)
                .map(|grant| record.name_of(grant).to_owned())
                .collect(),
            after: String::new(),
            proof: format!(
                "{} waited in a {} lock from {}; {} asked at {} and was granted at {} before it, {} grants in all",
                record.owners.get(waiter.owner),
                record.kinds.get(waiter.kind),
                ms(waiter.called_ns),
                described(record, first),
                ms(record.acquire_of(first).called_ns),
                ms(first.returned_ns),
                by.len()
            ),
        });
    }
}
