//! Follows the lines of a history one by one and turns them into a [`Record`]; [`super::holds`] has the rules.

use std::collections::HashMap;

use results::history::{Acquire, Call, End, Entry, Event, History, Phase};

use super::faults::{self, Fault};
use super::holds::{Accepted, Answer, Ask, Ending, Grant, Record, Step, ns};
use super::kinds::Promise;

/// What an `id` stands for while it is pending.
enum Pending {
    Ask(usize),
    Extend(Option<u32>, usize),
    Release(Option<u32>, usize),
}

/// Follows a history from line to line.
#[derive(Default)]
pub(super) struct Reader {
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
    pub(super) fn names(&mut self, history: &History) {
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

    pub(super) fn line(&mut self, t_ns: u64, entry: &Entry) {
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
        let mut locks: Vec<u32> = acquire.names().iter().map(|lock| self.lock(lock)).collect();
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
            failed: false,
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
        ask.failed = matches!(end, End::Failed { .. });
        let (name, token, sent_ns) = match end {
            End::Ok {
                grant,
                token,
                sent_ns,
                lease_ms,
            } => {
                ask.answer = Answer::Ok;
                if let Some(lease_ms) = lease_ms {
                    ask.lease_ns = Some(lease_ms.saturating_mul(1_000_000));
                }
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
            Event::Lost { grant, at_ns, .. } => {
                if let (_, Some(grant)) = self.named(grant) {
                    // Told before it was written down, but not before it was granted.
                    let told_ns = at_ns.map_or(t_ns, |at_ns| at_ns.min(t_ns));
                    grant.lost_ns.get_or_insert(told_ns.max(grant.returned_ns));
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

    pub(super) fn finish(mut self, history: &History) -> Record {
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
