//! The waiters of one client on one lock: a line, of which only the first looks at the server.

use std::{sync::Arc, time::Duration};

use futures_util::{StreamExt, stream::FuturesUnordered};

use crate::{
    clock::Instant,
    line::{self, Lines},
    lock::LockInner,
    quorum::majority,
    servers::Servers,
    topology::{Route, Subscription, Tune},
};

/// Every line of a client.
#[derive(Debug)]
pub(crate) struct Gates {
    lines: Lines<Key, Seat>,
}

type Key = (&'static str, String);

/// A place in a line.
pub(crate) type Place<'a> = line::Place<'a, Key, Seat>;

/// What the first in the line has, and leaves to the next.
#[derive(Debug)]
pub(crate) struct Seat {
    pub(crate) ears: Option<Ears>,
    /// When to look even if no message comes.
    pub(crate) look_at: Instant,
    /// The one before has just seen that there is no room for another.
    pub(crate) full: bool,
    /// The one before got what all who wait here may have: they look at once, side by side.
    pub(crate) open: bool,
    /// For so many more grants other clients are expected to look at the same moment.
    pub(crate) rivals: u32,
}

/// For so long after a vote was split, by grants: a split costs ten times what the pause does.
pub(crate) const RIVALS: u32 = 250;

impl Default for Gates {
    fn default() -> Self {
        Gates {
            lines: Lines::new(),
        }
    }
}

impl Gates {
    /// Whether somebody waits for the lock.
    pub(crate) fn is_waited_for(&self, lock: &LockInner) -> bool {
        !self.lines.is_empty() && self.lines.has(&key(lock))
    }

    /// Joins the line.
    pub(crate) fn enter(&self, lock: &LockInner) -> Place<'_> {
        self.lines.enter(key(lock), || Seat {
            ears: None,
            look_at: Instant::now(),
            full: false,
            open: false,
            rivals: 0,
        })
    }
}

fn key(lock: &LockInner) -> Key {
    (lock.word, lock.names.line())
}

/// The subscriptions to a lock's channels, each at every server set.
#[derive(Debug)]
pub(crate) struct Ears {
    subscriptions: Vec<Subscription>,
    /// How many must be acknowledged before a release cannot be missed.
    enough: usize,
}

impl Ears {
    pub(crate) fn new(lock: &LockInner) -> Self {
        let channels = lock.form.channels(&lock.names);
        Ears::on(lock.servers.routes(), &lock.names.key, &channels)
    }

    /// Listens to channels where the key lives.
    pub(crate) fn on(routes: &[Arc<dyn Route>], key: &str, channels: &[&str]) -> Self {
        let mut subscriptions = Vec::new();
        for channel in channels {
            let tune = Tune::Channel(channel);
            let each = routes.iter();
            subscriptions.extend(each.map(|route| route.subscribe(key.as_bytes(), tune)));
        }
        Ears {
            subscriptions,
            enough: channels.len() * majority(routes.len()),
        }
    }

    /// Completes when enough servers have acknowledged the subscription.
    pub(crate) async fn ready(&mut self) {
        let all = self.subscriptions.iter_mut();
        let all: FuturesUnordered<_> = all.map(|one| one.inner.ready()).collect();
        let _: Vec<()> = all.take(self.enough).collect().await;
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

    /// Completes when as many have spoken, after the first, as are enough.
    async fn rest(&mut self) {
        let all = self.subscriptions.iter_mut();
        let all: FuturesUnordered<_> = all.map(|one| one.inner.hint()).collect();
        let _: Vec<()> = all.take(self.enough.saturating_sub(1)).collect().await;
    }
}

/// A release on several masters is heard from the fastest first; looking then would find the others still taken. So it is to be heard
/// from a majority, or some time to pass. Where other clients are about to look too, a random pause keeps them from splitting the vote.
pub(crate) async fn settle(ears: &mut Ears, servers: &Servers, rivals: bool) {
    if let Servers::Majority(_) = servers {
        let pause = Duration::from_micros(rand::random_range(1_000..5_000));
        if rivals {
            tokio::time::sleep(pause).await;
        } else {
            // Too late is only slow.
            let _ = tokio::time::timeout(pause, ears.rest()).await;
        }
    }
}
