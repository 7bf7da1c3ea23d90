//! Decides which node's feed has which channel, also when the topology changes.
use std::{collections::HashMap, sync::Arc, time::Duration};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, WeakUnboundedSender, unbounded_channel};
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

use super::channel::Channel;
use super::feed::{Feed, FeedOrder};
use super::{ChannelRouter, Listening, Order, Registry};
use crate::client::target::Endpoint;
use crate::clock::Instant;

/// For how long a channel without waiters stays subscribed: the next waiter mostly comes soon.
const LINGER: Duration = Duration::from_millis(500);
/// How often idle channels are swept and homeless ones are placed again.
const TICK: Duration = Duration::from_millis(100);
/// Before a subscription that was refused is asked for again: somebody may have given the right meanwhile.
const REFUSED_PAUSE: Duration = Duration::from_secs(1);

pub(super) struct Board {
    places: Arc<dyn ChannelRouter>,
    to: Listening,
    registry: Registry,
    homes: HashMap<String, Endpoint>,
    /// Until when channels are left without a home.
    refused: HashMap<String, Instant>,
    feeds: HashMap<Endpoint, (u64, UnboundedSender<FeedOrder>)>,
    /// Feeds started so far; the last one's number.
    started: u64,
    /// Orders from the feeds come back through here.
    back: Option<WeakUnboundedSender<Order>>,
}

impl Board {
    pub(super) fn new(places: Arc<dyn ChannelRouter>, to: Listening, registry: Registry) -> Self {
        Board {
            places,
            to,
            registry,
            homes: HashMap::new(),
            refused: HashMap::new(),
            feeds: HashMap::new(),
            started: 0,
            back: None,
        }
    }

    /// Runs until the hub is closed. The feeds end with it: their orders come from here.
    pub(super) async fn run(mut self, mut inbox: UnboundedReceiver<Order>) {
        let (back, mut reports) = unbounded_channel();
        self.back = Some(back.downgrade());
        let mut changes = self.places.changes();
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                order = inbox.recv() => match order {
                    Some(order) => self.obey(order),
                    None => return,
                },
                Some(report) = reports.recv() => self.obey(report),
                () = changed(&mut changes) => self.replace_all(),
                _ = tick.tick() => self.sweep(),
            }
        }
    }

    fn obey(&mut self, order: Order) {
        match order {
            Order::New(channel) => self.place(&channel),
            Order::Again(channel) => {
                self.homes.remove(&channel.name);
                // The next tick, or the change of topology that this brings about, places it.
                self.places.misplaced();
            }
            Order::Refused(channel) => {
                self.homes.remove(&channel.name);
                let until = Instant::now() + REFUSED_PAUSE;
                self.refused.insert(channel.name.clone(), until);
            }
            Order::Lost => self.places.misplaced(),
        }
    }

    fn place(&mut self, channel: &Arc<Channel>) {
        let Some(node) = self.places.place(channel.slot) else {
            self.evict(&channel.name);
            self.places.misplaced();
            return;
        };
        let endpoint = node.endpoint.clone();
        if self.home_of(channel) == Some(&endpoint) {
            return;
        }
        self.evict(&channel.name);
        // A feed that has ended, though the board has not let go of it, is started anew.
        self.feeds.retain(|_, (_, orders)| !orders.is_closed());
        let (id, feed) = self.feeds.entry(endpoint.clone()).or_insert_with(|| {
            let (orders, inbox) = unbounded_channel();
            self.started += 1;
            if let Some(back) = self.back.as_ref().and_then(WeakUnboundedSender::upgrade) {
                node.dialer.runtime.clone().spawn(Feed::new(self.started, node, self.to, back).run(inbox));
            }
            (self.started, orders)
        });
        channel.settle(*id);
        let _ = feed.send(FeedOrder::Add(channel.clone()));
        self.homes.insert(channel.name.clone(), endpoint);
    }

    /// Where a channel is subscribed, as long as somebody sees to it there.
    fn home_of(&self, channel: &Channel) -> Option<&Endpoint> {
        let home = self.homes.get(&channel.name)?;
        let (_, orders) = self.feeds.get(home)?;
        (!orders.is_closed()).then_some(home)
    }

    fn evict(&mut self, name: &str) {
        if let Some(endpoint) = self.homes.remove(name)
            && let Some((_, feed)) = self.feeds.get(&endpoint)
        {
            let _ = feed.send(FeedOrder::Remove(name.to_owned()));
        }
    }

    fn channels(&self) -> Vec<Arc<Channel>> {
        self.registry.lock().values().cloned().collect()
    }

    fn replace_all(&mut self) {
        for channel in self.channels() {
            self.place(&channel);
        }
        let homes = &self.homes;
        self.feeds.retain(|endpoint, _| homes.values().any(|home| home == endpoint));
    }

    fn sweep(&mut self) {
        let mut idle = Vec::new();
        self.registry.lock().retain(|name, channel| {
            let keep = !channel.is_idle(LINGER);
            if !keep {
                idle.push(name.clone());
            }
            keep
        });
        for name in idle {
            self.evict(&name);
        }
        let now = Instant::now();
        self.refused.retain(|_, until| *until > now);
        let homeless: Vec<_> = self
            .channels()
            .into_iter()
            .filter(|channel| self.home_of(channel).is_none())
            .filter(|channel| !self.refused.contains_key(&channel.name))
            .collect();
        for channel in homeless {
            self.place(&channel);
        }
    }
}

async fn changed(changes: &mut Option<watch::Receiver<u64>>) {
    let gone = match changes {
        Some(changes) => changes.changed().await.is_err(),
        None => std::future::pending().await,
    };
    if gone {
        *changes = None;
    }
}
