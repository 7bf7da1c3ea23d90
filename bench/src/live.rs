//! Turns the counters that a round keeps anyway into what somebody sees who looks while it goes on.
//!
//! Nothing is written for the looker: the tasks keep these counters for Little's law and for the judges, whose sampler loads the same
//! atomics every 2 ms, a hundred times as often as a screen does. A look costs the tasks what one more such sample costs.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::workload::round::Shared;

/// Where a bench says which round goes on. Given in [`Hooks`](crate::driver::Hooks), looked at from any thread.
#[derive(Default)]
pub struct LiveLoad {
    round: Mutex<Weak<Shared>>,
}

/// One look at a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// Cycles completed since the round began, its warm-up included.
    pub cycles: u64,
    /// Tasks with a call under way.
    pub calling: u32,
    /// Tasks that hold a lock.
    pub holding: u32,
    /// All tasks.
    pub tasks: u32,
}

impl LiveLoad {
    /// The present round; `None` between two. The counters of the next one begin at nought again.
    pub fn look(&self) -> Option<Look> {
        let round = self.lock().upgrade()?;
        let mut look = Look {
            cycles: 0,
            calling: 0,
            holding: 0,
            tasks: round.load.tasks,
        };
        for state in &round.states {
            look.cycles += state.cycles.load(Relaxed);
            look.calling += u32::from(state.in_call());
            look.holding += u32::from(state.holding_since.load(Relaxed) != 0);
        }
        Some(look)
    }

    /// A round begins; it is over when nobody else has it any more.
    pub(crate) fn enter(&self, round: &Arc<Shared>) {
        *self.lock() = Arc::downgrade(round);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Weak<Shared>> {
        self.round.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for LiveLoad {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("LiveLoad").field(&self.look()).finish()
    }
}
