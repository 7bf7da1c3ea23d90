//! Who listens to which channel, and what is said there.

use std::collections::{BTreeMap, BTreeSet};

use crate::server::command::unknown_part;
use crate::server::keys::keyspace::is;
use crate::server::keys::strings::fits;
use crate::server::reply::{Reply, words};
use crate::server::sentinel::state::HELLO;
use crate::server::{ConnectionId, Server};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SubscriptionKind {
    Channel,
    Pattern,
    Shard,
}

impl SubscriptionKind {
    fn of(command: &str) -> Self {
        match command.as_bytes()[0] {
            b'p' => SubscriptionKind::Pattern,
            b's' if command.starts_with("ss") || command.starts_with("sun") => SubscriptionKind::Shard,
            _ => SubscriptionKind::Channel,
        }
    }
}

pub(super) type Listeners = BTreeMap<(SubscriptionKind, Vec<u8>), BTreeSet<ConnectionId>>;

impl Server {
    pub(super) fn pub_sub(
        &mut self,
        from: ConnectionId,
        name: &'static str,
        command: &[Vec<u8>],
    ) -> Option<Reply> {
        match name {
            "publish" if self.sentinel.is_some() => Some(match command[1] == HELLO {
                true => {
                    self.learn_from_hello(&command[2]);
                    Reply::Int(1)
                }
                false => Reply::error("ERR Only HELLO messages are accepted by Sentinel instances."),
            }),
            "publish" | "spublish" => Some(self.publish(Some(from), name, &command[1], &command[2])),
            "pubsub" => Some(self.listeners_described(&command[1..])),
            _ => {
                let way = SubscriptionKind::of(name);
                match name.contains("unsub") {
                    false => self.subscribe(from, name, way, &command[1..]),
                    true => self.unsubscribe(from, name, way, &command[1..]),
                }
                None
            }
        }
    }

    fn subscribe(
        &mut self,
        from: ConnectionId,
        name: &'static str,
        way: SubscriptionKind,
        names: &[Vec<u8>],
    ) {
        for channel in names {
            let listener = (way, channel.clone());
            if let Some(connection) = self.connections.get_mut(&from) {
                connection.listens.insert(listener.clone());
            }
            self.listeners.entry(listener).or_default().insert(from);
            self.acknowledge(from, name, way, Reply::Bulk(channel.clone()));
        }
    }

    fn unsubscribe(
        &mut self,
        from: ConnectionId,
        name: &'static str,
        way: SubscriptionKind,
        names: &[Vec<u8>],
    ) {
        let Some(connection) = self.connections.get(&from) else { return };
        let all = connection.listens.iter().filter(|(of, _)| *of == way);
        let names: Vec<Vec<u8>> = match names {
            [] => all.map(|(_, name)| name.clone()).collect(),
            names => names.to_vec(),
        };
        if names.is_empty() {
            self.acknowledge(from, name, way, Reply::Nil);
        }
        for channel in names {
            self.leave(from, &(way, channel.clone()));
            self.acknowledge(from, name, way, Reply::Bulk(channel));
        }
    }

    pub(super) fn leave(&mut self, from: ConnectionId, listener: &(SubscriptionKind, Vec<u8>)) {
        if let Some(connection) = self.connections.get_mut(&from) {
            connection.listens.remove(listener);
        }
        if let Some(all) = self.listeners.get_mut(listener) {
            all.remove(&from);
            if all.is_empty() {
                self.listeners.remove(listener);
            }
        }
    }

    /// Says what a connection listens to now; those of shards are counted apart.
    fn acknowledge(&mut self, to: ConnectionId, name: &'static str, way: SubscriptionKind, channel: Reply) {
        let count = self.connections.get(&to).map_or(0, |connection| {
            let alike = |(of, _): &&(SubscriptionKind, _)| {
                (*of == SubscriptionKind::Shard) == (way == SubscriptionKind::Shard)
            };
            connection.listens.iter().filter(alike).count()
        });
        self.answer(to, &Reply::Array(vec![Reply::text(name), channel, Reply::count(count)]));
    }

    /// Ends subscriptions to shards' channels for which `goes`, as a server does when their slot moves away.
    pub(super) fn drop_shard_channels(&mut self, goes: impl Fn(&[u8]) -> bool) {
        let gone: Vec<_> = (self.listeners.iter())
            .filter(|((way, channel), _)| *way == SubscriptionKind::Shard && goes(channel))
            .flat_map(|(listener, all)| all.iter().map(|to| (*to, listener.clone())))
            .collect();
        for (to, listener) in gone {
            self.leave(to, &listener);
            self.acknowledge(to, "sunsubscribe", SubscriptionKind::Shard, Reply::Bulk(listener.1));
        }
    }

    /// Says something to those who listen here, and tells replicas; how many listen.
    pub(super) fn publish(
        &mut self,
        from: Option<ConnectionId>,
        name: &'static str,
        channel: &[u8],
        payload: &[u8],
    ) -> Reply {
        let count = self.deliver(from, name, channel, payload);
        let mut effect = words(&[&name.to_uppercase()]);
        effect.extend([channel.to_vec(), payload.to_vec()]);
        match &self.cluster {
            None => self.keyspace.effects.push(effect),
            // Of a channel of a shard only its own nodes are told.
            Some(cluster) => {
                let shard = |at: usize| cluster.nodes[at].master.unwrap_or(at);
                let all = (0..cluster.nodes.len()).filter(|at| *at != cluster.me);
                let to: Vec<usize> =
                    all.filter(|at| name == "publish" || shard(*at) == shard(cluster.me)).collect();
                to.into_iter().for_each(|at| self.tell_node(at, &name.to_uppercase(), &[channel, payload]));
            }
        }
        Reply::count(count)
    }

    pub(super) fn deliver(
        &mut self,
        from: Option<ConnectionId>,
        name: &str,
        channel: &[u8],
        payload: &[u8],
    ) -> usize {
        let bulk = |bytes: &[u8]| Reply::Bulk(bytes.to_vec());
        let (way, word) = match name {
            "spublish" => (SubscriptionKind::Shard, "smessage"),
            _ => (SubscriptionKind::Channel, "message"),
        };
        let mut said: Vec<(ConnectionId, Reply)> = Vec::new();
        if let Some(all) = self.listeners.get(&(way, channel.to_vec())) {
            let message = Reply::Array(vec![Reply::text(word), bulk(channel), bulk(payload)]);
            said.extend(all.iter().map(|to| (*to, message.clone())));
        }
        if way == SubscriptionKind::Channel {
            let patterns = (SubscriptionKind::Pattern, Vec::new())..(SubscriptionKind::Shard, Vec::new());
            for ((_, pattern), all) in self.listeners.range(patterns) {
                if fits(pattern, channel) {
                    let word = Reply::text("pmessage");
                    let message = Reply::Array(vec![word, bulk(pattern), bulk(channel), bulk(payload)]);
                    said.extend(all.iter().map(|to| (*to, message.clone())));
                }
            }
        }
        let count = said.len();
        for (to, message) in said {
            // Since Redis 7.2 one that listens to itself hears it behind its answer.
            match Some(to) == from && self.settings.version >= (7, 2) {
                true => self.behind_answer.push(message),
                false => self.answer(to, &message),
            }
        }
        count
    }

    pub(super) fn listeners_described(&self, args: &[Vec<u8>]) -> Reply {
        let (word, names) = args.split_first().expect("a word");
        let counted = |way: SubscriptionKind| {
            let count = |name: &Vec<u8>| {
                let all = self.listeners.get(&(way, name.clone()));
                [Reply::Bulk(name.clone()), Reply::count(all.map_or(0, BTreeSet::len))]
            };
            Reply::Array(names.iter().flat_map(count).collect())
        };
        match word {
            word if is(word, "numsub") => counted(SubscriptionKind::Channel),
            word if is(word, "shardnumsub") => counted(SubscriptionKind::Shard),
            word => unknown_part("pubsub", word),
        }
    }
}
