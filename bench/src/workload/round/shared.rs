//! What the tasks of a round and those who watch them share.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{
            AtomicBool, AtomicU64,
            Ordering::{Relaxed, SeqCst},
        },
    },
    time::{Duration, Instant},
};

use tokio::sync::{Barrier, Semaphore, watch};

use super::renewals::Renewals;
use crate::{
    subject::{ConnectTo, LockClient, Subject},
    workload::{
        Asks, Workload,
        arrivals::{Pace, Schedule},
        keys::Keys,
        record::{SHARDS, Samples, TaskState},
    },
};

/// Share of the lease that is not trusted, as in the contract's definition.
const DRIFT: f64 = 0.01;

/// A client as tasks share it.
pub(crate) type SharedClient = Arc<Box<dyn LockClient>>;

/// What a round needs.
pub(crate) struct Load {
    pub(crate) workload: &'static Workload,
    pub(crate) subject: Arc<dyn Subject>,
    /// How clients connect that a workload makes itself.
    pub(crate) connect: ConnectTo,
    pub(crate) tasks: u32,
    /// Lock names, fresh for this round.
    pub(crate) locks: Vec<String>,
    pub(crate) asks: Asks,
    pub(crate) kind: String,
    pub(crate) lease: Option<Duration>,
    pub(crate) wait: Duration,
    pub(crate) hold: Duration,
    pub(crate) think: Duration,
    pub(crate) warmup: Duration,
    pub(crate) duration: Duration,
    /// Open loop.
    pub(crate) pace: Option<Pace>,
    pub(crate) seed: u64,
}

/// Arrivals of an open loop that nobody has taken yet.
pub(crate) struct Ticks {
    /// One permit per tick that is due.
    pub(crate) due: Semaphore,
    /// The schedule, as far as it was taken.
    pub(crate) schedule: Mutex<Schedule>,
    /// When the schedule began, on the round's clock.
    pub(crate) began_ns: AtomicU64,
}

pub(crate) struct Shared {
    pub(crate) load: Load,
    /// How many clients share the tasks.
    pub(crate) clients: u32,
    pub(super) base: Instant,
    /// The window, nanoseconds on the round's clock; `u64::MAX` until it is known.
    pub(super) from_ns: AtomicU64,
    pub(super) to_ns: AtomicU64,
    /// Set at the end of the window.
    pub(super) stop: AtomicBool,
    /// The same for those who sleep.
    pub(super) stopped: watch::Sender<bool>,
    pub(crate) states: Vec<TaskState>,
    pub(super) shards: Vec<Mutex<Samples>>,
    pub(crate) keys: Keys,
    pub(crate) ticks: Option<Ticks>,
    /// Tasks that still prepare: the window does not begin before.
    pub(crate) preparing: AtomicU64,
    /// Grants so far, for those who wait for the next one's.
    pub(crate) grants: watch::Sender<u64>,
    /// Where a herd gathers.
    pub(crate) gate: Barrier,
    /// Whether the herd goes on, as its first member saw it.
    pub(crate) herd_goes_on: AtomicBool,
    pub(crate) renewals: Renewals,
    /// Holds that last, and the most that ever did at once.
    inside: AtomicU64,
    most_inside: AtomicU64,
}

impl Shared {
    pub(super) fn new(load: Load, clients: usize) -> Self {
        let preparing = if load.workload.prepares {
            load.tasks
        } else {
            0
        };
        Shared {
            clients: u32::try_from(clients).unwrap_or(u32::MAX),
            base: Instant::now(),
            from_ns: AtomicU64::new(u64::MAX),
            to_ns: AtomicU64::new(u64::MAX),
            stop: AtomicBool::new(false),
            stopped: watch::Sender::new(false),
            states: (0..load.tasks).map(|_| TaskState::default()).collect(),
            shards: (0..SHARDS).map(|_| Mutex::new(Samples::new())).collect(),
            keys: Keys::new(load.workload.spread, load.tasks, load.locks.len()),
            ticks: load.pace.map(|pace| Ticks {
                due: Semaphore::new(0),
                schedule: Mutex::new(Schedule::new(pace, load.seed)),
                began_ns: AtomicU64::new(0),
            }),
            preparing: AtomicU64::new(u64::from(preparing)),
            grants: watch::Sender::new(0),
            gate: Barrier::new(load.tasks as usize),
            herd_goes_on: AtomicBool::new(true),
            renewals: Renewals::default(),
            inside: AtomicU64::new(0),
            most_inside: AtomicU64::new(0),
            load,
        }
    }

    pub(crate) fn now_ns(&self) -> u64 {
        self.ns_at(Instant::now())
    }

    /// One more than the nanoseconds since the base, so that 0 can mean never.
    pub(crate) fn ns_at(&self, at: Instant) -> u64 {
        let since = at.saturating_duration_since(self.base);
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX - 1) + 1
    }

    pub(super) fn instant_at(&self, t_ns: u64) -> Instant {
        self.base + Duration::from_nanos(t_ns.saturating_sub(1))
    }

    pub(crate) fn window(&self) -> (u64, u64) {
        (self.from_ns.load(Relaxed), self.to_ns.load(Relaxed))
    }

    pub(crate) fn within(&self, t_ns: u64) -> bool {
        let (from, to) = self.window();
        from <= t_ns && t_ns < to
    }

    /// The part of a call that lies in the window.
    pub(super) fn inside(&self, from_ns: u64, to_ns: u64) -> u64 {
        let (from, to) = self.window();
        to_ns.min(to).saturating_sub(from_ns.max(from))
    }

    pub(crate) fn running(&self) -> bool {
        !self.stop.load(Relaxed)
    }

    pub(super) fn end(&self) {
        self.stop.store(true, SeqCst);
        self.stopped.send_replace(true);
        if let Some(ticks) = &self.ticks {
            ticks.due.close();
        }
    }

    /// Returns when the window is over.
    pub(crate) async fn ended(&self) {
        let mut stopped = self.stopped.subscribe();
        // Fails only without a sender, and the sender is ours.
        let _ = stopped.wait_for(|stopped| *stopped).await;
    }

    /// When a contract that began with `sent_at` ends; a renewed one does not by itself.
    pub(super) fn contract_end_ns(
        &self,
        sent_at: Option<Instant>,
        called_ns: u64,
        lease: Option<Duration>,
    ) -> u64 {
        let Some(lease) = lease else {
            return u64::MAX;
        };
        let sent_ns = sent_at.map_or(called_ns, |at| self.ns_at(at));
        let trusted = lease.mul_f64(1.0 - DRIFT);
        sent_ns.saturating_add(u64::try_from(trusted.as_nanos()).unwrap_or(u64::MAX))
    }

    /// A hold begins.
    pub(super) fn entered(&self) {
        if self.load.asks != Asks::One {
            let inside = self.inside.fetch_add(1, Relaxed) + 1;
            self.most_inside.fetch_max(inside, Relaxed);
        }
    }

    /// A hold ends: its release is sent next.
    pub(super) fn left(&self) {
        if self.load.asks != Asks::One {
            self.inside.fetch_sub(1, Relaxed);
        }
    }

    /// The most holds that lasted at once; `None` where a lock has one holder.
    pub(super) fn most_inside(&self) -> Option<u64> {
        (self.load.asks != Asks::One).then(|| self.most_inside.load(Relaxed))
    }

    pub(crate) fn samples(&self, task: u32) -> std::sync::MutexGuard<'_, Samples> {
        self.shards[task as usize % SHARDS]
            .lock()
            .expect("no panic")
    }

    pub(super) fn total_cycles(&self) -> u64 {
        self.states.iter().map(|s| s.cycles.load(Relaxed)).sum()
    }
}
