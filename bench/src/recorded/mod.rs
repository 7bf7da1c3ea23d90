//! A load that is written down: connected clients go through it, and what they do becomes a history.
//!
//! Each call is written down before it is sent and each answer before anybody acts on it, so that the record
//! of a client that is killed is complete up to its death. Tasks pass a gate before every step: a client
//! whose process is stopped does nothing, and goes on believing what it believed.
//!
//! | file | what it is for |
//! |---|---|
//! | `client.rs` | the tasks of a client, and the gate that stops them |
//! | `history.rs` | writes their steps down, and works while a lock is held |
//! | `resource.rs`, `write_path.rs` | what a lock protects, and how writes get there |
//! | `callers.rs` | callers of an open loop, until their grant |

mod callers;
mod client;
mod history;
mod resource;
mod write_path;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use results::open_loop::OpenLoopCall;
use tokio::sync::watch;

use crate::load::LoadState;
pub use crate::load::{Load, Owners, Protects};
use crate::sink::Sink;
use crate::subject::Connected;

pub use client::{ClientReport, RunningClient};

/// How long a herd waits for members whose process is stopped.
const PATIENCE: Duration = Duration::from_secs(1);

/// A load that runs: its clients come and go.
#[derive(Clone)]
pub struct LoadRun {
    record: Arc<Record>,
}

struct Record {
    shared: Arc<LoadState>,
    sink: Arc<dyn Sink>,
    resources: resource::Resources,
    next_id: AtomicU64,
    grants: watch::Sender<u64>,
    callers: Mutex<callers::Callers>,
    /// The first task's number of each client: one that comes back has its numbers again.
    numbers: Mutex<Vec<(String, u32)>>,
    given_up: AtomicU64,
}

impl LoadRun {
    /// A load over no clients yet.
    pub fn new(load: Load, sink: Arc<dyn Sink>) -> Self {
        LoadRun {
            record: Arc::new(Record {
                shared: Arc::new(LoadState::new(load, None, Some(PATIENCE))),
                sink,
                resources: resource::Resources::default(),
                next_id: AtomicU64::new(1),
                grants: watch::Sender::new(0),
                callers: Mutex::default(),
                numbers: Mutex::default(),
                given_up: AtomicU64::new(0),
            }),
        }
    }

    /// Starts a client's tasks, one per seed, owners `t0`, `t1` …; everything that a task draws comes from
    /// its seed. `name` is `c1`, `c2` …; `incarnation` tells a restarted client's grants from those before (0
    /// at first).
    pub fn start_client(
        &self,
        name: &str,
        incarnation: u32,
        task_seeds: &[u64],
        connected: Connected,
    ) -> RunningClient {
        client::start(&self.record, name, incarnation, task_seeds, connected)
    }

    /// How many grants there were so far.
    pub fn grants(&self) -> watch::Receiver<u64> {
        self.record.grants.subscribe()
    }

    /// In an open loop, how long each caller waited from the moment at which it was due, on the sink's clock,
    /// so that a lock that stalls cannot hide the calls it kept from being made (coordinated omission). To be
    /// asked for after the load; empty in a closed loop.
    pub fn waits(&self) -> Vec<OpenLoopCall> {
        self.record.callers().waits()
    }

    /// How many acquires their callers gave up before the answer.
    pub fn given_up(&self) -> u64 {
        self.record.given_up.load(Ordering::Relaxed)
    }

    /// Ends the load: holders release at once, waiters get their answer, nobody begins another cycle.
    pub fn stop(&self) {
        let now_ns = self.record.sink.ns(Instant::now());
        self.record.callers().end(now_ns);
        self.record.shared.end();
    }
}

impl Record {
    fn callers(&self) -> MutexGuard<'_, callers::Callers> {
        self.callers.lock().expect("no panic")
    }

    fn number(&self, client: &str, tasks: usize) -> u32 {
        let mut numbers = self.numbers.lock().expect("no panic");
        if let Some((_, number)) = numbers.iter().find(|(name, _)| name == client) {
            // Its tasks left the herd when they ended.
            (0..tasks).for_each(|_| self.shared.herd.join());
            return *number;
        }
        let number = self.shared.numbers(tasks);
        numbers.push((client.to_owned(), number));
        number
    }
}
