//! A load that is written down: connected clients go through it, and what they do becomes a history.
//!
//! Each call is written down before it is sent and each answer before anybody acts on it, so that the record of a client that is
//! killed is complete up to its death. Tasks pass a gate before every step: a client whose process is stopped does nothing, and
//! goes on believing what it believed.

mod client;
mod history;
mod resource;
mod way;

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::watch;

use crate::load::Shared;
pub use crate::load::{Load, Protects};
use crate::sink::Sink;
use crate::stats::histogram::Coarse;
use crate::subject::Connected;

pub use client::{Finished, RunningClient};

/// How long a herd waits for members whose process is stopped.
const PATIENCE: Duration = Duration::from_secs(1);

/// A load that runs: its clients come and go.
#[derive(Clone)]
pub struct LoadRun {
    record: Arc<Record>,
}

/// What all clients of a load write to.
struct Record {
    shared: Arc<Shared>,
    sink: Arc<dyn Sink>,
    resources: resource::Resources,
    next_id: AtomicU64,
    grants: watch::Sender<u64>,
    /// From the moment at which each acquire was due to its grant, by the second of the grant.
    responses: Mutex<BTreeMap<u64, Coarse>>,
    /// The first task's number of each client: one that comes back has its numbers again.
    numbers: Mutex<Vec<(String, u32)>>,
}

impl LoadRun {
    /// A load over no clients yet.
    pub fn new(load: Load, sink: Arc<dyn Sink>) -> Self {
        LoadRun {
            record: Arc::new(Record {
                shared: Arc::new(Shared::new(load, None, Some(PATIENCE))),
                sink,
                resources: resource::Resources::default(),
                next_id: AtomicU64::new(1),
                grants: watch::Sender::new(0),
                responses: Mutex::default(),
                numbers: Mutex::default(),
            }),
        }
    }

    /// Starts a client's tasks, one per seed, owners `t0`, `t1` …; everything that a task draws comes from its seed. `name` is `c1`, `c2`
    /// …; `incarnation` tells a restarted client's grants from those before (0 at first).
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

    /// In an open loop, how long grants took from the moment at which each cycle was due, so that a lock that stalls cannot hide the calls
    /// it kept from being made (coordinated omission). As [`Intervals::of`](results::intervals::Intervals::of) takes them: when it was
    /// granted on the sink's clock to the second, how long it took in nanoseconds, how often. Empty in a closed loop.
    pub fn responses(&self) -> Vec<(u64, u64, u64)> {
        let responses = self.record.responses.lock().expect("no panic");
        let at = |(second, taken): (&u64, &Coarse)| {
            let at_ns = second * 1_000_000_000;
            let taken = taken.iter();
            let taken = taken.map(move |(ns, times)| (at_ns, *ns, u64::from(*times)));
            taken.collect::<Vec<_>>()
        };
        responses.iter().flat_map(at).collect()
    }

    /// Ends the load: holders release at once, waiters get their answer, nobody begins another cycle.
    pub fn stop(&self) {
        self.record.shared.end();
    }
}

impl Record {
    /// The first number of a client's tasks.
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
