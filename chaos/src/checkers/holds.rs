//! The grants of a history: who was granted what, for how long, how it was renewed and given back.
//!
//! 1. An acquire answered ok is a grant from its return. An unknown one that names a grant is one too, once an ok extend,
//!    an ok release or an accepted write of that grant proves it.
//! 2. A grant's owner is the caller inside one life of one client: after a crash the same names are somebody else.
//! 3. A client dies at its `crash` line; if a `kill` of it has none, at the kill. Grants returned by then are dead too; a
//!    grant that is answered later counts.
//! 4. An operation without an end is unknown. The history ends with its last line.
//! 5. A name of a grant means its latest grant. A line about a name that was never given, and a name given twice while
//!    the first is alive, make the history doubtful.

use std::collections::BTreeMap;

use results::history::History;

use super::faults::Fault;
use super::kinds::Promise;
use super::reader::Reader;

/// Milliseconds to nanoseconds; a lease of centuries stays one.
pub(crate) fn ns(ms: u64) -> u64 {
    ms.saturating_mul(1_000_000)
}

/// How an extend or a release ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It worked.
    Ok,
    /// The library does not hold the lock.
    NotHeld,
    /// It certainly did not happen.
    Failed,
    /// It may have happened.
    Unknown,
    /// There is no answer in the history.
    Open,
}

/// An extend or a release of a grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// When it was called.
    pub called_ns: u64,
    /// When the attempt that succeeded was sent, where known; else the call.
    pub sent_ns: u64,
    /// When it was answered.
    pub returned_ns: Option<u64>,
    /// How.
    pub ending: Ending,
    /// The lease asked for, of an extend.
    pub lease_ns: u64,
    /// Whether the library renewed by itself.
    pub watchdog: bool,
}

/// One grant, or an unknown acquire that named one.
#[derive(Debug, Clone, PartialEq)]
pub struct Grant {
    /// Its name.
    pub name: String,
    /// The client, an index into [`Record::clients`].
    pub client: u32,
    /// The owner, an index into [`Record::owners`].
    pub owner: u32,
    /// The locks, indices into [`Record::locks`], each once.
    pub locks: Vec<u32>,
    /// The kind's name.
    pub kind: String,
    /// What the kind promises.
    pub promise: Promise,
    /// The lease; `None` is renewed by the library.
    pub lease_ns: Option<u64>,
    /// The longest wait asked for.
    pub wait_ns: Option<u64>,
    /// Permits asked for; 1 where not said.
    pub permits: u32,
    /// The fencing token.
    pub token: Option<u64>,
    /// When the acquire was called.
    pub called_ns: u64,
    /// When the attempt that succeeded was sent, where known.
    pub sent_ns: Option<u64>,
    /// When it returned.
    pub returned_ns: u64,
    /// The acquire ended unknown.
    pub unknown: bool,
    /// It is held: answered ok, or proven later.
    pub held: bool,
    /// Its extends, in order of their calls.
    pub extends: Vec<Step>,
    /// Its releases, in order of their calls.
    pub releases: Vec<Step>,
    /// When the library said that it is lost, for the first time.
    pub lost_ns: Option<u64>,
    /// When its client died.
    pub died_ns: Option<u64>,
}

impl Grant {
    /// From when its lease counts: the sending of the attempt that succeeded, else the call.
    pub fn lease_from_ns(&self) -> u64 {
        self.sent_ns.unwrap_or(self.called_ns)
    }
}

/// How an acquire ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// Granted.
    Ok,
    /// Certainly not acquired: busy, or failed.
    Refused,
    /// It may have been acquired.
    Unknown,
    /// There is no answer in the history.
    Open,
}

/// One acquire, however it ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Ask {
    /// The client, an index into [`Record::clients`].
    pub client: u32,
    /// The owner at the time of the call, an index into [`Record::owners`].
    pub owner: u32,
    /// The locks, indices into [`Record::locks`], each once.
    pub locks: Vec<u32>,
    /// The kind's name.
    pub kind: String,
    /// What the kind promises.
    pub promise: Promise,
    /// When it was called.
    pub called_ns: u64,
    /// When it was answered.
    pub returned_ns: Option<u64>,
    /// When its client died, if that was before an answer.
    pub died_ns: Option<u64>,
    /// How it ended.
    pub answer: Answer,
    /// It was refused with an error, and not because the lock was taken.
    pub failed: bool,
    /// The lease asked for; `None` is renewed by the library.
    pub lease_ns: Option<u64>,
    /// The longest wait asked for.
    pub wait_ns: Option<u64>,
    /// Permits, where said.
    pub permits: Option<u32>,
    /// The grant that it gave, an index into [`Record::grants`].
    pub grant: Option<u32>,
}

/// An accepted write to the protected resource.
#[derive(Debug, Clone, PartialEq)]
pub struct Accepted {
    /// When.
    pub t_ns: u64,
    /// The lock that protects the resource, an index into [`Record::locks`].
    pub lock: u32,
    /// The grant, an index into [`Record::grants`]; `None` if its name was never given.
    pub grant: Option<u32>,
    /// The grant's name.
    pub name: String,
    /// The token shown.
    pub token: Option<u64>,
    /// The counter's value that was read.
    pub read: Option<i64>,
    /// The counter's value that was written.
    pub wrote: Option<i64>,
}

/// What a history says, by grant.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Record {
    /// Names of locks; their order is that of their first line.
    pub locks: Vec<String>,
    /// Names of clients.
    pub clients: Vec<String>,
    /// Owners for messages: `client/owner`.
    pub owners: Vec<String>,
    /// Grants, and unknown acquires that named one, in order of their returns.
    pub grants: Vec<Grant>,
    /// Every acquire, in order of calls.
    pub asks: Vec<Ask>,
    /// Accepted writes, in order of time.
    pub writes: Vec<Accepted>,
    /// Faults, in order of injection.
    pub faults: Vec<Fault>,
    /// Deaths of clients: client, and when.
    pub deaths: Vec<(u32, u64)>,
    /// Answers of the harness's probe, per lock.
    pub probes: BTreeMap<u32, Vec<(u64, bool)>>,
    /// The lease of renewed locks per client, where the library said it, in nanoseconds.
    pub watchdog_ns: BTreeMap<u32, u64>,
    /// Endings per operation.
    pub operations: BTreeMap<String, BTreeMap<String, u64>>,
    /// The stamp of the last line.
    pub end_ns: u64,
    /// The history's last line was torn.
    pub torn: bool,
    /// What makes the history doubtful.
    pub doubts: Vec<String>,
    /// Ends of operations in order; `u64::MAX` where open.
    pub(super) ended_ns: Vec<u64>,
    /// Grants of each lock, in order of their returns.
    pub(super) grants_of: Vec<Vec<u32>>,
    /// Acquires of each lock, in order of their calls.
    pub(super) asks_of: Vec<Vec<u32>>,
}

impl Record {
    /// Reads a history.
    pub fn of(history: &History) -> Self {
        let mut reader = Reader::default();
        reader.names(history);
        for line in &history.lines {
            reader.line(line.t_ns, &line.entry);
        }
        reader.finish(history)
    }

    /// Operations that overlap or follow an instant.
    pub(crate) fn operations_until(&self, t_ns: u64) -> u64 {
        let before = self.ended_ns.partition_point(|ended| *ended < t_ns);
        (self.ended_ns.len() - before) as u64
    }

    /// From an instant to the first grant after it.
    pub(crate) fn first_grant_after_ns(&self, t_ns: u64) -> Option<u64> {
        let grants = self.grants.iter().filter(|grant| !grant.unknown);
        grants
            .filter_map(|grant| grant.returned_ns.checked_sub(t_ns))
            .min()
    }

    /// The longest time from a fault to the first grant after it: a fault that hurts nobody at once, such as a delay between
    /// servers, must not hide how long the next one took.
    pub(crate) fn recovery_ns(&self) -> Option<u64> {
        self.faults
            .iter()
            .filter_map(|fault| self.first_grant_after_ns(fault.injected_ns))
            .max()
    }

    /// The grants of one lock that are held, with their indices, in order of their returns.
    pub(crate) fn held(&self, lock: usize) -> impl Iterator<Item = (u32, &Grant)> {
        let indices = self.grants_of.get(lock).into_iter().flatten().copied();
        indices
            .filter_map(|index| self.grants.get(index as usize).map(|grant| (index, grant)))
            .filter(|(_, grant)| grant.held)
    }

    /// The acquires of one lock, in order of their calls.
    pub(crate) fn asks(&self, lock: usize) -> impl Iterator<Item = &Ask> {
        let indices = self.asks_of.get(lock).into_iter().flatten();
        indices.filter_map(|index| self.asks.get(*index as usize))
    }

    pub(super) fn index_by_lock(&mut self) {
        let by_lock = |of: &mut dyn Iterator<Item = &Vec<u32>>| {
            let mut indices: Vec<Vec<u32>> = vec![Vec::new(); self.locks.len()];
            for (index, locks) in (0..).zip(of) {
                for lock in locks {
                    if let Some(indices) = indices.get_mut(*lock as usize) {
                        indices.push(index);
                    }
                }
            }
            indices
        };
        let grants_of = by_lock(&mut self.grants.iter().map(|grant| &grant.locks));
        let asks_of = by_lock(&mut self.asks.iter().map(|ask| &ask.locks));
        self.grants_of = grants_of;
        self.asks_of = asks_of;
    }

    /// The lease that a client's library renews by itself.
    pub(crate) fn renewal_ns(&self, client: u32) -> u64 {
        self.watchdog_ns.get(&client).copied().unwrap_or(ns(30_000))
    }
}
