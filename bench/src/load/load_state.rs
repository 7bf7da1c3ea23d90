//! What the tasks of a load have in common, and those who watch them.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use tokio::sync::{Semaphore, watch};

use super::{Connector, Load, herd::Herd, keys::Keys};
use crate::workload::{Rhythm, arrivals::Schedule};

/// Cycles of an open loop that are due and that nobody has taken yet.
pub(crate) struct Ticks {
    pub(super) due: Semaphore,
    schedule: Mutex<Schedule>,
    pub(super) began: OnceLock<Instant>,
}

impl Ticks {
    /// When the next cycle was due that nobody has taken.
    pub(super) fn next(&self) -> Option<Instant> {
        let after_ns = self.schedule.lock().expect("no panic").next()?;
        Some(*self.began.get()? + Duration::from_nanos(after_ns))
    }
}

pub(crate) struct LoadState {
    pub(crate) load: Load,
    pub(crate) connector: Option<Connector>,
    pub(crate) keys: Keys,
    pub(crate) ticks: Option<Ticks>,
    pub(crate) preparing: AtomicU64,
    pub(crate) grants: watch::Sender<u64>,
    pub(crate) counts_grants: bool,
    pub(crate) herd: Herd,
    /// Set at the end of the load. Read in every cycle, so cheaper than what wakes those who sleep.
    over: AtomicBool,
    stopped: watch::Sender<bool>,
    tasks: AtomicU64,
}

impl LoadState {
    /// A load over no clients yet. `patience`: how long a herd waits for those who do not come.
    pub(crate) fn new(load: Load, connector: Option<Connector>, patience: Option<Duration>) -> Self {
        let rhythm = load.workload.rhythm;
        let prepares = u64::from(rhythm == Rhythm::Keep);
        LoadState {
            keys: Keys::new(&load),
            ticks: load.schedule().map(|(_, schedule)| Ticks {
                due: Semaphore::new(0),
                schedule: Mutex::new(schedule),
                began: OnceLock::new(),
            }),
            preparing: AtomicU64::new(prepares * u64::from(load.own_tasks())),
            grants: watch::Sender::new(0),
            counts_grants: rhythm == Rhythm::Chain,
            herd: Herd::new(load.own_tasks(), patience),
            over: AtomicBool::new(false),
            stopped: watch::Sender::new(false),
            tasks: AtomicU64::new(0),
            connector,
            load,
        }
    }

    pub(crate) fn numbers(&self, tasks: usize) -> u32 {
        u32::try_from(self.tasks.fetch_add(tasks as u64, Relaxed)).unwrap_or(u32::MAX)
    }

    pub(crate) fn running(&self) -> bool {
        !self.over.load(Relaxed)
    }

    /// Ends the load: holders release at once, waiters get their answer, nobody begins another cycle.
    pub(crate) fn end(&self) {
        self.over.store(true, SeqCst);
        self.stopped.send_replace(true);
        if let Some(ticks) = &self.ticks {
            ticks.due.close();
        }
    }

    pub(crate) async fn ended(&self) {
        let mut stopped = self.stopped.subscribe();
        // Fails only without a sender, and the sender is ours.
        let _ = stopped.wait_for(|stopped| *stopped).await;
    }

    /// Sleeps, but no longer than the load lasts.
    pub(crate) async fn sleep_until(&self, at: tokio::time::Instant) {
        tokio::select! {
            () = tokio::time::sleep_until(at) => {}
            () = self.ended() => {}
        }
    }
}
