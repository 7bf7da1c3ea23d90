//! What the guards of a client hold, for a client that gives all of it back when it closes.

use std::{collections::HashMap, sync::Weak};

use crate::sync::{Arc, Mutex};

/// Holds and permits of semaphores for which a guard is responsible, which alone keeps them alive.
#[derive(Debug)]
pub(crate) struct Guarded<H, S> {
    /// By their addresses.
    holds: Mutex<HashMap<usize, Weak<H>>>,
    permits: Mutex<GuardedPermits<S>>,
}

/// So many permits of a semaphore.
type Permits<S> = (Arc<S>, u32);

/// Permits of semaphores, which have no hold, by a number for each guard.
#[derive(Debug)]
struct GuardedPermits<S> {
    of: HashMap<u64, (Weak<S>, u32)>,
    last_number: u64,
}

impl<H, S> Default for Guarded<H, S> {
    fn default() -> Self {
        Guarded {
            holds: Mutex::new(HashMap::new()),
            permits: Mutex::new(GuardedPermits {
                of: HashMap::new(),
                last_number: 0,
            }),
        }
    }
}

impl<H, S> Guarded<H, S> {
    pub(crate) fn add(&self, hold: &Arc<H>) {
        let (key, hold) = (Arc::as_ptr(hold) as usize, Arc::downgrade(hold));
        self.holds.lock().insert(key, hold);
    }

    pub(crate) fn remove(&self, hold: &Arc<H>) {
        self.holds.lock().remove(&(Arc::as_ptr(hold) as usize));
    }

    /// The number of a new guard for so many permits.
    pub(crate) fn add_permits(&self, of: &Arc<S>, count: u32) -> u64 {
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
    pub(crate) fn take(&self) -> (Vec<Arc<H>>, Vec<Permits<S>>) {
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
