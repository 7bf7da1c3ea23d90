//! Lines of waiters for the same thing: one seat each that is handed on in the order of
//! arrival, and nothing left behind when the last one goes.

use std::{borrow::Borrow, collections::HashMap, hash::Hash, sync::Arc};

use tokio::sync::OwnedMutexGuard;

use crate::sync::{AtomicUsize, Mutex, Ordering, PoisonError};

/// The seat of a line: tokio's mutex hands it on in the order of arrival.
type Seat<S> = Arc<tokio::sync::Mutex<S>>;

/// Every line, by what is waited for. `S` is what the first of a line has, and leaves to the next.
#[derive(Debug)]
pub(crate) struct Lines<K, S> {
    seats: Mutex<HashMap<K, Seat<S>>>,
    /// How many there are, so that nobody needs the map while nobody waits.
    count: AtomicUsize,
}

/// A place in a line. It must outlive the seat: the last one out ends the line.
#[derive(Debug)]
pub(crate) struct Place<'a, K: Hash + Eq, S> {
    lines: &'a Lines<K, S>,
    key: K,
    seat: Seat<S>,
}

impl<K: Hash + Eq + Clone, S> Lines<K, S> {
    pub(crate) fn new() -> Self {
        Lines {
            seats: Mutex::new(HashMap::new()),
            count: AtomicUsize::new(0),
        }
    }

    /// Whether anybody waits for anything; may be a moment old.
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// Whether anybody waits for this.
    pub(crate) fn has<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        let seats = self.seats.lock().unwrap_or_else(PoisonError::into_inner);
        seats.contains_key(key)
    }

    /// Joins the line, or begins one with a seat as `first` makes it.
    pub(crate) fn enter(&self, key: K, first: impl FnOnce() -> S) -> Place<'_, K, S> {
        let mut seats = self.seats.lock().unwrap_or_else(PoisonError::into_inner);
        let seat = seats
            .entry(key.clone())
            .or_insert_with(|| Arc::new(tokio::sync::Mutex::new(first())));
        let seat = Arc::clone(seat);
        self.count.store(seats.len(), Ordering::Relaxed);
        Place {
            lines: self,
            key,
            seat,
        }
    }
}

impl<K: Hash + Eq, S> Place<'_, K, S> {
    /// Completes when everybody who came before has left the seat or given up.
    pub(crate) async fn seat(&self) -> OwnedMutexGuard<S> {
        Arc::clone(&self.seat).lock_owned().await
    }
}

impl<K: Hash + Eq, S> Drop for Place<'_, K, S> {
    fn drop(&mut self) {
        let seats = &self.lines.seats;
        let mut seats = seats.lock().unwrap_or_else(PoisonError::into_inner);
        // The map's and ours: the last one out ends the line, and with it what the seat holds.
        if Arc::strong_count(&self.seat) == 2 {
            let ended = seats.remove(&self.key);
            self.lines.count.store(seats.len(), Ordering::Relaxed);
            drop(seats);
            drop(ended);
        }
    }
}
