//! A connected client as running tasks, a gate that stops them, and a pump for what the library reports.

use std::sync::Arc;
use std::time::Duration;

use results::history::{Entry, Event};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::Record;
use super::history::ClientHistory;
use crate::exec::Processes;
use crate::load::{self, Gate, Pacer, SharedClient, Task};
use crate::subject::{ClientEvent, Connected};

/// How long the tasks of a client may take to end after the load was stopped, besides what their waits allow.
const END_WITHIN: Duration = Duration::from_secs(20);

/// A client of a running load.
pub struct RunningClient {
    history: Arc<ClientHistory>,
    client: SharedClient,
    gate: Arc<Gate>,
    tasks: Vec<JoinHandle<()>>,
    pump: JoinHandle<()>,
}

/// What is to be said of a client that has finished.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientReport {
    /// Tasks that did not end in time.
    pub late: Option<String>,
    /// How its process had ended before it was closed: the line that broke the protocol, the end of its log.
    pub ended: Option<String>,
    /// Requests that it never answered.
    pub unanswered: Option<String>,
    /// Events of grants that it never gave.
    pub strays: Option<String>,
    /// Its processes that had left their group, or could not be ended.
    pub outside: Option<String>,
}

pub(super) fn start(
    record: &Arc<Record>,
    name: &str,
    incarnation: u32,
    task_seeds: &[u64],
    connected: Connected,
) -> RunningClient {
    let history = Arc::new(ClientHistory::new(record, name, incarnation));
    let client: SharedClient = Arc::new(connected.client);
    let gate = Arc::new(Gate::default());
    Pacer::start(&record.shared, history.clone());
    let first = record.number(name, task_seeds.len());
    let tasks = (0_u32..)
        .zip(task_seeds)
        .map(|(number, seed)| {
            tokio::spawn(load::run(Task::new(
                Arc::clone(&record.shared),
                client.clone(),
                Some(gate.clone()),
                history.clone(),
                (first + number, format!("t{number}")),
                // A restarted client goes on with other draws than it began with.
                seed.wrapping_add(u64::from(incarnation)),
            )))
        })
        .collect();
    let pump = tokio::spawn(pump(history.clone(), gate.clone(), connected.events));
    RunningClient { history, client, gate, tasks, pump }
}

impl RunningClient {
    /// Its name in the history.
    pub fn name(&self) -> &str {
        &self.history.name
    }

    /// The processes that are this client.
    pub fn processes(&self) -> Option<&Processes> {
        self.client.processes()
    }

    /// Whether its process has ended.
    pub fn is_dead(&self) -> bool {
        self.gate.is_dead()
    }

    /// Closes the gate, to be called just before its process is stopped: from now on its tasks begin no step.
    pub fn pause(&self) {
        self.gate.set_paused(true);
        self.client.set_paused(true);
    }

    /// Opens the gate, to be called just after its process goes on.
    pub fn resume(&self) {
        self.client.set_paused(false);
        self.gate.set_paused(false);
    }

    /// As [`LockClient::block`](crate::subject::LockClient::block); its tasks go on.
    pub async fn block(&self, time: Duration) -> Result<Duration, String> {
        self.client.block(time).await
    }

    /// From now on its writes to the protected resource arrive so much later; zero: at once again, which what
    /// is under way does not notice.
    pub fn delay_writes(&self, latency: Duration) {
        self.history.way.set_latency(latency);
    }

    /// How many of its writes have arrived late.
    pub fn late_writes(&self) -> u64 {
        self.history.way.late()
    }

    /// Waits until its process is known to have ended: the death is on record by then.
    pub async fn died(&self) {
        self.gate.died().await;
    }

    /// Waits for the tasks to end (stop the load first, or let the client die) and closes the client.
    pub async fn finish(self) -> ClientReport {
        let wait = self.history.record.shared.load.wait.unwrap_or_default();
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
        let name = self.history.name.clone();
        self.history.way.all_arrived().await;
        let strays = self.history.strays();
        let processes = self.client.processes().cloned();
        let mut finished = ClientReport {
            late: (late > 0).then(|| {
                format!("{late} tasks of {name} did not end within {:?} after the load", wait + END_WITHIN)
            }),
            ended: self.client.ended(),
            unanswered: self.client.unanswered(),
            strays: (strays > 0).then(|| {
                format!(
                    "{strays} events of {name} are about grants that it never gave, and are not on record"
                )
            }),
            outside: None,
        };
        if let Some(client) = Arc::into_inner(self.client) {
            client.close().await;
        }
        let outside = processes.and_then(|processes| processes.escaped());
        finished.outside =
            outside.map(|which| format!("processes of {name} that left the driver's process group: {which}"));
        finished
    }
}

/// Writes down what the library reports unasked.
async fn pump(
    history: Arc<ClientHistory>,
    gate: Arc<Gate>,
    mut events: mpsc::UnboundedReceiver<ClientEvent>,
) {
    while let Some(event) = events.recv().await {
        if let ClientEvent::Exited { .. } = event {
            let client = history.name.clone();
            let sink = &history.record.sink;
            sink.record(Entry::Event(Event::Crash { client }));
            return gate.set_dead();
        }
        history.happened(event);
    }
}
