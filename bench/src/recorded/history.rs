//! The sink that writes a client's steps into the history, and does its holders' work on what is protected.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use results::history::{Acquire, Call, End, Entry, Event};

use super::write_path::WritePath;
use super::{Protects, Record};
use crate::load::{CycleRequest, Sink, Task, TaskHold};
use crate::subject::{AcquireEnd, ClientEvent, ReleaseEnd, is_shared};

/// So many events of grants that are not on record are kept; what comes beyond is counted.
const EARLY_MAX: usize = 1000;

pub(super) struct ClientHistory {
    pub(super) record: Arc<Record>,
    pub(super) name: String,
    pub(super) incarnation: u32,
    grants: Mutex<Grants>,
    pub(super) way: WritePath,
}

#[derive(Default)]
struct Grants {
    /// Those on record, and whether the library has said that they are lost; also after their release.
    lost: HashMap<String, bool>,
    /// What was said of grants that are not on record yet: another task writes the `ok`.
    early: Vec<ClientEvent>,
    beyond: usize,
}

impl ClientHistory {
    pub(super) fn new(record: &Arc<Record>, name: &str, incarnation: u32) -> Self {
        ClientHistory {
            record: Arc::clone(record),
            name: name.to_owned(),
            incarnation,
            grants: Mutex::default(),
            way: WritePath::default(),
        }
    }

    /// The name of a grant in the history: the subject's own is unique only within one process.
    fn grant(&self, own: &str) -> String {
        match self.incarnation {
            0 => format!("{}/{own}", self.name),
            again => format!("{}.{again}/{own}", self.name),
        }
    }

    fn grants(&self) -> MutexGuard<'_, Grants> {
        self.grants.lock().expect("no panic")
    }

    /// Writes down what the library says of a grant, once the grant is on record.
    pub(super) fn happened(&self, event: ClientEvent) {
        let mut grants = self.grants();
        if of(&event).is_some_and(|grant| grants.lost.contains_key(grant)) {
            self.write(&mut grants, event);
        } else if grants.early.len() < EARLY_MAX {
            grants.early.push(event);
        } else {
            grants.beyond += 1;
        }
    }

    /// How many events were about grants that never came.
    pub(super) fn strays(&self) -> usize {
        let grants = self.grants();
        grants.early.len() + grants.beyond
    }

    fn write(&self, grants: &mut Grants, event: ClientEvent) {
        let sink = &self.record.sink;
        match event {
            ClientEvent::Lost { grant, reason, at } => {
                sink.record(Entry::Event(Event::Lost {
                    grant: self.grant(&grant),
                    reason: Some(reason),
                    // Lines are in order of time, so what was said earlier is dated in the line.
                    at_ns: Some(sink.ns(at)),
                }));
                // On record first: only then may a task act on it.
                grants.lost.insert(grant, true);
            }
            ClientEvent::Extended { grant, lease, sent_at: Some(sent_at) } => {
                // The call cannot be written into the past, so the lease is shortened. Of one that is over by
                // now nothing is written: it would last until now, where nobody promised it.
                let age = Instant::now().saturating_duration_since(sent_at);
                let lease_ms = ms(lease.saturating_sub(age));
                if lease_ms > 0 {
                    let id = self.call(Call::Extend {
                        grant: self.grant(&grant),
                        lease_ms,
                        by: Some("watchdog".to_owned()),
                    });
                    self.end(id, End::done());
                }
            }
            // Without the time of its sending a renewal does not extend the contract, so it says nothing.
            ClientEvent::Extended { sent_at: None, .. } | ClientEvent::Exited { .. } => {}
        }
    }

    fn call(&self, call: Call) -> u64 {
        let id = self.record.next_id.fetch_add(1, Ordering::Relaxed);
        self.record.sink.record(Entry::Call { id, call });
        id
    }

    fn end(&self, id: u64, end: End) {
        self.record.sink.record(Entry::End { id, end });
    }
}

impl Sink for ClientHistory {
    fn acquires(&self, task: &Task, asked: &CycleRequest, _: Instant, due: Option<Instant>) -> u64 {
        let load = &task.shared.load;
        let mut names = asked.names(load);
        let single = (names.len() == 1 && &*asked.kind != "multi").then(|| names.remove(0));
        let call = self.call(Call::Acquire(Acquire {
            client: self.name.clone(),
            owner: task.owner().into_owned(),
            lock: single,
            locks: (!names.is_empty()).then_some(names),
            kind: asked.kind.to_string(),
            lease_ms: asked.lease.map(ms),
            wait_ms: load.wait.map(ms),
            permits: asked.permits,
        }));
        if let Some(due) = due {
            self.record.callers().calls(call, self.record.sink.ns(due));
        }
        call
    }

    fn acquired(&self, _task: &Task, call: u64, held: &TaskHold) {
        let sink = &self.record.sink;
        let end = End::Ok {
            grant: Some(self.grant(&held.grant)),
            token: held.token,
            sent_ns: held.sent_at.map(|at| sink.ns(at)),
            returned_ns: held.returned_at.map(|at| sink.ns(at)),
            lease_ms: held.lease.map(ms),
            at: held.at.clone(),
        };
        self.end(call, end);
        let mut grants = self.grants();
        grants.lost.insert(held.grant.clone(), false);
        let early = std::mem::take(&mut grants.early).into_iter();
        let (now, later) = early.partition(|event| of(event) == Some(&held.grant));
        grants.early = later;
        let now: Vec<ClientEvent> = now;
        now.into_iter().for_each(|event| self.write(&mut grants, event));
        drop(grants);
        self.record.callers().answer(call, sink.ns(held.granted), true);
        self.record.grants.send_modify(|grants| *grants += 1);
    }

    fn refused(&self, _task: &Task, call: u64, _called: Instant, end: AcquireEnd) -> Duration {
        let end = match end {
            AcquireEnd::Ok { .. } | AcquireEnd::Busy => End::Busy,
            AcquireEnd::Failed(error) => End::Failed { error: Some(error) },
            AcquireEnd::Unknown(error) => unknown(error),
        };
        self.end(call, end);
        let now_ns = self.record.sink.ns(Instant::now());
        self.record.callers().answer(call, now_ns, false);
        Duration::ZERO
    }

    fn given_up(&self) {
        self.record.given_up.fetch_add(1, Ordering::Relaxed);
    }

    fn due(&self, at: Instant) {
        self.record.callers().due(self.record.sink.ns(at));
    }

    fn releases(&self, _task: &Task, held: &TaskHold, _sent: Instant) -> u64 {
        let grant = self.grant(&held.grant);
        self.call(Call::Release { grant })
    }

    fn released(&self, _task: &Task, call: u64, _held: &TaskHold, _sent: Instant, end: ReleaseEnd) {
        self.end(call, ended(end));
    }

    fn abandoned(&self, _task: &Task, _held: &TaskHold, _at: Instant) {}

    fn names_owners(&self) -> bool {
        true
    }

    fn extends(&self, _task: &Task, held: &TaskHold, lease: Duration) -> u64 {
        self.call(Call::Extend { grant: self.grant(&held.grant), lease_ms: ms(lease), by: None })
    }

    fn extended(&self, _task: &Task, call: u64, held: &TaskHold, end: ReleaseEnd) {
        if end == ReleaseEnd::NotHeld {
            self.grants().lost.insert(held.grant.clone(), true);
        }
        self.end(call, ended(end));
    }

    fn is_lost(&self, held: &TaskHold) -> bool {
        self.grants().lost.get(&held.grant) == Some(&true)
    }

    /// The counters as they were read when the hold began, in the order of the locks.
    fn begins_work(&self, task: &Task, held: &TaskHold) -> Vec<i64> {
        let (load, resources) = (&task.shared.load, &self.record.resources);
        match (load.protects, held.token) {
            _ if is_shared(&held.asked.kind) => Vec::new(),
            (Protects::Counter, _) => {
                held.asked.names(load).iter().map(|lock| resources.read(lock)).collect()
            }
            (Protects::Register, Some(_)) => {
                self.ends_work(task, held, Vec::new());
                Vec::new()
            }
            (Protects::Register, None) | (Protects::None, _) => Vec::new(),
        }
    }

    /// Writes; what is late arrives later, whatever has become of the hold until then.
    fn ends_work(&self, task: &Task, held: &TaskHold, seen: Vec<i64>) {
        let protects = task.shared.load.protects;
        if protects == Protects::None || is_shared(&held.asked.kind) {
            return;
        }
        let record = Arc::clone(&self.record);
        let locks = held.asked.names(&task.shared.load);
        let (grant, token) = (self.grant(&held.grant), held.token);
        self.way.send(&task.shared, move || {
            let (resources, sink) = (&record.resources, record.sink.as_ref());
            for (index, lock) in locks.iter().enumerate() {
                match (protects, token) {
                    (Protects::Counter, _) => {
                        resources.write(lock, &grant, token, seen[index], sink);
                    }
                    (Protects::Register, Some(token)) => resources.show(lock, &grant, token, sink),
                    (Protects::Register, None) | (Protects::None, _) => {}
                }
            }
        });
    }
}

fn of(event: &ClientEvent) -> Option<&String> {
    match event {
        ClientEvent::Lost { grant, .. } | ClientEvent::Extended { grant, .. } => Some(grant),
        ClientEvent::Exited { .. } => None,
    }
}

fn unknown(error: String) -> End {
    End::Unknown { error: Some(error), grant: None }
}

fn ended(end: ReleaseEnd) -> End {
    match end {
        ReleaseEnd::Ok => End::done(),
        ReleaseEnd::NotHeld => End::NotHeld,
        ReleaseEnd::Failed(error) => End::Failed { error: Some(error) },
        ReleaseEnd::Unknown(error) => unknown(error),
    }
}

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
