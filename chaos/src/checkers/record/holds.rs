//! The grants of a history: who was granted what, for how long, how it was renewed and given back.
//!
//! 1. An acquire answered ok is a grant from its return. An unknown one that names a grant is one too, once
//!    an ok extend, an ok release or an accepted write of that grant proves it.
//! 2. A grant's owner is the caller inside one life of one client: after a crash the same names are somebody
//!    else.
//! 3. A client dies at its `crash` line; if a `kill` of it has none, at the kill. Grants that it had been
//!    told of by then are dead too, also where their answers were read later; a grant that it was told of
//!    later counts.
//! 4. An operation without an end is unknown. The history ends with its last line.
//! 5. A name of a grant means its latest grant. A line about a name that was never given, and a name given
//!    twice while the first is alive, make the history doubtful.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::checkers::record::clocks::Clocks;
use crate::checkers::record::faults::{AFTER_HEAL_NS, Fault};
use crate::checkers::record::kinds::Promise;
use crate::checkers::record::names::Names;

/// Milliseconds to nanoseconds; a lease of centuries stays one.
pub(crate) fn ns(ms: u64) -> u64 {
    ms.saturating_mul(1_000_000)
}

/// Nanoseconds as milliseconds, to the microsecond.
pub(crate) fn ms(t_ns: u64) -> String {
    format!("{}.{:03} ms", t_ns / 1_000_000, t_ns / 1_000 % 1_000)
}

/// Nanoseconds that may be missing, in the eight bytes of those that may not: a record keeps millions.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct OptionalNs(u64);

impl OptionalNs {
    pub(super) const NONE: Self = Self(u64::MAX);

    /// These nanoseconds, which are at most `u64::MAX - 1`.
    pub(super) fn some(ns: u64) -> Self {
        Self(ns.min(u64::MAX - 1))
    }

    pub(super) fn get(self) -> Option<u64> {
        (self != Self::NONE).then_some(self.0)
    }
}

impl From<Option<u64>> for OptionalNs {
    fn from(ns: Option<u64>) -> Self {
        ns.map_or(Self::NONE, Self::some)
    }
}

impl fmt::Debug for OptionalNs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.get(), f)
    }
}

/// How an operation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperationEnd {
    /// Ok: it took effect.
    Ok,
    /// Busy: another held the lock for the whole wait.
    Busy,
    /// Not held: the library does not hold the lock.
    NotHeld,
    /// Failed: it certainly took no effect.
    Failed,
    /// Unknown: it may have taken effect.
    Unknown,
    /// There is no answer in the history.
    Open,
}

impl OperationEnd {
    /// The endings in the order above.
    pub(crate) const WORDS: [&str; 5] = ["ok", "busy", "not_held", "failed", "unknown"];

    pub(crate) fn word(self) -> &'static str {
        Self::WORDS.get(self as usize).copied().unwrap_or_default()
    }

    pub(crate) fn is_refusal(self) -> bool {
        matches!(self, Self::Busy | Self::NotHeld | Self::Failed)
    }
}

/// What a step of a hold does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepKind {
    /// The caller extends.
    Extend,
    /// The library extends by itself.
    Renewal,
    /// The hold is given back.
    Release,
}

/// An extend or a release of a grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// When it was called.
    pub called_ns: u64,
    /// When the attempt that succeeded was sent, where known; else the call.
    pub sent_ns: u64,
    pub(super) returned_ns: OptionalNs,
    /// The lease asked for, of an extend.
    pub lease_ns: u64,
    /// How it ended.
    pub ending: OperationEnd,
    /// What it does.
    pub kind: StepKind,
    /// The next step of the same grant, an index into the record's steps; [`NONE`] after the last.
    pub(crate) next: u32,
}

pub(crate) const NONE: u32 = u32::MAX;

/// One grant, or an unknown acquire that named one. What was asked for is in its [`AcquireCall`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    /// The acquire that was granted, an index into `Record::acquires`.
    pub acquire: u32,
    /// Its name, a number in [`Record::grant_names`].
    pub name: u32,
    /// The owner, a number in [`Record::owners`].
    pub owner: u32,
    /// What the kind promises.
    pub promise: Promise,
    /// The acquire ended unknown.
    pub unknown: bool,
    /// The grant is a hold: answered ok, or proven later.
    pub held: bool,
    /// The fencing token.
    pub token: Option<u64>,
    pub(super) sent_ns: OptionalNs,
    /// When the library returned to its caller, where it says so; else when it returned.
    pub handed_over_ns: u64,
    /// When it returned.
    pub returned_ns: u64,
    pub(super) lost_ns: OptionalNs,
    /// Its first and its last step, indices into the record's steps.
    pub(crate) steps: (u32, u32),
}

impl Step {
    /// When it was answered.
    pub fn returned_ns(&self) -> Option<u64> {
        self.returned_ns.get()
    }
}

impl Grant {
    /// When the attempt that succeeded was sent, where known.
    pub fn sent_ns(&self) -> Option<u64> {
        self.sent_ns.get()
    }

    /// When the library first reported the grant lost.
    pub fn lost_ns(&self) -> Option<u64> {
        self.lost_ns.get()
    }
}

/// One acquire, however it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AcquireCall {
    /// The client, a number in [`Record::clients`].
    pub client: u32,
    /// The owner at the time of the call, a number in [`Record::owners`].
    pub owner: u32,
    /// The locks, as one of the sets that [`Record::locks_of`] knows.
    pub(crate) locks: u32,
    /// The kind, a number in [`Record::kinds`].
    pub kind: u32,
    /// What the kind promises.
    pub promise: Promise,
    /// How it ended.
    pub ending: OperationEnd,
    /// When it was called.
    pub called_ns: u64,
    pub(super) returned_ns: OptionalNs,
    pub(super) asked_ns: OptionalNs,
    pub(super) granted_ns: OptionalNs,
    pub(super) wait_ns: OptionalNs,
    /// Permits, where said.
    pub permits: Option<u32>,
    /// The grant that answered it, an index into [`Record::grants`]; [`NONE`]: none did.
    pub(crate) grant: u32,
}

impl AcquireCall {
    /// When it was answered.
    pub fn returned_ns(&self) -> Option<u64> {
        self.returned_ns.get()
    }

    /// The lease that was asked for; `None` is renewed by the library.
    pub fn asked_ns(&self) -> Option<u64> {
        self.asked_ns.get()
    }

    /// The lease that was granted, where that is another: if it is less, the library claims the rest.
    pub fn granted_ns(&self) -> Option<u64> {
        self.granted_ns.get()
    }

    /// The longest wait asked for.
    pub fn wait_ns(&self) -> Option<u64> {
        self.wait_ns.get()
    }

    /// The lease that was granted, else asked for; `None` is renewed by the library.
    pub fn lease_ns(&self) -> Option<u64> {
        let asked_ns = self.asked_ns()?;
        Some(self.granted_ns().unwrap_or(asked_ns))
    }

    /// The lease that the library claims for a grant of less.
    pub(crate) fn claimed_ns(&self) -> Option<u64> {
        let granted_ns = self.granted_ns()?;
        self.asked_ns().filter(|asked_ns| granted_ns < *asked_ns)
    }
}

/// An accepted write to the protected resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accepted {
    /// When.
    pub t_ns: u64,
    /// The lock that protects the resource, a number in [`Record::locks`].
    pub lock: u32,
    /// The grant, an index into [`Record::grants`]; `None` if its name was never given.
    pub grant: Option<u32>,
    /// The grant's name, a number in [`Record::grant_names`].
    pub name: u32,
    /// The token shown.
    pub token: Option<u64>,
    /// The counter's value that was read.
    pub read: Option<i64>,
    /// The counter's value that was written.
    pub wrote: Option<i64>,
}

/// A stretch in which the recorder, or a client, stood still.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stall {
    /// The client, a number in [`Record::clients`]; `None` is the recorder.
    pub client: Option<u32>,
    /// The last moment before the stall at which the process was seen to run.
    pub from_ns: u64,
    /// When it went on.
    pub to_ns: u64,
}

/// What a history says, by grant. Names are numbers here, and what belongs to a grant or a lock is found by
/// index.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Record {
    /// Names of locks; their order is that of their first line.
    pub locks: Names,
    /// Names of clients.
    pub clients: Names,
    /// Owners for messages: `client/owner`.
    pub owners: Names,
    /// Kinds of locks that were asked for.
    pub kinds: Names,
    /// Names of grants. A name may have been given more than once.
    pub grant_names: Names,
    /// Grants, and unknown acquires that named one, in order of their returns.
    pub grants: Vec<Grant>,
    /// Every acquire, in order of calls.
    pub acquires: Vec<AcquireCall>,
    /// Accepted writes, in order of time.
    pub writes: Vec<Accepted>,
    /// Faults, in order of injection.
    pub faults: Vec<Fault>,
    /// Deaths of clients: client, and when; in order of time.
    pub deaths: Vec<(u32, u64)>,
    /// Answers of the harness's probe, per lock.
    pub probes: BTreeMap<u32, Vec<(u64, bool)>>,
    /// The lease of renewed locks per client, where the library said it, in nanoseconds.
    pub watchdog_ns: BTreeMap<u32, u64>,
    /// Clients whose library does not report that a release found nothing.
    pub blind: BTreeSet<u32>,
    /// Clients whose library reports every renewal.
    pub reporting: BTreeSet<u32>,
    /// Clients whose library gives each nested grant a lease of its own.
    pub nested_leases: BTreeSet<u32>,
    /// Whether the library of every client that says its features tells its holder of a loss; `None` where
    /// none says them.
    pub tells_holder: Option<bool>,
    /// Endings per operation.
    pub operations: BTreeMap<String, BTreeMap<String, u64>>,
    /// The stamp of the first line.
    pub begin_ns: u64,
    /// The stamp of the last line.
    pub end_ns: u64,
    /// The history's last line was torn.
    pub torn: bool,
    /// What makes the history doubtful.
    pub doubts: Vec<String>,
    /// When the recorder stood still, in order of time.
    pub stalls: Vec<Stall>,
    /// When the machine's clock was set, the last moment before it, and by how many nanoseconds.
    pub clock_steps: Vec<(u64, i64)>,
    /// How far off the times of clients may be, of a history that was put together from parts.
    pub clocks: Clocks,
    /// Ends of operations in order; `u64::MAX` where open.
    pub(crate) ended_ns: Vec<u64>,
    /// Extends and releases of all grants, in order of their calls.
    pub(crate) steps: Vec<Step>,
    /// The sets of locks that were asked for together, each lock once.
    pub(crate) lock_sets: Vec<Box<[u32]>>,
    /// Deaths of each client, in order of time.
    pub(crate) deaths_of: Vec<Vec<u64>>,
    /// Grants of each lock, in order of their returns.
    pub(crate) grants_of: Vec<Vec<u32>>,
    /// Acquires of each lock, in order of their calls.
    pub(crate) acquires_of: Vec<Vec<u32>>,
}

impl Record {
    /// The grants that were answered ok, in order of their returns.
    pub(crate) fn granted(&self) -> impl Iterator<Item = &Grant> {
        self.grants.iter().filter(|grant| !grant.unknown)
    }

    /// The acquire that a grant answered.
    pub fn acquire_of(&self, grant: &Grant) -> &AcquireCall {
        &self.acquires[grant.acquire as usize]
    }

    /// The grant that answered an acquire.
    pub fn grant_of(&self, ask: &AcquireCall) -> Option<&Grant> {
        self.grants.get(ask.grant as usize)
    }

    /// The locks that were asked for, as numbers in [`Record::locks`], each once.
    pub fn locks_of(&self, ask: &AcquireCall) -> &[u32] {
        &self.lock_sets[ask.locks as usize]
    }

    /// A grant by its name, for a message.
    pub fn name_of(&self, grant: &Grant) -> &str {
        self.grant_names.get(grant.name)
    }

    /// From when the lease of a grant counts: the sending of the attempt that succeeded, else the call.
    pub fn lease_from_ns(&self, grant: &Grant) -> u64 {
        grant.sent_ns().unwrap_or(self.acquire_of(grant).called_ns)
    }

    /// The extends and releases of a grant, in order of their calls.
    pub fn steps(&self, grant: &Grant) -> impl Iterator<Item = &Step> {
        let mut next = grant.steps.0;
        std::iter::from_fn(move || {
            let step = self.steps.get(next as usize)?;
            next = step.next;
            Some(step)
        })
    }

    /// The extends of a grant, in order of their calls.
    pub fn extends(&self, grant: &Grant) -> impl Iterator<Item = &Step> {
        self.steps(grant).filter(|step| step.kind != StepKind::Release)
    }

    /// The releases of a grant, in order of their calls.
    pub fn releases(&self, grant: &Grant) -> impl Iterator<Item = &Step> {
        self.steps(grant).filter(|step| step.kind == StepKind::Release)
    }

    /// The first death of a client at an instant or after it.
    pub(crate) fn death_since(&self, client: u32, t_ns: u64) -> Option<u64> {
        let deaths = &self.deaths_of[client as usize];
        deaths.get(deaths.partition_point(|death| *death < t_ns)).copied()
    }

    /// When the client of a grant died.
    pub fn died_ns(&self, grant: &Grant) -> Option<u64> {
        self.death_since(self.acquire_of(grant).client, grant.handed_over_ns)
    }

    /// When an acquire ended: at its answer, else at its client's death; `None`: in flight at the end.
    pub(crate) fn over_ns(&self, ask: &AcquireCall) -> Option<u64> {
        ask.returned_ns().or_else(|| self.caller_died_ns(ask))
    }

    /// When the client of an acquire died, if that was before an answer.
    pub(crate) fn caller_died_ns(&self, ask: &AcquireCall) -> Option<u64> {
        if ask.returned_ns().is_some() { None } else { self.death_since(ask.client, ask.called_ns) }
    }

    /// Operations that overlap or follow an instant.
    pub(crate) fn operations_until(&self, t_ns: u64) -> u64 {
        let before = self.ended_ns.partition_point(|ended| *ended < t_ns);
        (self.ended_ns.len() - before) as u64
    }

    /// From a fault's injection to the first grant that shows the lock working again. The grant's acquire
    /// began once the fault was in place, or the grant came too late to be an answer that was under way.
    pub(crate) fn goes_on_after_ns(&self, injected_ns: u64, in_place_ns: u64) -> Option<u64> {
        let arrived_ns = in_place_ns.saturating_add(AFTER_HEAL_NS);
        let grants = self.granted().filter(|grant| {
            let called_ns = self.acquire_of(grant).called_ns;
            called_ns >= in_place_ns || grant.returned_ns >= arrived_ns
        });
        grants.map(|grant| grant.returned_ns.saturating_sub(injected_ns)).min()
    }

    /// The longest time from a fault to the first grant after it: a fault that hurts nobody at once, such as
    /// a delay between servers, must not hide how long the next one took.
    pub(crate) fn recovery_ns(&self) -> Option<u64> {
        let first = |fault: &Fault| {
            self.granted().filter_map(|grant| grant.returned_ns.checked_sub(fault.injected_ns)).min()
        };
        self.faults.iter().filter_map(first).max()
    }

    /// The grants of one lock that are held, with their indices, in order of their returns.
    pub(crate) fn held(&self, lock: usize) -> impl Iterator<Item = (u32, &Grant)> {
        let indices = self.grants_of[lock].iter();
        indices.map(|index| (*index, &self.grants[*index as usize])).filter(|(_, grant)| grant.held)
    }

    /// The acquires of one lock, in order of their calls.
    pub(crate) fn acquires(&self, lock: usize) -> impl Iterator<Item = &AcquireCall> {
        self.acquires_of[lock].iter().map(|index| &self.acquires[*index as usize])
    }

    pub(crate) fn index(&mut self) {
        self.deaths_of = vec![Vec::new(); self.clients.len()];
        for (client, t_ns) in &self.deaths {
            self.deaths_of[*client as usize].push(*t_ns);
        }
        // A lock may be written or probed that nobody asked for.
        self.grants_of.resize(self.locks.len(), Vec::new());
        self.acquires_of.resize(self.locks.len(), Vec::new());
    }

    /// The lease that a client's library renews by itself.
    pub(crate) fn renewal_ns(&self, client: u32) -> u64 {
        self.watchdog_ns.get(&client).copied().unwrap_or(ns(30_000))
    }
}
