//! Lines of waiters for the same thing. Those in a line come to its front one by one, in the order of
//! arrival; nothing is left behind when the last one goes.

use std::{collections::HashMap, hash::Hash};

use futures_util::FutureExt;
use tokio::sync::{Notify, OwnedMutexGuard};

use crate::clock::Instant;
use crate::sync::{Arc, AtomicUsize, Mutex, Ordering};

#[derive(Debug)]
struct Line<S> {
    front: Arc<Front<S>>,
    /// How many positions there are. The last one that leaves ends the line.
    positions: usize,
    /// How many have left the front with what they waited for.
    served: u64,
}

/// What the positions of a line share.
#[derive(Debug)]
struct Front<S> {
    /// tokio's mutex hands it on in the order of arrival.
    state: std::sync::Arc<tokio::sync::Mutex<S>>,
    /// Calls the waiter at the front, or the next that comes there.
    call: Notify,
    /// When the waiter at the front was polled last.
    attended_at: Mutex<Instant>,
}

/// Every line, by what is waited for. `S` is what the first of a line has, and leaves to the next.
#[derive(Debug)]
pub(crate) struct Lines<K, S> {
    lines: Mutex<HashMap<K, Line<S>>>,
    /// How many there are, so that nobody needs the map while nobody waits.
    count: AtomicUsize,
}

/// A position in a line. It must outlive the front: the last one out ends the line.
#[derive(Debug)]
pub(crate) struct Position<'a, K: Hash + Eq, S> {
    lines: &'a Lines<K, S>,
    key: K,
    front: Arc<Front<S>>,
}

impl<K: Hash + Eq + Clone, S> Lines<K, S> {
    pub(crate) fn new() -> Self {
        Lines { lines: Mutex::new(HashMap::new()), count: AtomicUsize::new(0) }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// How many have left the front of this line with what they waited for, if anybody waits.
    pub(crate) fn served(&self, key: &K) -> Option<u64> {
        let lines = self.lines.lock();
        lines.get(key).map(|line| line.served)
    }

    /// Calls the first of those who wait for this, unless somebody was served since there were `served`. The
    /// call waits where nobody is at the front yet.
    pub(crate) fn call(&self, key: &K, served: u64) {
        let lines = self.lines.lock();
        if let Some(line) = lines.get(key).filter(|line| line.served == served) {
            line.front.call.notify_one();
        }
    }

    /// Joins the line, or begins one whose front starts as `first` makes it.
    pub(crate) fn enter(&self, key: K, first: impl FnOnce() -> S) -> Position<'_, K, S> {
        let mut lines = self.lines.lock();
        let line = lines.entry(key.clone()).or_insert_with(|| Line {
            front: Arc::new(Front {
                state: std::sync::Arc::new(tokio::sync::Mutex::new(first())),
                call: Notify::new(),
                attended_at: Mutex::new(Instant::now()),
            }),
            positions: 0,
            served: 0,
        });
        line.positions += 1;
        let front = Arc::clone(&line.front);
        self.count.store(lines.len(), Ordering::Relaxed);
        Position { lines: self, key, front }
    }
}

impl<K: Hash + Eq, S> Position<'_, K, S> {
    /// Completes when everybody who came before has left the front or given up.
    pub(crate) async fn front(&self) -> OwnedMutexGuard<S> {
        std::sync::Arc::clone(&self.front.state).lock_owned().await
    }

    /// The waiter at the front is polled. One that stays alive and is not polled keeps the front.
    pub(crate) fn attend(&self) {
        *self.front.attended_at.lock() = Instant::now();
    }

    /// When the waiter at the front was polled last, or the line began.
    pub(crate) fn attended_at(&self) -> Instant {
        *self.front.attended_at.lock()
    }

    /// The waiter at the front leaves it with what it waited for; a call that it did not hear is over.
    pub(crate) fn serve(&self) {
        let lines = &self.lines.lines;
        let mut lines = lines.lock();
        if let Some(line) = lines.get_mut(&self.key) {
            line.served += 1;
            let _ = line.front.call.notified().now_or_never();
        }
    }

    /// Completes when the first of the line is called; only the waiter at the front may wait for that.
    pub(crate) async fn called(&self) {
        self.front.call.notified().await;
    }
}

impl<K: Hash + Eq, S> Drop for Position<'_, K, S> {
    fn drop(&mut self) {
        let lines = &self.lines.lines;
        let mut lines = lines.lock();
        // Counted under the mutex: two that leave at once would each see the other's `Arc`.
        let is_last = lines.get_mut(&self.key).is_some_and(|line| {
            line.positions -= 1;
            line.positions == 0
        });
        if is_last {
            let ended = lines.remove(&self.key);
            self.lines.count.store(lines.len(), Ordering::Relaxed);
            drop(lines);
            // What the front holds is not for under the mutex.
            drop(ended);
        }
    }
}
