//! Lines of waiters for the same thing. Those in a line come to its front one by one, in the order of arrival; nothing is left
//! behind when the last one goes.

use std::{borrow::Borrow, collections::HashMap, hash::Hash, sync::Arc};

use futures_util::FutureExt;
use tokio::sync::{Notify, OwnedMutexGuard};

use crate::sync::{AtomicUsize, Mutex, Ordering};

#[derive(Debug)]
struct Line<S> {
    /// tokio's mutex hands it on in the order of arrival.
    front: Arc<tokio::sync::Mutex<S>>,
    /// Calls the waiter at the front, or the next that comes there.
    call: Arc<Notify>,
    /// How many have left the front with what they waited for.
    served: u64,
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
    front: Arc<tokio::sync::Mutex<S>>,
    call: Arc<Notify>,
}

impl<K: Hash + Eq + Clone, S> Lines<K, S> {
    pub(crate) fn new() -> Self {
        Lines {
            lines: Mutex::new(HashMap::new()),
            count: AtomicUsize::new(0),
        }
    }

    /// Whether anybody waits for anything; may be a moment old.
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// How many have left the front of this line with what they waited for, if anybody waits.
    pub(crate) fn served<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<u64>
    where
        K: Borrow<Q>,
    {
        let lines = self.lines.lock();
        lines.get(key).map(|line| line.served)
    }

    /// Calls the first of those who wait for this, unless somebody was served since there were `served`. The call waits where
    /// nobody is at the front yet.
    pub(crate) fn call<Q: Hash + Eq + ?Sized>(&self, key: &Q, served: u64)
    where
        K: Borrow<Q>,
    {
        let lines = self.lines.lock();
        if let Some(line) = lines.get(key).filter(|line| line.served == served) {
            line.call.notify_one();
        }
    }

    /// Joins the line, or begins one whose front starts as `first` makes it.
    pub(crate) fn enter(&self, key: K, first: impl FnOnce() -> S) -> Position<'_, K, S> {
        let mut lines = self.lines.lock();
        let line = lines.entry(key.clone()).or_insert_with(|| Line {
            front: Arc::new(tokio::sync::Mutex::new(first())),
            call: Arc::default(),
            served: 0,
        });
        let (front, call) = (Arc::clone(&line.front), Arc::clone(&line.call));
        self.count.store(lines.len(), Ordering::Relaxed);
        Position {
            lines: self,
            key,
            front,
            call,
        }
    }
}

impl<K: Hash + Eq, S> Position<'_, K, S> {
    /// Completes when everybody who came before has left the front or given up.
    pub(crate) async fn front(&self) -> OwnedMutexGuard<S> {
        Arc::clone(&self.front).lock_owned().await
    }

    /// The waiter at the front leaves it with what it waited for; a call that it did not hear is over.
    pub(crate) fn serve(&self) {
        let lines = &self.lines.lines;
        let mut lines = lines.lock();
        if let Some(line) = lines.get_mut(&self.key) {
            line.served += 1;
            let _ = line.call.notified().now_or_never();
        }
    }

    /// Completes when the first of the line is called; only the waiter at the front may wait for that.
    pub(crate) async fn called(&self) {
        self.call.notified().await;
    }
}

impl<K: Hash + Eq, S> Drop for Position<'_, K, S> {
    fn drop(&mut self) {
        let lines = &self.lines.lines;
        let mut lines = lines.lock();
        // The map's and ours: the last one out ends the line, and with it what the front holds.
        if Arc::strong_count(&self.front) == 2 {
            let ended = lines.remove(&self.key);
            self.lines.count.store(lines.len(), Ordering::Relaxed);
            drop(lines);
            drop(ended);
        }
    }
}
