//! Follows the lines of a history one by one, and makes a [`Record`] of them; [`super::holds`] has the rules.
//!
//! No line is kept, and what a line names is a number from then on.

use std::collections::BTreeMap;

use hashbrown::HashMap;
use results::history::{Acquire, Call, End, Entry, Event, History, Line, Phase};

use crate::checkers::record::faults::{self, Fault};
use crate::checkers::record::holds::{
    Accepted, AcquireCall, Grant, NONE, OperationEnd, OptionalNs, Record, Stall, Step, StepKind, ns,
};
use crate::checkers::record::kinds::Promise;
use crate::checkers::record::names::Interner;

impl Record {
    /// Reads a history.
    pub fn of(history: &History) -> Self {
        let mut reader = Reader::default();
        for line in &history.lines {
            reader.line(line);
        }
        reader.finish(history.torn, &history.watchdog_ms)
    }
}

/// What an `id` stands for while it is pending: an index into the record.
#[derive(Clone, Copy)]
enum Pending {
    Acquire(u32),
    /// A step, and its grant; [`NONE`] for both where the grant's name was never given.
    Step(StepKind, u32, u32),
}

/// Follows a history from line to line, and keeps none of them.
#[derive(Default)]
pub struct Reader {
    record: Record,
    locks: Interner,
    clients: Interner,
    kinds: Interner,
    grants: Interner,
    callers: Interner,
    promises: Vec<Promise>,
    /// The latest grant of each name; [`NONE`] for a name that was never given.
    latest: Vec<u32>,
    /// Owners by client, the caller's name and the client's life.
    owners: HashMap<(u32, u32, u32), u32>,
    /// The caller's name of each owner.
    caller_of: Vec<u32>,
    lives: Vec<u32>,
    lock_sets: HashMap<Box<[u32]>, u32>,
    /// The locks of the acquire at hand, in memory that the next one uses too.
    asked: Vec<u32>,
    pending: HashMap<u64, Pending>,
    fault_index: HashMap<u64, usize>,
    /// How often acquire, extend and release ended in each of [`OperationEnd::WORDS`].
    counts: [[u64; OperationEnd::WORDS.len()]; 3],
    unknown_names: u64,
    begun: bool,
}

impl Reader {
    fn client(&mut self, name: &str) -> u32 {
        let client = self.clients.index(name);
        self.lives.resize(self.clients.names.len(), 0);
        client
    }

    fn owner(&mut self, client: u32, caller: u32) -> u32 {
        let key = (client, caller, self.lives[client as usize]);
        let (record, caller_of) = (&mut self.record, &mut self.caller_of);
        *self.owners.entry(key).or_insert_with(|| {
            caller_of.push(caller);
            let client = self.clients.names.get(client);
            let caller = self.callers.names.get(caller);
            record.owners.push(&format!("{client}/{caller}"))
        })
    }

    fn lock_set(&mut self, acquire: &Acquire) -> u32 {
        let locks = &mut self.asked;
        locks.clear();
        locks.extend(acquire.names().iter().map(|lock| self.locks.index(lock)));
        locks.sort_unstable();
        locks.dedup();
        if let Some(set) = self.lock_sets.get(locks.as_slice()) {
            return *set;
        }
        let set = self.record.lock_sets.len() as u32;
        let locks = locks.clone().into_boxed_slice();
        self.record.lock_sets.push(locks.clone());
        self.lock_sets.insert(locks, set);
        self.record.grants_of.resize(self.locks.names.len(), Vec::new());
        self.record.acquires_of.resize(self.locks.names.len(), Vec::new());
        set
    }

    /// Takes the next line; they come in order of time.
    pub fn line(&mut self, line: &Line) {
        let t_ns = line.t_ns;
        if !std::mem::replace(&mut self.begun, true) {
            self.record.begin_ns = t_ns;
        }
        self.record.end_ns = self.record.end_ns.max(t_ns);
        match &line.entry {
            Entry::Call { id, call } => {
                let pending = self.call(t_ns, call);
                self.pending.insert(*id, pending);
            }
            Entry::End { id, end } => match self.pending.remove(id) {
                Some(pending) => {
                    self.record.ended_ns.push(t_ns);
                    self.end(t_ns, pending, end);
                }
                None => self.doubt(format!("an end with id {id} has no call")),
            },
            Entry::Event(event) => self.event(t_ns, event),
            _ => {}
        }
    }

    fn call(&mut self, t_ns: u64, call: &Call) -> Pending {
        match call {
            Call::Acquire(acquire) => self.acquire(t_ns, acquire),
            Call::Extend { grant, lease_ms, by } => {
                let kind =
                    if by.as_deref() == Some("watchdog") { StepKind::Renewal } else { StepKind::Extend };
                self.step(t_ns, grant, kind, ns(*lease_ms))
            }
            Call::Release { grant } => self.step(t_ns, grant, StepKind::Release, 0),
            _ => Pending::Step(StepKind::Release, NONE, NONE),
        }
    }

    fn acquire(&mut self, t_ns: u64, acquire: &Acquire) -> Pending {
        let client = self.client(&acquire.client);
        let caller = self.callers.index(&acquire.owner);
        let owner = self.owner(client, caller);
        let locks = self.lock_set(acquire);
        let kind = self.kinds.index(&acquire.kind);
        if self.promises.len() < self.kinds.names.len() {
            self.promises.push(Promise::of(&acquire.kind));
        }
        let place = self.record.acquires.len() as u32;
        for lock in &self.record.lock_sets[locks as usize] {
            self.record.acquires_of[*lock as usize].push(place);
        }
        self.record.acquires.push(AcquireCall {
            client,
            owner,
            locks,
            kind,
            promise: self.promises[kind as usize],
            called_ns: t_ns,
            returned_ns: OptionalNs::NONE,
            ending: OperationEnd::Open,
            asked_ns: acquire.lease_ms.map(ns).into(),
            granted_ns: OptionalNs::NONE,
            wait_ns: acquire.wait_ms.map(ns).into(),
            permits: acquire.permits,
            grant: NONE,
        });
        Pending::Acquire(place)
    }

    fn step(&mut self, t_ns: u64, name: &str, kind: StepKind, lease_ns: u64) -> Pending {
        let Some(grant) = self.named(name) else { return Pending::Step(kind, NONE, NONE) };
        let steps = &mut self.record.steps;
        let place = steps.len() as u32;
        steps.push(Step {
            called_ns: t_ns,
            sent_ns: t_ns,
            returned_ns: OptionalNs::NONE,
            ending: OperationEnd::Open,
            lease_ns,
            kind,
            next: NONE,
        });
        let (first, last) = &mut self.record.grants[grant as usize].steps;
        match steps.get_mut(*last as usize) {
            Some(last) => last.next = place,
            None => *first = place,
        }
        *last = place;
        Pending::Step(kind, place, grant)
    }

    fn named(&mut self, name: &str) -> Option<u32> {
        let index = self.grants.find(name);
        let grant = index.map_or(NONE, |index| self.latest[index as usize]);
        if grant == NONE {
            self.unknown_names += 1;
            if self.unknown_names <= 3 {
                self.doubt(format!("a line speaks of grant {name}, which was never given"));
            }
            return None;
        }
        Some(grant)
    }

    fn grant_name(&mut self, name: &str) -> u32 {
        let index = self.grants.index(name);
        self.latest.resize(self.grants.names.len(), NONE);
        index
    }

    fn doubt(&mut self, doubt: String) {
        self.record.doubts.push(doubt);
    }

    fn end(&mut self, t_ns: u64, pending: Pending, end: &End) {
        let ending = match end {
            End::Ok { .. } => OperationEnd::Ok,
            End::Busy => OperationEnd::Busy,
            End::NotHeld => OperationEnd::NotHeld,
            End::Failed { .. } => OperationEnd::Failed,
            _ => OperationEnd::Unknown,
        };
        self.counts[operation(pending)][ending as usize] += 1;
        match pending {
            Pending::Acquire(ask) => self.answer(t_ns, ask, ending, end),
            Pending::Step(_, step, grant) => {
                if let (Some(step), Some(grant)) =
                    (self.record.steps.get_mut(step as usize), self.record.grants.get_mut(grant as usize))
                {
                    grant.held |= ending == OperationEnd::Ok;
                    step.returned_ns = OptionalNs::some(t_ns);
                    // No step is refused because the lock is taken.
                    step.ending = match ending {
                        OperationEnd::Busy => OperationEnd::Failed,
                        ending => ending,
                    };
                    if let End::Ok { sent_ns: Some(sent_ns), .. } = end {
                        step.sent_ns = (*sent_ns).clamp(step.called_ns, t_ns);
                    }
                }
            }
        }
    }

    fn answer(&mut self, t_ns: u64, place: u32, ending: OperationEnd, end: &End) {
        let ask = &mut self.record.acquires[place as usize];
        ask.returned_ns = OptionalNs::some(t_ns);
        ask.ending = ending;
        let mut handed_over_ns = None;
        let (name, token, sent_ns) = match end {
            End::Ok { grant, token, sent_ns, returned_ns, lease_ms, at: _ } => {
                ask.granted_ns = lease_ms.map(ns).into();
                handed_over_ns = *returned_ns;
                (grant.as_ref(), *token, *sent_ns)
            }
            End::Unknown { grant, .. } => (grant.as_ref(), None, None),
            _ => return,
        };
        let Some(name) = name else { return };
        let index = self.record.grants.len() as u32;
        ask.grant = index;
        let ask = *ask;
        // An acquire that is answered after a crash belongs to the life that hears the answer.
        let owner = self.owner(ask.client, self.caller_of[ask.owner as usize]);
        let number = self.grant_name(name);
        let before = std::mem::replace(&mut self.latest[number as usize], index);
        if self.is_alive(before) {
            self.doubt(format!("grant {name} was given twice, the second time while the first was alive"));
        }
        for lock in &self.record.lock_sets[ask.locks as usize] {
            self.record.grants_of[*lock as usize].push(index);
        }
        self.record.grants.push(Grant {
            acquire: place,
            name: number,
            owner,
            promise: ask.promise,
            token,
            // A sending outside the operation would lengthen or shorten the lease at the recorder's will.
            sent_ns: sent_ns.map(|sent_ns| sent_ns.clamp(ask.called_ns, t_ns)).into(),
            handed_over_ns: handed_over_ns
                .map_or(t_ns, |handed_over_ns| handed_over_ns.clamp(ask.called_ns, t_ns)),
            returned_ns: t_ns,
            unknown: ending == OperationEnd::Unknown,
            held: ending == OperationEnd::Ok,
            lost_ns: OptionalNs::NONE,
            steps: (NONE, NONE),
        });
    }

    fn is_alive(&self, grant: u32) -> bool {
        let grant = self.record.grants.get(grant as usize);
        grant.is_some_and(|grant| {
            grant.held && grant.lost_ns().is_none() && self.record.releases(grant).next().is_none()
        })
    }

    fn event(&mut self, t_ns: u64, event: &Event) {
        match event {
            Event::Lost { grant, at_ns, .. } => {
                if let Some(grant) = self.named(grant) {
                    let grant = &mut self.record.grants[grant as usize];
                    // Notified before it was written down, but not before it was granted.
                    let lost_ns = at_ns.map_or(t_ns, |at_ns| at_ns.min(t_ns));
                    if grant.lost_ns().is_none() {
                        grant.lost_ns = OptionalNs::some(lost_ns.max(grant.returned_ns));
                    }
                }
            }
            Event::Write { lock, grant: name, token, accepted: true, read, wrote } => {
                let lock = self.locks.index(lock);
                let grant = self.named(name);
                if let Some(grant) = grant {
                    self.record.grants[grant as usize].held = true;
                }
                let name = self.grant_name(name);
                self.record.writes.push(Accepted {
                    t_ns,
                    lock,
                    grant,
                    name,
                    token: *token,
                    read: *read,
                    wrote: *wrote,
                });
            }
            Event::Fault { fault, targets, span, phase: Phase::Inject } => {
                self.fault_index.insert(*span, self.record.faults.len());
                self.record.faults.push(Fault::new(fault, targets, t_ns));
            }
            Event::Fault { span, phase: Phase::Heal, .. } => {
                let fault = self.fault_index.get(span);
                if let Some(fault) = fault.and_then(|place| self.record.faults.get_mut(*place)) {
                    fault.healed_ns.get_or_insert(t_ns);
                }
            }
            Event::Crash { client } => {
                let client = self.client(client);
                self.lives[client as usize] += 1;
                self.record.deaths.push((client, t_ns));
            }
            Event::Probe { lock, ok } => {
                let lock = self.locks.index(lock);
                self.record.probes.entry(lock).or_default().push((t_ns, *ok));
            }
            Event::Client { client, watchdog_ms, features } => {
                let client = self.client(client);
                let has = |feature: &str| features.iter().any(|has| has == feature);
                let record = &mut self.record;
                for (feature, clients) in [
                    ("release_blind", &mut record.blind),
                    ("renewals", &mut record.reporting),
                    ("nested_leases", &mut record.nested_leases),
                ] {
                    clients.extend(has(feature).then_some(client));
                }
                let tells = self.record.tells_holder.unwrap_or(true) && has("lost");
                self.record.tells_holder = Some(tells);
                if let Some(lease_ms) = watchdog_ms {
                    self.record.watchdog_ns.insert(client, ns(*lease_ms));
                }
            }
            Event::Stall { lasted_ns, client, clock_step_ns, .. } => {
                let step = clock_step_ns.map(|step_ns| (t_ns.saturating_sub(*lasted_ns), step_ns));
                self.record.clock_steps.extend(step);
                let client = client.as_deref().map(|name| self.client(name));
                self.record.stalls.push(Stall {
                    client,
                    from_ns: t_ns.saturating_sub(*lasted_ns),
                    to_ns: t_ns,
                });
            }
            Event::Clock { clients, uncertainty_ns: Some(uncertainty_ns), .. } => {
                let clients: Vec<u32> = clients.iter().map(|name| self.client(name)).collect();
                self.record.clocks.said(&clients, t_ns, *uncertainty_ns);
            }
            _ => {}
        }
    }

    /// The record of all lines. `torn`: the last one was torn. `watchdog_ms` is what is known of clients'
    /// renewed leases besides, in milliseconds.
    pub fn finish(mut self, torn: bool, watchdog_ms: &BTreeMap<String, u64>) -> Record {
        for pending in self.pending.values() {
            self.record.ended_ns.push(u64::MAX);
            self.counts[operation(*pending)][OperationEnd::Unknown as usize] += 1;
        }
        let mut record = self.record;
        record.torn = torn;
        for (client, lease_ms) in watchdog_ms {
            if let Some(client) = self.clients.find(client) {
                record.watchdog_ns.insert(client, ns(*lease_ms));
            }
        }
        for (operation, counts) in ["acquire", "extend", "release"].into_iter().zip(self.counts) {
            for (ending, count) in OperationEnd::WORDS.into_iter().zip(counts) {
                if count > 0 {
                    let endings = record.operations.entry(operation.to_owned());
                    endings.or_default().insert(ending.to_owned(), count);
                }
            }
        }
        record.locks = self.locks.names;
        record.clients = self.clients.names;
        record.kinds = self.kinds.names;
        record.grant_names = self.grants.names;
        // A fault's targets may name clients that come later: they show in the names of all.
        for fault in &mut record.faults {
            fault.resolve(&record.clients);
        }
        record.deaths.extend(faults::kills_without_crash(&record.faults, &record.deaths));
        record.deaths.sort_unstable_by_key(|(client, t_ns)| (*t_ns, *client));
        record.index();
        record
    }
}

fn operation(pending: Pending) -> usize {
    match pending {
        Pending::Acquire(_) => 0,
        Pending::Step(StepKind::Release, ..) => 2,
        Pending::Step(..) => 1,
    }
}
