//! What the guards of a client hold, for a client that gives all of it back when it closes.

use slab::Slab;

use crate::sync::Mutex;

/// What guards are responsible for, each known by the place that its guard keeps until it ends.
#[derive(Debug, Default)]
pub(crate) struct Guarded<T>(Mutex<Slab<Option<T>>>);

impl<T> Guarded<T> {
    /// The place of a new guard.
    pub(crate) fn add(&self, what: T) -> usize {
        self.0.lock().insert(Some(what))
    }

    /// The guard ends: whether it was responsible still.
    pub(crate) fn remove(&self, place: usize) -> bool {
        self.0.lock().remove(place).is_some()
    }

    /// What is guarded now, and by no guard from now on.
    pub(crate) fn take(&self) -> Vec<T> {
        let mut all = self.0.lock();
        all.iter_mut().filter_map(|(_, what)| what.take()).collect()
    }
}
