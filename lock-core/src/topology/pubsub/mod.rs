//! One subscription for each channel, shared by its waiters, at the node where its messages are published.
//!
//! | file | what it is for |
//! |---|---|
//! | `board.rs` | which node has which channel |
//! | `feed.rs` | one node's connection |
//! | `channel.rs` | one channel and its waiters |

mod board;
mod channel;
mod feed;

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::sync::watch;

use self::board::Board;
pub(crate) use self::channel::ReceivedMessages;
use self::channel::{Channel, Waiter};
use super::{ChannelName, KeyCheck, MessageReader, node::Node, slot};
use crate::PubSub;
use crate::machine::ClientRuntime;
use crate::sync::Mutex;

pub(crate) trait ChannelRouter: Send + Sync {
    /// The node to subscribe at, as far as known.
    fn place(&self, slot: u16) -> Option<Arc<Node>>;
    /// A subscription was refused or ended by the server, or a connection was lost: look again.
    fn misplaced(&self) {}
    /// Changes whenever `place` may answer differently.
    fn changes(&self) -> Option<watch::Receiver<u64>> {
        None
    }
}

/// A node whose place never changes.
pub(super) struct FixedNode(pub(super) Arc<Node>);

impl ChannelRouter for FixedNode {
    fn place(&self, _: u16) -> Option<Arc<Node>> {
        Some(self.0.clone())
    }
}

enum Order {
    /// A channel has its first waiter.
    New(Arc<Channel>),
    /// A channel has no subscription any more at the node where it was.
    Again(Arc<Channel>),
    /// A channel whose subscription the server refuses.
    Refused(Arc<Channel>),
    /// A node's connection was lost; its channels are subscribed again as soon as it can be reached.
    Lost,
}

/// What the connections of a hub listen to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Listening {
    /// SUBSCRIBE and PSUBSCRIBE.
    Plain,
    /// SSUBSCRIBE.
    Sharded,
    /// Keys, each a channel by its name: the server says when they change, and is then asked what they hold.
    Keys,
}

type Registry = Arc<Mutex<HashMap<String, Arc<Channel>>>>;

pub(crate) struct Hub {
    places: Arc<dyn ChannelRouter>,
    to: Listening,
    registry: Registry,
    runtime: ClientRuntime,
    board: Mutex<Option<UnboundedSender<Order>>>,
    closed: OnceLock<()>,
}

impl Hub {
    /// Nothing happens before the first subscription.
    pub(super) fn new(places: Arc<dyn ChannelRouter>, to: Listening, runtime: &ClientRuntime) -> Self {
        Hub {
            places,
            to,
            registry: Registry::default(),
            runtime: runtime.clone(),
            board: Mutex::new(None),
            closed: OnceLock::new(),
        }
    }

    pub(crate) fn join(&self, key: &[u8], channel_name: ChannelName<'_>) -> Waiter {
        self.join_checked(key, channel_name, None)
    }

    fn join_checked(&self, key: &[u8], channel_name: ChannelName<'_>, check: Option<KeyCheck>) -> Waiter {
        let (ChannelName::Channel(name) | ChannelName::Pattern(name)) = channel_name;
        let mut registry = self.registry.lock();
        let known = registry.get(name).cloned();
        let channel = known.clone().unwrap_or_else(|| {
            let channel = Arc::new(Channel::new(channel_name, slot(key)));
            registry.insert(name.to_owned(), channel.clone());
            channel
        });
        if check.is_some() {
            channel.expect(check);
        }
        let mut board = self.board.lock();
        if let Some(orders) = board.as_ref().filter(|orders| !orders.is_closed()) {
            if known.is_none() {
                let _ = orders.send(Order::New(channel.clone()));
            }
        } else if self.closed.get().is_none() {
            // The first, or the one before ended with the runtime. It places every channel of the registry.
            *board = Some(self.start_board());
        }
        drop(board);
        // Counted under the registry's lock, so that the sweep takes no channel away from its next waiter.
        Waiter::join(channel)
    }

    pub(crate) fn heard(&self, name: &str) -> Option<ReceivedMessages> {
        let registry = self.registry.lock();
        registry.get(name).map(|channel| channel.heard())
    }

    /// Ends every subscription; waiters hear nothing more.
    pub(crate) fn close(&self) {
        let _ = self.closed.set(());
        self.board.lock().take();
    }

    fn start_board(&self) -> UnboundedSender<Order> {
        let (orders, inbox) = unbounded_channel();
        let board = Board::new(self.places.clone(), self.to, self.registry.clone());
        self.runtime.spawn(board.run(inbox));
        orders
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        self.close();
    }
}

/// The subscriptions of one route.
pub(crate) struct Channels {
    hub: Hub,
    /// Of the sharded channels, where `hub` has the plain ones: each over a connection of its own.
    sharded: Option<Hub>,
    keys: Hub,
}

impl Channels {
    /// `Auto` is plain here: where more was known, it was decided before.
    pub(crate) fn new(places: Arc<dyn ChannelRouter>, way: PubSub, runtime: &ClientRuntime) -> Self {
        let both = way == PubSub::Both;
        let hub = |to| Hub::new(Arc::clone(&places), to, runtime);
        Channels {
            hub: hub(match way {
                PubSub::Sharded => Listening::Sharded,
                _ => Listening::Plain,
            }),
            sharded: both.then(|| hub(Listening::Sharded)),
            keys: hub(Listening::Keys),
        }
    }

    pub(crate) fn subscribe(&self, key: &[u8], channel_name: ChannelName<'_>) -> Subscription {
        Subscription {
            waiter: self.hub.join(key, channel_name),
            sharded: self.sharded.as_ref().map(|hub| hub.join(key, channel_name)),
        }
    }

    /// Hints whenever a key may not answer any more as is expected.
    pub(crate) fn follow_key(&self, key: &str, check: KeyCheck) -> Waiter {
        self.keys.join_checked(key.as_bytes(), ChannelName::Channel(key), Some(check))
    }

    /// What was heard on a channel, if listened to; of both ways the plain one: a message comes in both.
    pub(crate) fn heard(&self, channel: &str) -> Option<ReceivedMessages> {
        self.hub.heard(channel)
    }

    /// The word by which scripts know how to announce.
    pub(crate) fn publish_command(&self) -> &'static str {
        match (&self.sharded, self.hub.to == Listening::Sharded) {
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
        self.keys.close();
    }
}

/// A waiter's view of a channel. Everything is a hint: look at the lock again.
pub(crate) struct Subscription {
    waiter: Waiter,
    /// Of the sharded channel, where `waiter` listens to the plain one beside it.
    sharded: Option<Waiter>,
}

impl Subscription {
    /// Completes when the server has acknowledged the subscription, or refused it (or at once if it had
    /// already). Hints that came before are forgotten: look at the lock now. Cancel-safe.
    pub(crate) async fn ready(&mut self) {
        self.waiter.ready().await;
        if let Some(sharded) = &mut self.sharded {
            sharded.ready().await;
        }
    }

    /// Completes on a message, on every re-subscription, and on loss of the connection. Cancel-safe; a hint
    /// that came while nobody waited is not lost.
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

    /// Whether the server refuses it: nothing is heard until that changes.
    pub(crate) fn is_refused(&self) -> bool {
        self.waiter.is_refused() && self.sharded.as_ref().is_none_or(Waiter::is_refused)
    }

    /// Hands every message from now on to `reader`, on the task that hears it; a message that it takes is no
    /// hint any more. A channel has one reader, the last one; where there are two, the plain one has it,
    /// since a message that came twice would be read twice.
    pub(crate) fn read(&mut self, reader: MessageReader) {
        self.waiter.read(reader);
    }
}
