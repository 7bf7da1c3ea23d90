//! Turns the lines of a history into grants: who was granted what, how long, how it was renewed and given back.
//!
//! 1. An acquire answered ok is a grant from its return. An unknown one that names a grant is one too, once an ok extend,
//!    an ok release or an accepted write of that grant proves it.
//! 2. A grant's owner is the caller inside one life of one client: after a crash the same names are somebody else.
//! 3. A client dies at its `crash` line; if a `kill` of it has none, at the kill. Grants returned by then are dead too; a
//!    grant that is answered later counts.
//! 4. An operation without an end is unknown. The history ends with its last line.
//! 5. A name of a grant means its latest grant. A line about a name that was never given, and a name given twice while
//!    the first is alive, make the history doubtful.

use std::collections::{BTreeMap, HashMap};

use results::history::{Acquire, Call, End, Entry, Event, History, Phase};

use super::faults::{self, Fault};
use super::kinds::Promise;

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
    ended_ns: Vec<u64>,
    /// Grants of each lock, in order of their returns.
    grants_of: Vec<Vec<u32>>,
    /// Acquires of each lock, in order of their calls.
    asks_of: Vec<Vec<u32>>,
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

    /// From the first fault to the first grant after it.
    pub(crate) fn first_grant_after_fault_ns(&self) -> Option<u64> {
        let fault_ns = self.faults.iter().map(|fault| fault.injected_ns).min()?;
        let grants = self.grants.iter().filter(|grant| !grant.unknown);
        grants
            .map(|grant| grant.returned_ns)
            .filter(|returned_ns| *returned_ns >= fault_ns)
            .min()
            .map(|returned_ns| returned_ns - fault_ns)
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

    fn index_by_lock(&mut self) {
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

/// What an `id` stands for while it is pending.
enum Pending {
    Ask(usize),
    Extend(Option<u32>, usize),
    Release(Option<u32>, usize),
}

#[derive(Default)]
struct Reader {
    record: Record,
    lock_index: HashMap<String, u32>,
    client_index: HashMap<String, u32>,
    /// Owners by client, name and the client's life.
    owner_index: HashMap<(u32, String, u32), u32>,
    owner_name: Vec<String>,
    lives: HashMap<u32, u32>,
    grant_index: HashMap<String, u32>,
    pending: HashMap<u64, Pending>,
    fault_index: HashMap<u64, usize>,
    kinds: HashMap<String, Promise>,
    unknown_names: u64,
}

fn index(names: &mut Vec<String>, by_name: &mut HashMap<String, u32>, name: &str) -> u32 {
    if let Some(index) = by_name.get(name) {
        return *index;
    }
    let index = names.len() as u32;
    names.push(name.to_owned());
    by_name.insert(name.to_owned(), index);
    index
}

impl Reader {
    /// Clients must be known before a fault is read: its targets are told from nodes by their names.
    fn names(&mut self, history: &History) {
        for line in &history.lines {
            match &line.entry {
                Entry::Call {
                    call: Call::Acquire(Acquire { client, .. }),
                    ..
                }
                | Entry::Event(Event::Crash { client } | Event::Client { client, .. }) => {
                    self.client(client);
                }
                _ => {}
            }
        }
    }

    fn client(&mut self, name: &str) -> u32 {
        index(&mut self.record.clients, &mut self.client_index, name)
    }

    fn lock(&mut self, name: &str) -> u32 {
        index(&mut self.record.locks, &mut self.lock_index, name)
    }

    fn owner(&mut self, client: u32, name: &str) -> u32 {
        let life = self.lives.get(&client).copied().unwrap_or(0);
        let key = (client, name.to_owned(), life);
        if let Some(owner) = self.owner_index.get(&key) {
            return *owner;
        }
        let owner = self.record.owners.len() as u32;
        let client_name = self.record.clients.get(client as usize);
        let client_name = client_name.map_or("?", String::as_str);
        self.record.owners.push(format!("{client_name}/{name}"));
        self.owner_name.push(name.to_owned());
        self.owner_index.insert(key, owner);
        owner
    }

    fn count(&mut self, operation: &str, ending: &str) {
        let endings = self.record.operations.entry(operation.to_owned());
        *endings.or_default().entry(ending.to_owned()).or_default() += 1;
    }

    fn line(&mut self, t_ns: u64, entry: &Entry) {
        self.record.end_ns = self.record.end_ns.max(t_ns);
        match entry {
            Entry::Call { id, call } => {
                let pending = self.call(t_ns, call);
                self.pending.insert(*id, pending);
            }
            Entry::End { id, end } => match self.pending.remove(id) {
                Some(pending) => {
                    self.record.ended_ns.push(t_ns);
                    self.end(t_ns, &pending, end);
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
            Call::Extend {
                grant,
                lease_ms,
                by,
            } => {
                let step = Step {
                    lease_ns: ns(*lease_ms),
                    watchdog: by.as_deref() == Some("watchdog"),
                    ..open(t_ns)
                };
                let (index, grant) = self.named(grant);
                let place = grant.map_or(0, |grant| {
                    grant.extends.push(step);
                    grant.extends.len() - 1
                });
                Pending::Extend(index, place)
            }
            Call::Release { grant } => {
                let (index, grant) = self.named(grant);
                let place = grant.map_or(0, |grant| {
                    grant.releases.push(open(t_ns));
                    grant.releases.len() - 1
                });
                Pending::Release(index, place)
            }
            _ => Pending::Release(None, 0),
        }
    }

    fn acquire(&mut self, t_ns: u64, acquire: &Acquire) -> Pending {
        let client = self.client(&acquire.client);
        let owner = self.owner(client, &acquire.owner);
        let mut locks: Vec<u32> = acquire.locks.iter().map(|lock| self.lock(lock)).collect();
        locks.sort_unstable();
        locks.dedup();
        let promise = *self
            .kinds
            .entry(acquire.kind.clone())
            .or_insert_with(|| Promise::of(&acquire.kind));
        self.record.asks.push(Ask {
            client,
            owner,
            locks,
            kind: acquire.kind.clone(),
            promise,
            called_ns: t_ns,
            returned_ns: None,
            died_ns: None,
            answer: Answer::Open,
            lease_ns: acquire.lease_ms.map(ns),
            wait_ns: acquire.wait_ms.map(ns),
            permits: acquire.permits,
            grant: None,
        });
        Pending::Ask(self.record.asks.len() - 1)
    }

    fn named(&mut self, name: &str) -> (Option<u32>, Option<&mut Grant>) {
        let Some(index) = self.grant_index.get(name).copied() else {
            self.unknown_names += 1;
            if self.unknown_names <= 3 {
                self.doubt(format!(
                    "a line speaks of grant {name}, which was never given"
                ));
            }
            return (None, None);
        };
        (Some(index), self.record.grants.get_mut(index as usize))
    }

    fn doubt(&mut self, doubt: String) {
        self.record.doubts.push(doubt);
    }

    fn end(&mut self, t_ns: u64, pending: &Pending, end: &End) {
        let (word, ending) = match end {
            End::Ok { .. } => ("ok", Ending::Ok),
            End::Busy => ("busy", Ending::Failed),
            End::NotHeld => ("not_held", Ending::NotHeld),
            End::Failed { .. } => ("failed", Ending::Failed),
            _ => ("unknown", Ending::Unknown),
        };
        let sent_ns = match end {
            End::Ok { sent_ns, .. } => *sent_ns,
            _ => None,
        };
        match pending {
            Pending::Ask(ask) => {
                self.count("acquire", word);
                self.answer(t_ns, *ask, end);
            }
            Pending::Extend(grant, place) => {
                self.count("extend", word);
                let grant = grant.and_then(|grant| self.record.grants.get_mut(grant as usize));
                if let Some(grant) = grant {
                    grant.held |= ending == Ending::Ok;
                    finish(grant.extends.get_mut(*place), t_ns, ending, sent_ns);
                }
            }
            Pending::Release(grant, place) => {
                self.count("release", word);
                let grant = grant.and_then(|grant| self.record.grants.get_mut(grant as usize));
                if let Some(grant) = grant {
                    grant.held |= ending == Ending::Ok;
                    finish(grant.releases.get_mut(*place), t_ns, ending, sent_ns);
                }
            }
        }
    }

    fn answer(&mut self, t_ns: u64, place: usize, end: &End) {
        let Some(mut ask) = self.record.asks.get(place).cloned() else {
            return;
        };
        ask.returned_ns = Some(t_ns);
        let (name, token, sent_ns) = match end {
            End::Ok {
                grant,
                token,
                sent_ns,
            } => {
                ask.answer = Answer::Ok;
                (grant.as_ref(), *token, *sent_ns)
            }
            End::Unknown { grant, .. } => {
                ask.answer = Answer::Unknown;
                (grant.as_ref(), None, None)
            }
            _ => {
                ask.answer = Answer::Refused;
                (None, None, None)
            }
        };
        // An acquire that was called before a crash and answered after it belongs to the life that hears the answer.
        let name_of_owner = self.owner_name.get(ask.owner as usize).cloned();
        let owner = self.owner(ask.client, &name_of_owner.unwrap_or_default());
        if let Some(name) = name {
            ask.grant = Some(self.record.grants.len() as u32);
            self.grant(Grant {
                name: name.clone(),
                client: ask.client,
                owner,
                locks: ask.locks.clone(),
                kind: ask.kind.clone(),
                promise: ask.promise,
                lease_ns: ask.lease_ns,
                wait_ns: ask.wait_ns,
                permits: ask.permits.unwrap_or(1),
                token,
                called_ns: ask.called_ns,
                // A sending outside the operation would lengthen or shorten the lease at the recorder's will.
                sent_ns: sent_ns.map(|sent_ns| sent_ns.clamp(ask.called_ns, t_ns)),
                returned_ns: t_ns,
                unknown: ask.answer == Answer::Unknown,
                held: ask.answer == Answer::Ok,
                extends: Vec::new(),
                releases: Vec::new(),
                lost_ns: None,
                died_ns: None,
            });
        }
        if let Some(slot) = self.record.asks.get_mut(place) {
            *slot = ask;
        }
    }

    fn grant(&mut self, grant: Grant) {
        let index = self.record.grants.len() as u32;
        let before = self.grant_index.insert(grant.name.clone(), index);
        let alive = before
            .and_then(|before| self.record.grants.get(before as usize))
            .is_some_and(|before| {
                before.held
                    && before.releases.is_empty()
                    && before.lost_ns.is_none()
                    && before.died_ns.is_none()
            });
        if alive {
            self.doubt(format!(
                "grant {} was given twice, the second time while the first was alive",
                grant.name
            ));
        }
        self.record.grants.push(grant);
    }

    fn event(&mut self, t_ns: u64, event: &Event) {
        match event {
            Event::Lost { grant, .. } => {
                if let (_, Some(grant)) = self.named(grant) {
                    grant.lost_ns.get_or_insert(t_ns);
                }
            }
            Event::Write {
                lock,
                grant: name,
                token,
                accepted: true,
                read,
                wrote,
            } => {
                let lock = self.lock(lock);
                let (index, grant) = self.named(name);
                if let Some(grant) = grant {
                    grant.held = true;
                }
                self.record.writes.push(Accepted {
                    t_ns,
                    lock,
                    grant: index,
                    name: name.clone(),
                    token: *token,
                    read: *read,
                    wrote: *wrote,
                });
            }
            Event::Fault {
                fault,
                targets,
                span,
                phase: Phase::Inject,
            } => {
                let fault = Fault::new(fault, targets, t_ns, &self.record.clients);
                self.fault_index.insert(*span, self.record.faults.len());
                self.record.faults.push(fault);
            }
            Event::Fault {
                span,
                phase: Phase::Heal,
                ..
            } => {
                let fault = self.fault_index.get(span);
                if let Some(fault) = fault.and_then(|place| self.record.faults.get_mut(*place)) {
                    fault.healed_ns.get_or_insert(t_ns);
                }
            }
            Event::Crash { client } => {
                let client = self.client(client);
                self.death(client, t_ns);
            }
            Event::Probe { lock, ok } => {
                let lock = self.lock(lock);
                self.record
                    .probes
                    .entry(lock)
                    .or_default()
                    .push((t_ns, *ok));
            }
            Event::Client {
                client,
                watchdog_ms: Some(lease_ms),
            } => {
                let client = self.client(client);
                self.record.watchdog_ns.insert(client, ns(*lease_ms));
            }
            _ => {}
        }
    }

    fn death(&mut self, client: u32, t_ns: u64) {
        *self.lives.entry(client).or_default() += 1;
        self.record.deaths.push((client, t_ns));
    }

    fn finish(mut self, history: &History) -> Record {
        for (_, pending) in std::mem::take(&mut self.pending) {
            self.record.ended_ns.push(u64::MAX);
            match pending {
                Pending::Ask(_) => self.count("acquire", "unknown"),
                Pending::Extend(..) => self.count("extend", "unknown"),
                Pending::Release(..) => self.count("release", "unknown"),
            }
        }
        let mut record = self.record;
        record.torn = history.torn;
        for (client, lease_ms) in &history.watchdog_ms {
            if let Some(client) = self.client_index.get(client) {
                record.watchdog_ns.insert(*client, ns(*lease_ms));
            }
        }
        let killed = faults::kills_without_crash(&record.faults, &record.deaths);
        record.deaths.extend(killed);
        record
            .deaths
            .sort_unstable_by_key(|(client, t_ns)| (*t_ns, *client));
        bury(&mut record);
        record.index_by_lock();
        record
    }
}

fn open(t_ns: u64) -> Step {
    Step {
        called_ns: t_ns,
        sent_ns: t_ns,
        returned_ns: None,
        ending: Ending::Open,
        lease_ns: 0,
        watchdog: false,
    }
}

fn finish(step: Option<&mut Step>, t_ns: u64, ending: Ending, sent_ns: Option<u64>) {
    if let Some(step) = step {
        step.returned_ns = Some(t_ns);
        step.ending = ending;
        step.sent_ns = sent_ns.map_or(step.called_ns, |sent_ns| {
            sent_ns.clamp(step.called_ns, t_ns)
        });
    }
}

/// Gives each grant and each unanswered acquire the first death of its client that it did not outlive.
fn bury(record: &mut Record) {
    let mut deaths: HashMap<u32, Vec<u64>> = HashMap::new();
    for (client, t_ns) in &record.deaths {
        deaths.entry(*client).or_default().push(*t_ns);
    }
    let first_since = |client: u32, t_ns: u64| {
        let deaths = deaths.get(&client)?;
        deaths
            .get(deaths.partition_point(|death| *death < t_ns))
            .copied()
    };
    for grant in &mut record.grants {
        grant.died_ns = first_since(grant.client, grant.returned_ns);
    }
    for ask in &mut record.asks {
        if ask.returned_ns.is_none() {
            ask.died_ns = first_since(ask.client, ask.called_ns);
        }
    }
}
