//! The subscriptions of one route, plain, sharded or both.
use std::sync::Arc;

use super::{Hub, Places, channel::Waiter};
use crate::{
    PubSub,
    topology::{Heard, Reader, Tune},
};

/// The subscriptions of one route.
#[derive(Debug)]
pub(crate) struct Channels {
    hub: Hub,
    /// Of the sharded channels, where `hub` has the plain ones: each over a connection of its own.
    sharded: Option<Hub>,
}

impl Channels {
    /// `Auto` is plain here: where more was known, it was decided before.
    pub(crate) fn new(places: Arc<dyn Places>, way: PubSub) -> Self {
        let both = way == PubSub::Both;
        Channels {
            hub: Hub::new(Arc::clone(&places), way == PubSub::Sharded),
            sharded: both.then(|| Hub::new(places, true)),
        }
    }

    /// Joins the waiters of a channel; must be called within a runtime.
    pub(crate) fn subscribe(&self, key: &[u8], tune: Tune<'_>) -> Subscription {
        Subscription {
            waiter: self.hub.join(key, tune),
            sharded: self.sharded.as_ref().map(|hub| hub.join(key, tune)),
        }
    }

    /// What was heard on a channel, if it is listened to; of both ways the plain one, since a message comes in both.
    pub(crate) fn heard(&self, channel: &str) -> Option<Heard> {
        self.hub.heard(channel)
    }

    /// The word by which scripts know how to announce.
    pub(crate) fn publish_command(&self) -> &'static str {
        match (&self.sharded, self.hub.sharded) {
            (Some(_), _) => "BOTH",
            (None, true) => "SPUBLISH",
            (None, false) => "PUBLISH",
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.hub.closed.get().is_some()
    }

    pub(crate) fn close(&self) {
        self.hub.close();
        self.sharded.iter().for_each(Hub::close);
    }
}

/// A waiter's view of a channel. Everything is a hint: look at the lock again.
#[derive(Debug)]
pub(crate) struct Subscription {
    waiter: Waiter,
    /// Of the sharded channel, where `waiter` listens to the plain one beside it.
    sharded: Option<Waiter>,
}

impl Subscription {
    /// Completes when the server has acknowledged the subscription (or at once if it had already). Hints that came
    /// before are forgotten: look at the lock now. Cancel-safe.
    pub(crate) async fn ready(&mut self) {
        self.waiter.ready().await;
        if let Some(sharded) = &mut self.sharded {
            sharded.ready().await;
        }
    }

    /// Completes on a message, on every re-subscription, and on loss of the connection. Cancel-safe; a hint that came while nobody
    /// waited is not lost.
    pub(crate) async fn hint(&mut self) {
        match &mut self.sharded {
            None => self.waiter.hint().await,
            Some(sharded) => tokio::select! {
                () = self.waiter.hint() => {}
                () = sharded.hint() => {}
            },
        }
    }

    /// Whether the server has acknowledged the subscription, and it was not lost since.
    pub(crate) fn is_ready(&self) -> bool {
        self.waiter.is_ready() && self.sharded.as_ref().is_none_or(Waiter::is_ready)
    }

    /// Hands every message from now on to `reader`, on the task that hears it; a message that it takes is no hint any more. A channel
    /// has one reader, the last one; where there are two, the plain one has it, since a message that came twice would be read twice.
    pub(crate) fn read(&mut self, reader: Reader) {
        self.waiter.read(reader);
    }
}
