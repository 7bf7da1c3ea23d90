//! What the guards of a client hold, for a client that gives all of it back when it closes.

use std::{collections::HashMap, sync::Weak};

use crate::hold::Hold;
use crate::lock::LockInner;
use crate::sync::{Arc, Mutex};

/// Everything that a guard is responsible for, which alone keeps it alive.
#[derive(Debug, Default)]
pub(crate) struct Guarded {
    /// By their addresses.
    holds: Mutex<HashMap<usize, Weak<Hold>>>,
    permits: Mutex<GuardedPermits>,
}

/// So many permits of a semaphore.
pub(crate) type Permits = (Arc<LockInner>, u32);

/// Permits of semaphores, which have no hold, by a number for each guard.
#[derive(Debug, Default)]
struct GuardedPermits {
    of: HashMap<u64, (Weak<LockInner>, u32)>,
    last_number: u64,
}

impl Guarded {
    pub(crate) fn add(&self, hold: &Arc<Hold>) {
        let (key, hold) = (Arc::as_ptr(hold) as usize, Arc::downgrade(hold));
        self.holds.lock().insert(key, hold);
    }

    pub(crate) fn remove(&self, hold: &Arc<Hold>) {
        self.holds.lock().remove(&(Arc::as_ptr(hold) as usize));
    }

    /// The number of a new guard for so many permits.
    pub(crate) fn add_permits(&self, of: &Arc<LockInner>, count: u32) -> u64 {
        let mut permits = self.permits.lock();
        permits.last_number += 1;
        let number = permits.last_number;
        permits.of.insert(number, (Arc::downgrade(of), count));
        number
    }

    /// Whether the permits of that guard are still to be given back.
    pub(crate) fn remove_permits(&self, number: u64) -> bool {
        self.permits.lock().of.remove(&number).is_some()
    }

    /// What is guarded now, and by no guard from now on.
    pub(crate) fn take(&self) -> (Vec<Arc<Hold>>, Vec<Permits>) {
        let holds = std::mem::take(&mut *self.holds.lock());
        let permits = std::mem::take(&mut self.permits.lock().of);
        let permits = permits.into_values();
        (
            holds
                .into_values()
                .filter_map(|hold| hold.upgrade())
                .collect(),
            permits
                .filter_map(|(of, count)| Some((of.upgrade()?, count)))
                .collect(),
        )
    }
}
