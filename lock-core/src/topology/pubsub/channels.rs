//! The subscriptions of one route, plain, sharded or both.
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::future::join;

use super::{Hub, Places};
use crate::{
    PubSub,
    topology::{Heard, Hints, Reader, Subscription, Tune},
};

/// The subscriptions of one route.
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
            Channels::One(hub) => hub.subscribe(key, tune),
            Channels::Both { plain, sharded } => Subscription {
                inner: Box::new(Twice {
                    plain: plain.subscribe(key, tune),
                    sharded: sharded.subscribe(key, tune),
                }),
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

    /// Whether the route was closed.
    pub(crate) fn is_closed(&self) -> bool {
        let (Channels::One(hub) | Channels::Both { plain: hub, .. }) = self;
        hub.closed.get().is_some()
    }

    /// Ends every subscription.
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

/// One waiter that listens in both ways.
#[derive(Debug)]
struct Twice {
    plain: Subscription,
    sharded: Subscription,
}

#[async_trait]
impl Hints for Twice {
    async fn ready(&mut self) {
        join(self.plain.inner.ready(), self.sharded.inner.ready()).await;
    }

    async fn hint(&mut self) {
        tokio::select! {
            () = self.plain.inner.hint() => {}
            () = self.sharded.inner.hint() => {}
        }
    }

    fn is_ready(&self) -> bool {
        self.plain.inner.is_ready() && self.sharded.inner.is_ready()
    }

    /// Of the plain channel alone: a message that came twice would be read twice.
    fn read(&mut self, reader: Reader) {
        self.plain.inner.read(reader);
    }
}
