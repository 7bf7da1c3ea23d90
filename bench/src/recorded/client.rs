//! Turns a connected client into running tasks, a gate that stops them all, and a pump for what the library reports unasked.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use results::history::{Call, End, Entry, Event};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use super::way::Way;
use super::{Shared, task};
use crate::subject::{ClientEvent, Connected, LockClient};

/// How long the tasks of a client may take to end after the load was stopped, besides what their waits allow.
const END_WITHIN: Duration = Duration::from_secs(10);

/// A client of a running load.
pub struct RunningClient {
    inner: Arc<Inner>,
    tasks: Vec<JoinHandle<()>>,
    pump: JoinHandle<()>,
}

/// What is to be told of a client that has finished.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Finished {
    /// Tasks that did not end in time.
    pub late: Option<String>,
    /// How its process had ended before it was closed: the line that broke the protocol, and the end of its log.
    pub ended: Option<String>,
    /// Requests that it never answered.
    pub unanswered: Option<String>,
}

/// What a client's tasks share.
pub(super) struct Inner {
    pub(super) shared: Arc<Shared>,
    pub(super) name: String,
    pub(super) incarnation: u32,
    pub(super) client: Box<dyn LockClient>,
    /// The load's kinds by weight, the empty one by the name that this client gives it.
    pub(super) mix: Vec<(String, u32)>,
    paused: watch::Sender<bool>,
    dead: watch::Sender<bool>,
    held: Mutex<HashMap<String, Arc<AtomicBool>>>,
    way: Way,
}

pub(super) fn start(
    shared: Arc<Shared>,
    name: &str,
    incarnation: u32,
    task_seeds: &[u64],
    connected: Connected,
) -> RunningClient {
    let default_kind = connected.client.default_kind().unwrap_or_default();
    let named = |kind: &String| match kind.is_empty() {
        true => default_kind.to_owned(),
        false => kind.clone(),
    };
    let mix = shared.load.mix.iter();
    let mix = mix.map(|(kind, weight)| (named(kind), *weight)).collect();
    let inner = Arc::new(Inner {
        mix,
        name: name.to_owned(),
        incarnation,
        client: connected.client,
        paused: watch::Sender::new(false),
        dead: watch::Sender::new(false),
        held: Mutex::default(),
        way: Way::default(),
        shared,
    });
    let tasks = task_seeds
        .iter()
        .enumerate()
        .map(|(number, seed)| tokio::spawn(task::run(Arc::clone(&inner), number, *seed)))
        .collect();
    let pump = tokio::spawn(pump(Arc::clone(&inner), connected.events));
    RunningClient { inner, tasks, pump }
}

impl RunningClient {
    /// Its name in the history.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// The process that is this client.
    pub fn pid(&self) -> Option<u32> {
        self.inner.client.pid()
    }

    /// Whether its process has ended.
    pub fn is_dead(&self) -> bool {
        *self.inner.dead.borrow()
    }

    /// Closes the gate, to be called just before its process is stopped: from now on its tasks begin no step.
    pub fn pause(&self) {
        self.inner.paused.send_replace(true);
        self.inner.client.set_paused(true);
    }

    /// Opens the gate, to be called just after its process goes on.
    pub fn resume(&self) {
        self.inner.client.set_paused(false);
        self.inner.paused.send_replace(false);
    }

    /// From now on its writes to the protected resource arrive so much later; zero: at once again, which what is under way does not notice.
    pub fn delay_writes(&self, latency: Duration) {
        self.inner.way.set_latency(latency);
    }

    /// How many of its writes have arrived late.
    pub fn late_writes(&self) -> u64 {
        self.inner.way.late()
    }

    /// Waits until its process is known to have ended: the death is on record by then.
    pub async fn died(&self) {
        let _ = self.inner.dead.subscribe().wait_for(|dead| *dead).await;
    }

    /// Waits for the tasks to end (stop the load first, or let the client die) and closes the client in an orderly way.
    pub async fn finish(self) -> Finished {
        let wait = self.inner.shared.load.wait.unwrap_or_default();
        let end = tokio::time::Instant::now() + wait + END_WITHIN;
        let mut late = 0;
        for mut task in self.tasks {
            if tokio::time::timeout_at(end, &mut task).await.is_err() {
                task.abort();
                let _ = task.await;
                late += 1;
            }
        }
        self.pump.abort();
        let _ = self.pump.await;
        let name = self.inner.name.clone();
        self.inner.way.all_arrived().await;
        let finished = Finished {
            late: (late > 0).then(|| {
                format!(
                    "{late} tasks of {name} did not end within {:?} after the load",
                    wait + END_WITHIN
                )
            }),
            ended: self.inner.client.ended(),
            unanswered: self.inner.client.unanswered(),
        };
        if let Some(inner) = Arc::into_inner(self.inner) {
            inner.client.close().await;
        }
        finished
    }
}

impl Inner {
    /// Passes when the client's process runs; false when it is dead and nothing is to be done any more.
    pub(super) async fn gate(&self) -> bool {
        if self.is_dead() {
            return false;
        }
        let mut paused = self.paused.subscribe();
        let mut dead = self.dead.subscribe();
        tokio::select! {
            biased;
            _ = dead.wait_for(|dead| *dead) => false,
            open = paused.wait_for(|paused| !*paused) => open.is_ok(),
        }
    }

    /// Lets a write go to the protected resource.
    pub(super) fn send(&self, arrive: impl FnOnce() + Send + 'static) {
        self.way.send(&self.shared, arrive);
    }

    pub(super) fn is_dead(&self) -> bool {
        *self.dead.borrow()
    }

    /// The name of a grant in the history: the subject's own is unique only within one process.
    pub(super) fn grant(&self, own: &str) -> String {
        match self.incarnation {
            0 => format!("{}/{own}", self.name),
            again => format!("{}.{again}/{own}", self.name),
        }
    }

    /// A flag that is raised when the library says that this grant is lost.
    pub(super) fn watch_grant(&self, own: &str) -> Arc<AtomicBool> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(held.entry(own.to_owned()).or_default())
    }

    pub(super) fn forget_grant(&self, own: &str) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.remove(own);
    }
}

/// Writes down what the library reports unasked.
async fn pump(inner: Arc<Inner>, mut events: mpsc::UnboundedReceiver<ClientEvent>) {
    let sink = &inner.shared.sink;
    while let Some(event) = events.recv().await {
        match event {
            ClientEvent::Lost { grant, reason, at } => {
                sink.record(Entry::Event(Event::Lost {
                    grant: inner.grant(&grant),
                    reason: Some(reason),
                    // Lines are in order of time, so what was told earlier is said in the line.
                    at_ns: Some(sink.ns(at)),
                }));
                // On record first: only then may a task act on it.
                inner.watch_grant(&grant).store(true, Ordering::Release);
            }
            // Without the time of its sending a renewal does not lengthen the contract, so it says nothing.
            ClientEvent::Extended { sent_at: None, .. } => {}
            ClientEvent::Extended {
                grant,
                lease,
                sent_at: Some(sent_at),
            } => {
                // A history is in order of time, so the call cannot be written into the past: the lease is shortened instead.
                let age = Instant::now().saturating_duration_since(sent_at);
                let left = lease.saturating_sub(age);
                let id = inner.shared.id();
                sink.record(Entry::Call {
                    id,
                    call: Call::Extend {
                        grant: inner.grant(&grant),
                        lease_ms: task::ms(left),
                        by: Some("watchdog".to_owned()),
                    },
                });
                sink.record(Entry::End { id, end: ok() });
            }
            ClientEvent::Exited { .. } => {
                sink.record(Entry::Event(Event::Crash {
                    client: inner.name.clone(),
                }));
                inner.dead.send_replace(true);
                return;
            }
        }
    }
}

/// An `ok` that carries nothing.
pub(super) fn ok() -> End {
    End::Ok {
        grant: None,
        token: None,
        sent_ns: None,
        lease_ms: None,
    }
}
