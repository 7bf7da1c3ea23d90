//! The waiters of one client on one lock: a line, of which only the first looks at the server.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use futures_util::{StreamExt, stream::FuturesUnordered};

use crate::{
    kind::Kind, lock::LockInner, quorum::majority, servers::Servers, topology::Subscription,
};

/// Every line of a client.
#[derive(Debug, Default)]
pub(crate) struct Gates {
    gates: Mutex<HashMap<(Kind, String), Arc<Gate>>>,
    /// How many there are, so that nobody needs the map while nobody waits.
    count: AtomicUsize,
}

/// One line: tokio's mutex hands the seat on in the order of arrival.
pub(crate) type Gate = tokio::sync::Mutex<Seat>;

/// What the first in the line has, and leaves to the next.
#[derive(Debug)]
pub(crate) struct Seat {
    pub(crate) ears: Option<Ears>,
    /// When to look even if no message comes.
    pub(crate) look_at: Instant,
}

/// A place in the line.
#[derive(Debug)]
pub(crate) struct Place<'a> {
    gates: &'a Gates,
    key: (Kind, String),
    pub(crate) gate: Arc<Gate>,
}

impl Gates {
    /// Whether somebody waits for the lock.
    pub(crate) fn is_waited_for(&self, lock: &LockInner) -> bool {
        if self.count.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let gates = self.gates.lock().unwrap_or_else(PoisonError::into_inner);
        gates.contains_key(&(lock.kind, lock.names.key.clone()))
    }

    /// Joins the line.
    pub(crate) fn enter(&self, lock: &LockInner) -> Place<'_> {
        let key = (lock.kind, lock.names.key.clone());
        let mut gates = self.gates.lock().unwrap_or_else(PoisonError::into_inner);
        let gate = gates.entry(key.clone()).or_insert_with(|| {
            let seat = Seat {
                ears: None,
                look_at: Instant::now(),
            };
            Arc::new(Gate::new(seat))
        });
        let gate = Arc::clone(gate);
        self.count.store(gates.len(), Ordering::Relaxed);
        Place {
            gates: self,
            key,
            gate,
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let gates = &self.gates.gates;
        let mut gates = gates.lock().unwrap_or_else(PoisonError::into_inner);
        // The map's and ours: the last one out ends the line and with it the subscription.
        if Arc::strong_count(&self.gate) == 2 {
            gates.remove(&self.key);
            self.gates.count.store(gates.len(), Ordering::Relaxed);
        }
    }
}

/// The subscriptions to a lock's channel, one for each server set.
#[derive(Debug)]
pub(crate) struct Ears {
    subscriptions: Vec<Subscription>,
}

impl Ears {
    pub(crate) fn new(lock: &LockInner) -> Self {
        let subscriptions = match lock.form.channel(&lock.names) {
            Some(channel) => {
                let routes = lock.servers.routes().iter();
                routes
                    .map(|route| route.subscribe(lock.names.key.as_bytes(), channel))
                    .collect()
            }
            None => Vec::new(),
        };
        Ears { subscriptions }
    }

    /// Completes when enough servers have acknowledged the subscription.
    pub(crate) async fn ready(&mut self) {
        let enough = majority(self.subscriptions.len());
        let all = self.subscriptions.iter_mut();
        let all: FuturesUnordered<_> = all.map(|one| one.inner.ready()).collect();
        let _: Vec<()> = all.take(enough).collect().await;
    }

    /// Completes on the next hint; never if there is nothing to hear.
    pub(crate) async fn hint(&mut self) {
        match self.subscriptions.as_mut_slice() {
            [] => std::future::pending().await,
            [one] => one.inner.hint().await,
            many => {
                let mut any: FuturesUnordered<_> =
                    many.iter_mut().map(|one| one.inner.hint()).collect();
                any.next().await;
            }
        }
    }
}

/// A release on several masters is heard from the fastest first; looking then would find the others still taken.
/// The pause also keeps the waiters of several clients from splitting the vote.
pub(crate) async fn settle(servers: &Servers) {
    if let Servers::Majority(_) = servers {
        let pause = Duration::from_micros(rand::random_range(1_000..5_000));
        tokio::time::sleep(pause).await;
    }
}
