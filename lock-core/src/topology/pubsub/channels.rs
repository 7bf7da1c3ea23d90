//! The subscriptions of one route, plain, sharded or both.
use std::sync::Arc;

use super::{Hub, Places, channel::Waiter};
use crate::{
    PubSub,
    topology::{Heard, Reader, Tune},
};

#[derive(Debug)]
pub(crate) enum Channels {
    /// In one way.
    One(Hub),
    /// In both, each over a connection of its own.
    Both { plain: Hub, sharded: Hub },
}

impl Channels {
    /// `Auto` is plain here: where more was known, it was decided before.
    pub(crate) fn new(places: Arc<dyn Places>, way: PubSub) -> Self {
        match way {
            PubSub::Auto | PubSub::Plain => Channels::One(Hub::new(places, false)),
            PubSub::Sharded => Channels::One(Hub::new(places, true)),
            PubSub::Both => Channels::Both {
                plain: Hub::new(Arc::clone(&places), false),
                sharded: Hub::new(places, true),
            },
        }
    }

    /// Joins the waiters of a channel; must be called within a runtime.
    pub(crate) fn subscribe(&self, key: &[u8], tune: Tune<'_>) -> Subscription {
        match self {
            Channels::One(hub) => Subscription::to(hub.join(key, tune)),
            Channels::Both { plain, sharded } => Subscription {
                waiter: plain.join(key, tune),
                sharded: Some(sharded.join(key, tune)),
            },
        }
    }

    /// What was heard on a channel, if it is listened to; of both ways the plain one, since a message comes in both.
    pub(crate) fn heard(&self, channel: &str) -> Option<Heard> {
        let (Channels::One(hub) | Channels::Both { plain: hub, .. }) = self;
        hub.heard(channel)
    }

    /// The word by which scripts know how to announce.
    pub(crate) fn publish_command(&self) -> &'static str {
        match self {
            Channels::One(hub) if hub.sharded => "SPUBLISH",
            Channels::One(_) => "PUBLISH",
            Channels::Both { .. } => "BOTH",
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        let (Channels::One(hub) | Channels::Both { plain: hub, .. }) = self;
        hub.closed.get().is_some()
    }

    pub(crate) fn close(&self) {
        match self {
            Channels::One(hub) => hub.close(),
            Channels::Both { plain, sharded } => {
                plain.close();
                sharded.close();
            }
        }
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
    pub(crate) fn to(waiter: Waiter) -> Self {
        Subscription {
            waiter,
            sharded: None,
        }
    }

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
