//! Turns a load and connected clients into a recorded history.
//!
//! Each call is written down before it is sent and each answer before anybody acts on it, so that the record of a client that is
//! killed is complete up to its death. Tasks pass a gate before every step: a client whose process is stopped does nothing, and
//! goes on believing what it believed.

mod client;
mod resource;
mod task;
mod way;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::watch;

use crate::sink::Sink;
use crate::subject::Connected;

pub use client::{Finished, RunningClient};

/// What the tasks of a scenario do.
#[derive(Debug, Clone, PartialEq)]
pub struct Load {
    /// Lock names; each round draws one uniformly.
    pub locks: Vec<String>,
    /// Kinds by weight; each round draws one. Never empty, weights above 0. An empty name is the client's own default.
    pub mix: Vec<(String, u32)>,
    /// The lease asked for; `None`: renewed.
    pub lease: Option<Duration>,
    /// The longest wait; `None`: without bound.
    pub wait: Option<Duration>,
    /// How long a holder keeps, uniform between the two, whatever its lease.
    pub hold: (Duration, Duration),
    /// Pause between two rounds, uniform between the two.
    pub think: (Duration, Duration),
    /// Every holder extends by the full lease this often; needs a lease.
    pub extend: Option<Duration>,
    /// Share of holds that take the lock once more inside, 0 to 1.
    pub reenter: f64,
    /// How long a writer writes before it becomes a reader, without anybody in between; `None`: never.
    pub downgrade: Option<Duration>,
    /// What the holder works on.
    pub protects: Protects,
    /// Permits of one acquire, for the kinds that count.
    pub permits: u32,
}

/// What a holder works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protects {
    /// Nothing.
    None,
    /// A counter per lock: read when granted, sleep, write at the end. A lost update is damage.
    Counter,
    /// A register per lock that refuses a token lower than one it has taken.
    Register,
}

/// A load that runs: its clients come and go.
#[derive(Clone)]
pub struct LoadRun {
    shared: Arc<Shared>,
}

struct Shared {
    load: Load,
    sink: Arc<dyn Sink>,
    resources: resource::Resources,
    next_id: AtomicU64,
    grants: watch::Sender<u64>,
    stop: watch::Sender<bool>,
}

impl LoadRun {
    /// A load over no clients yet.
    pub fn new(load: Load, sink: Arc<dyn Sink>) -> Self {
        LoadRun {
            shared: Arc::new(Shared {
                load,
                sink,
                resources: resource::Resources::default(),
                next_id: AtomicU64::new(1),
                grants: watch::Sender::new(0),
                stop: watch::Sender::new(false),
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
        let shared = Arc::clone(&self.shared);
        client::start(shared, name, incarnation, task_seeds, connected)
    }

    /// How many grants there were so far.
    pub fn grants(&self) -> watch::Receiver<u64> {
        self.shared.grants.subscribe()
    }

    /// Ends the load: holders release at once, waiters get their answer, nobody begins another round.
    pub fn stop(&self) {
        self.shared.stop.send_replace(true);
    }
}

impl Shared {
    fn id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    fn stopped(&self) -> bool {
        *self.stop.borrow()
    }

    /// Sleeps, but no longer than the load lasts.
    async fn sleep_until(&self, at: tokio::time::Instant) {
        let mut stop = self.stop.subscribe();
        tokio::select! {
            () = tokio::time::sleep_until(at) => {}
            _ = stop.wait_for(|stop| *stop) => {}
        }
    }
}
