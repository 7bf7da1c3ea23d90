//! Finds damage: accepted writes that were lost, and fencing tokens out of order.
//!
//! 1. A lost update: an accepted write to the counter whose writer had read a smaller value than the one that
//!    the last accepted write of another hold left there. (A greater one means that a write is not on record:
//!    no damage is shown.)
//! 2. A stale write: an accepted write whose token is not greater than one already accepted from another
//!    hold.
//! 3. A token regression: a grant whose acquire was called after another hold of that lock was granted, with
//!    a token that is not greater.
//! 4. Tokens order exclusive holds of different owners. Nested and re-entered grants of one owner are one
//!    hold; an owner still holds while its contract interval, not cut by a release answered `failed`,
//!    `unknown` or nothing, includes the call. A re-entry keeps its token only while nobody else was granted
//!    the lock since the hold that it re-enters; once somebody was, its token is compared as any other, with
//!    older grants too.
//! 5. Shared grants, permits, and grants without a token are not ordered.

use std::collections::VecDeque;

use hashbrown::HashMap;
use results::verdict::Anomaly;

use super::exclusion::described;
use super::{CheckOptions, Finding, contract};
use crate::checkers::record::holds::{Accepted, Grant, Record, ms};

/// One finding per lock.
pub fn check(record: &Record, options: &CheckOptions<'_>) -> Vec<Finding> {
    let mut findings = vec![Finding::default(); record.locks.len()];
    let resource = |_| Resource { last: None, tokens: EarlierTokens::new() };
    let mut resources: Vec<Resource<'_>> = findings.iter().map(resource).collect();
    let mut before: Vec<Option<&Accepted>> = vec![None; findings.len()];
    for write in &record.writes {
        let lock = write.lock as usize;
        if let Some(last) = before[lock].replace(write)
            && !are_ordered(record, last, write)
        {
            no_order(&mut findings[lock], "writes");
        }
        resources[lock].lost_update(record, write, &mut findings[lock]);
        resources[lock].stale_write(record, write, &mut findings[lock]);
    }
    if record.grants.iter().all(|grant| grant.token.is_none()) {
        return findings;
    }
    let still_held = contract::still_held_until(record, options.drift);
    for (lock, finding) in findings.iter_mut().enumerate() {
        regressions(record, lock, &still_held, finding);
    }
    findings
}

/// Whose hold a write belongs to: an owner, or a grant that is not on record.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Writer {
    Owner(u32),
    Stranger(u32),
}

fn grant_of<'a>(record: &'a Record, write: &Accepted) -> Option<&'a Grant> {
    record.grants.get(write.grant? as usize)
}

fn writer(record: &Record, write: &Accepted) -> Writer {
    grant_of(record, write).map_or(Writer::Stranger(write.name), |grant| Writer::Owner(grant.owner))
}

/// The greatest number seen, and before it the greatest of anybody else.
struct GreatestByOwner<W, T>(Vec<(u64, W, T)>);

impl<W: Copy + PartialEq, T: Copy> GreatestByOwner<W, T> {
    fn add(&mut self, number: u64, who: W, what: T) {
        // The last one is the greatest; of equal ones the first seen stands.
        let own = self.0.iter().position(|(_, other, _)| *other == who);
        match own {
            Some(at) if number <= self.0[at].0 => return,
            Some(at) => drop(self.0.remove(at)),
            None => {}
        }
        let place = self.0.partition_point(|(other, ..)| *other < number);
        self.0.insert(place, (number, who, what));
        if self.0.len() > 2 {
            self.0.remove(0);
        }
    }

    fn of_others(&self, who: W) -> Option<(u64, W, T)> {
        self.0.iter().rev().find(|(_, other, _)| *other != who).copied()
    }
}

struct EarlierTokens<W, T> {
    /// Of those that did so on every clock.
    surely: GreatestByOwner<W, T>,
    /// The others, by time: a greatest among them would hide a lower one that surely came before.
    near: VecDeque<(u64, (u64, W, T))>,
}

impl<W: Copy + PartialEq, T: Copy> EarlierTokens<W, T> {
    fn new() -> Self {
        Self { surely: GreatestByOwner(Vec::new()), near: VecDeque::new() }
    }

    fn add(&mut self, t_ns: u64, token: u64, who: W, what: T) {
        self.near.push_back((t_ns, (token, who, what)));
    }

    /// The greatest token of others before `t_ns`, not less than `token`; `Err`: nobody knows of any.
    fn not_less(
        &mut self,
        record: &Record,
        t_ns: u64,
        (token, who): (u64, W),
        is_ordered: impl Fn(T) -> bool,
    ) -> Result<Option<(u64, T)>, ()> {
        let off_ns = record.clocks.off_ns().saturating_mul(2);
        while let Some((at_ns, (token, who, what))) = self.near.front().copied()
            && at_ns.saturating_add(off_ns) < t_ns
        {
            self.surely.add(token, who, what);
            self.near.pop_front();
        }
        let near = self.near.iter().map(|(_, one)| *one);
        let near = near.filter(|(greatest, other, _)| *other != who && *greatest >= token);
        let (sure, doubtful): (Vec<_>, Vec<_>) = near.partition(|(.., what)| is_ordered(*what));
        let surely = self.surely.of_others(who);
        let surely = surely.filter(|(greatest, ..)| *greatest >= token);
        // Of equal ones the first.
        let all = surely.into_iter().chain(sure).rev();
        match all.max_by_key(|(greatest, ..)| *greatest) {
            None if !doubtful.is_empty() => Err(()),
            found => Ok(found.map(|(greatest, _, what)| (greatest, what))),
        }
    }
}

struct Resource<'a> {
    last: Option<&'a Accepted>,
    tokens: EarlierTokens<Writer, &'a Accepted>,
}

impl<'a> Resource<'a> {
    fn lost_update(&mut self, record: &Record, write: &'a Accepted, finding: &mut Finding) {
        let (Some(read), Some(_)) = (write.read, write.wrote) else { return };
        let Some(last) = self.last.replace(write) else { return };
        let left = last.wrote.unwrap_or(read);
        if read >= left || may_share(record, last, write) || !are_ordered(record, last, write) {
            return;
        }
        finding.add_point(Anomaly {
            what: "lost-update".to_owned(),
            lock: record.locks.get(write.lock).to_owned(),
            from_ns: last.t_ns,
            to_ns: write.t_ns,
            grants: names(record, [last.name, write.name]),
            after: String::new(),
            proof: format!(
                "{} wrote {left} at {}; {} had read {read}, and overwrote it with {} at {}",
                who(record, last),
                ms(last.t_ns),
                who(record, write),
                write.wrote.unwrap_or_default(),
                ms(write.t_ns)
            ),
        });
    }

    fn stale_write(&mut self, record: &Record, write: &'a Accepted, finding: &mut Finding) {
        let shared = grant_of(record, write).is_some_and(|grant| !grant.promise.is_exclusive());
        let (Some(token), false) = (write.token, shared) else { return };
        let writer = writer(record, write);
        let ordered = |before| are_ordered(record, before, write);
        let earlier = (self.tokens).not_less(record, write.t_ns, (token, writer), ordered);
        // That writes were too close is said where they are read.
        if let Ok(Some((greatest, before))) = earlier {
            finding.add_point(Anomaly {
                what: "stale-write".to_owned(),
                lock: record.locks.get(write.lock).to_owned(),
                from_ns: before.t_ns,
                to_ns: write.t_ns,
                grants: names(record, [before.name, write.name]),
                after: String::new(),
                proof: format!(
                    "the write of {} with token {token} was accepted at {}, after one of {} with token {greatest} at {}",
                    who(record, write),
                    ms(write.t_ns),
                    who(record, before),
                    ms(before.t_ns)
                ),
            });
        }
        self.tokens.add(write.t_ns, token, writer, write);
    }
}

/// Whether it is known which of two writes came first.
fn are_ordered(record: &Record, a: &Accepted, b: &Accepted) -> bool {
    let (Some(x), Some(y)) = (grant_of(record, a), grant_of(record, b)) else { return true };
    let moment = |grant: &Grant, write: &Accepted| (record.acquire_of(grant).client, write.t_ns);
    record.clocks.are_ordered(moment(x, a), moment(y, b))
}

fn no_order(finding: &mut Finding, what: &str) {
    finding.doubt(&format!(
        "{what} of different generators are closer to each other than their clocks are known"
    ));
}

/// Whether two writes are of one hold, or of holds that may write at one time.
fn may_share(record: &Record, a: &Accepted, b: &Accepted) -> bool {
    let (Some(x), Some(y)) = (grant_of(record, a), grant_of(record, b)) else { return a.name == b.name };
    let one_owner = x.owner == y.owner && x.promise.nests() && y.promise.nests();
    let nested = x.returned_ns.max(y.returned_ns) <= a.t_ns.min(b.t_ns);
    let together = !x.promise.is_exclusive() && !y.promise.is_exclusive();
    a.grant == b.grant || (one_owner && nested) || together
}

fn names(record: &Record, grants: [u32; 2]) -> Vec<String> {
    let mut names = grants.map(|name| record.grant_names.get(name).to_owned()).to_vec();
    names.dedup();
    names
}

fn who(record: &Record, write: &Accepted) -> String {
    match grant_of(record, write) {
        Some(grant) => described(record, grant),
        None => record.grant_names.get(write.name).to_owned(),
    }
}

/// Grants of one lock whose tokens did not rise.
fn regressions(record: &Record, lock: usize, still_held: &[u64], finding: &mut Finding) {
    let called_ns = |grant: &Grant| record.acquire_of(grant).called_ns;
    let ordered: Vec<(u32, &Grant)> = record
        .held(lock)
        .filter(|(_, grant)| grant.promise.is_exclusive() && grant.token.is_some())
        .collect();
    let mut by_call = ordered.clone();
    by_call.sort_by_key(|(_, grant)| called_ns(grant));
    let re_entered = re_entries(record, lock, still_held);
    let mut granted = ordered.into_iter().peekable();
    let mut tokens: EarlierTokens<u32, &Grant> = EarlierTokens::new();
    // By when it was granted: the greatest token may be older than a hold that is re-entered, and hide what
    // came after it.
    let mut times: GreatestByOwner<u32, ()> = GreatestByOwner(Vec::new());
    for (index, grant) in by_call {
        while let Some((_, before)) = granted.next_if(|(_, before)| before.returned_ns < called_ns(grant)) {
            let token = before.token.unwrap_or_default();
            tokens.add(before.returned_ns, token, before.owner, before);
            times.add(before.returned_ns, before.owner, ());
        }
        let last = times.of_others(grant.owner);
        let re_enters = re_entered
            .get(&index)
            .is_some_and(|since_ns| last.is_none_or(|(last_ns, ..)| last_ns <= *since_ns));
        if re_enters {
            continue;
        }
        let token = grant.token.unwrap_or_default();
        let moment = |grant: &Grant, t_ns| (record.acquire_of(grant).client, t_ns);
        let called = moment(grant, called_ns(grant));
        let ordered =
            |before: &Grant| (record.clocks).are_ordered(moment(before, before.returned_ns), called);
        let earlier = tokens.not_less(record, called.1, (token, grant.owner), ordered);
        let (greatest, before) = match earlier {
            Ok(Some(earlier)) => earlier,
            Ok(None) => continue,
            Err(()) => {
                no_order(finding, "grants");
                continue;
            }
        };
        finding.add_point(Anomaly {
            what: "token-regression".to_owned(),
            lock: record.locks.get(lock as u32).to_owned(),
            from_ns: before.returned_ns,
            to_ns: grant.returned_ns,
            grants: names(record, [before.name, grant.name]),
            after: String::new(),
            proof: format!(
                "{} was granted with token {greatest} at {}; {} asked after that, at {}, and got token {token}, which is not greater",
                described(record, before),
                ms(before.returned_ns),
                described(record, grant),
                ms(called_ns(grant))
            ),
        });
    }
}

/// The exclusive grants whose owner still held the lock, and when the hold began that they re-enter.
fn re_entries(record: &Record, lock: usize, still_held: &[u64]) -> HashMap<u32, u64> {
    let mut by_owner: Vec<(u32, u64, u32, u64)> = record
        .held(lock)
        .filter(|(_, grant)| grant.promise.nests() && grant.promise.is_exclusive())
        .map(|(index, grant)| {
            let called_ns = record.acquire_of(grant).called_ns;
            (grant.owner, called_ns, index, grant.returned_ns)
        })
        .collect();
    by_owner.sort_unstable();
    let mut re_entered = HashMap::new();
    for grants in by_owner.chunk_by(|a, b| a.0 == b.0) {
        // Since when and until when the owner holds.
        let mut hold: Option<(u64, u64)> = None;
        for (_, called_ns, index, returned_ns) in grants {
            let within = hold.filter(|(_, until_ns)| called_ns <= until_ns);
            if let Some((since_ns, _)) = within {
                re_entered.insert(*index, since_ns);
            }
            let (since_ns, until_ns) = within.unwrap_or((*returned_ns, 0));
            hold = Some((since_ns, until_ns.max(still_held[*index as usize])));
        }
    }
    re_entered
}
