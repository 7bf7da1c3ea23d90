//! Connections that a process opens itself: to its master, to those that a sentinel watches, to the other
//! nodes of a cluster.

use std::time::Duration;

use crate::server::Server;
use crate::server::reply::{Reply, write_command};
use crate::server::sentinel::state::WatchedPeer;
use crate::server::settings::Address;

/// A connection that a process opens itself; never used again after its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct LinkId(u64);

/// What a process wants of its owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    /// A connection to an address; [`Server::dialled`] or [`Server::link_closed`] says what became of it.
    Dial {
        /// How it is called.
        link: LinkId,
        /// Where to.
        to: Address,
    },
    /// The end of one.
    HangUp {
        /// Which.
        link: LinkId,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Purpose {
    Master,
    Asks(WatchedPeer),
    Hears(WatchedPeer),
    Bus(usize),
    Migrates,
}

#[derive(Debug)]
pub(crate) struct Link {
    purpose: Purpose,
    is_up: bool,
    input: Vec<u8>,
    output: Vec<u8>,
}

impl Server {
    pub(crate) fn dial(&mut self, purpose: Purpose, to: Address) -> LinkId {
        self.linked += 1;
        let id = LinkId(self.linked);
        let link = Link { purpose, is_up: false, input: Vec::new(), output: Vec::new() };
        self.links.insert(id, link);
        self.orders.push(Order::Dial { link: id, to });
        id
    }

    pub(crate) fn hang_up(&mut self, link: LinkId) {
        if self.links.remove(&link).is_some() {
            self.orders.push(Order::HangUp { link });
        }
    }

    pub(crate) fn is_up(&self, link: Option<LinkId>) -> bool {
        let link = link.and_then(|link| self.links.get(&link));
        link.is_some_and(|link| link.is_up)
    }

    pub(crate) fn say<T: AsRef<[u8]>>(&mut self, link: LinkId, command: &[T]) {
        self.links_ready.push(link);
        if let Some(link) = self.links.get_mut(&link) {
            write_command(command, &mut link.output);
        }
    }

    /// What the process wants to be dialled or hung up, since it was asked last.
    pub fn orders(&mut self) -> Vec<Order> {
        std::mem::take(&mut self.orders)
    }

    /// A link is connected.
    pub fn dialled(&mut self, now: Duration, link: LinkId) {
        self.look_at_clock(now);
        let Some(state) = self.links.get_mut(&link) else { return };
        state.is_up = true;
        match state.purpose.clone() {
            Purpose::Master => self.greet_master(link),
            Purpose::Asks(who) => self.begin_asking(&who),
            Purpose::Hears(who) => self.begin_hearing(link, &who),
            Purpose::Bus(node) => self.begin_bus(node),
            Purpose::Migrates => self.begin_migration(link),
        }
    }

    /// A link was refused or has ended.
    pub fn link_closed(&mut self, now: Duration, link: LinkId) {
        self.look_at_clock(now);
        match self.links.remove(&link).map(|link| link.purpose) {
            Some(Purpose::Master) => self.lose_master(),
            Some(Purpose::Asks(who) | Purpose::Hears(who)) => self.lose_peer(link, &who),
            Some(Purpose::Bus(node)) => self.lose_bus(node),
            Some(Purpose::Migrates) => self.fail_migrating(),
            None => {}
        }
    }

    /// Takes the bytes that are ready for a link.
    pub fn link_output(&mut self, link: LinkId) -> Vec<u8> {
        let link = self.links.get_mut(&link);
        link.map(|link| std::mem::take(&mut link.output)).unwrap_or_default()
    }

    /// Bytes came by a link.
    pub fn arrived(&mut self, now: Duration, link: LinkId, bytes: &[u8]) {
        self.look_at_clock(now);
        let Some(state) = self.links.get_mut(&link) else { return };
        state.input.extend_from_slice(bytes);
        let mut input = std::mem::take(&mut state.input);
        let purpose = state.purpose.clone();
        let mut read = 0;
        while let Some((reply, length)) = Reply::read(&input[read..]) {
            let raw = &input[read..read + length];
            read += length;
            match &purpose {
                Purpose::Master => self.hear_master(link, reply, raw),
                Purpose::Asks(who) => self.hear_peer(who, reply),
                Purpose::Hears(_) => self.hear_hello(reply),
                Purpose::Bus(_) => self.hear_bus(reply),
                Purpose::Migrates => self.note_migrated(link, &reply),
            }
            if !self.links.contains_key(&link) {
                break;
            }
        }
        if let Some(state) = self.links.get_mut(&link) {
            input.drain(..read);
            state.input = input;
        }
        self.settle();
    }
}
