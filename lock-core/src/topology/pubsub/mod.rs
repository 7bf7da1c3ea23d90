//! One subscription for each channel, shared by its waiters, at the node where its messages are published.
mod board;
mod channel;
mod channels;
mod feed;

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, OnceLock},
};

use tokio::sync::{
    mpsc::{UnboundedSender, unbounded_channel},
    watch,
};

pub(crate) use self::channel::Heard;
pub(crate) use self::channels::{Channels, Subscription};
use self::{
    board::Board,
    channel::{Channel, Waiter},
};
use super::{Tune, node::Node, slot};
use crate::sync::Mutex;

pub(crate) trait Places: fmt::Debug + Send + Sync {
    /// The node to subscribe at, as far as known.
    fn place(&self, slot: u16) -> Option<Arc<Node>>;
    /// A subscription was refused or ended by the server, or a connection was lost: look again.
    fn misplaced(&self);
    /// Changes whenever `place` may answer differently.
    fn changes(&self) -> Option<watch::Receiver<u64>> {
        None
    }
}

#[derive(Debug)]
enum Order {
    /// A channel has its first waiter.
    New(Arc<Channel>),
    /// A channel has no subscription any more at the node where it was.
    Again(Arc<Channel>),
    /// A node's connection was lost; its channels are subscribed again as soon as it can be reached.
    Lost,
}

type Registry = Arc<Mutex<HashMap<String, Arc<Channel>>>>;

pub(crate) struct Hub {
    places: Arc<dyn Places>,
    sharded: bool,
    registry: Registry,
    board: Mutex<Option<UnboundedSender<Order>>>,
    closed: OnceLock<()>,
}

impl Hub {
    /// `sharded` subscribes with SSUBSCRIBE. Nothing happens before the first subscription.
    pub(crate) fn new(places: Arc<dyn Places>, sharded: bool) -> Self {
        Hub {
            places,
            sharded,
            registry: Registry::default(),
            board: Mutex::new(None),
            closed: OnceLock::new(),
        }
    }

    /// Joins the waiters of a channel; must be called within a runtime.
    pub(crate) fn join(&self, key: &[u8], tune: Tune<'_>) -> Waiter {
        let (Tune::Channel(name) | Tune::Pattern(name)) = tune;
        let mut registry = self.registry.lock();
        let channel = match registry.get(name) {
            Some(channel) => channel.clone(),
            None => {
                let channel = Arc::new(Channel::new(tune, slot(key)));
                registry.insert(name.to_owned(), channel.clone());
                self.tell(Order::New(channel.clone()));
                channel
            }
        };
        // Counted under the registry's lock, so that the sweep never takes a channel away from its next waiter.
        Waiter::join(channel)
    }

    pub(crate) fn heard(&self, name: &str) -> Option<Heard> {
        let registry = self.registry.lock();
        registry.get(name).map(|channel| channel.heard())
    }

    /// Ends every subscription; waiters hear nothing more.
    pub(crate) fn close(&self) {
        let _ = self.closed.set(());
        self.board.lock().take();
    }

    fn tell(&self, order: Order) {
        if self.closed.get().is_some() {
            return;
        }
        let mut board = self.board.lock();
        let orders = board.get_or_insert_with(|| {
            let (orders, inbox) = unbounded_channel();
            let task = Board::new(self.places.clone(), self.sharded, self.registry.clone());
            crate::machine::spawn(task.run(inbox));
            orders
        });
        let _ = orders.send(order);
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        self.close();
    }
}

impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hub")
            .field("places", &self.places)
            .field("sharded", &self.sharded)
            .finish_non_exhaustive()
    }
}
