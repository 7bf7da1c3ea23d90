//! A machine with one server: its process, which may be stopped or gone, and its wall clock, which may be
//! wrong.

use std::{collections::BTreeMap, time::Duration};

use crate::runtime::system::Skew;
use crate::server::{ConnectionId, LinkId, Loss, Order, Server};

/// A timer of a server is never set closer than this.
const SHORTEST: Duration = Duration::from_millis(1);

pub(crate) struct Host {
    pub(crate) address: String,
    pub(crate) server: Server,
    pub(crate) runs: bool,
    pub(crate) is_stopped: bool,
    pub(crate) links: BTreeMap<LinkId, u64>,
    connections: BTreeMap<ConnectionId, u64>,
    skew: Skew,
    tick_at: Option<Duration>,
}

impl Host {
    pub(crate) fn new(address: String, server: Server) -> Self {
        Host {
            address,
            server,
            runs: true,
            is_stopped: false,
            links: BTreeMap::new(),
            connections: BTreeMap::new(),
            skew: Skew::default(),
            tick_at: None,
        }
    }

    pub(crate) fn set_clock(&mut self, skew: Skew) {
        self.skew = skew;
        self.tick_at = None;
    }

    pub(crate) fn wall(&self, now: Duration) -> Duration {
        self.skew.wall(now)
    }

    pub(crate) fn accept(&mut self, connection: u64) -> ConnectionId {
        let id = self.server.connect();
        self.connections.insert(id, connection);
        id
    }

    pub(crate) fn is_live(&self) -> bool {
        self.runs && !self.is_stopped
    }

    pub(crate) fn hang_up(&mut self, id: ConnectionId) {
        if self.connections.remove(&id).is_some() {
            self.server.disconnect(id);
        }
    }

    pub(crate) fn tick(&mut self, now: Duration) {
        self.tick_at = None;
        let wall = self.wall(now);
        if self.is_live() {
            self.server.tick(wall);
        }
    }

    pub(crate) fn ready(&mut self) -> (Vec<(u64, Vec<u8>)>, Vec<u64>) {
        let (mut ready, mut ended) = (Vec::new(), Vec::new());
        if self.is_live() {
            for id in self.server.ready() {
                if let Some(connection) = self.connections.get(&id) {
                    let bytes = self.server.output(id);
                    if !bytes.is_empty() {
                        ready.push((*connection, bytes));
                    }
                }
            }
            for id in self.server.ended() {
                ended.extend(self.connections.remove(&id));
            }
        }
        (ready, ended)
    }

    pub(crate) fn orders(&mut self) -> Vec<Order> {
        match self.is_live() {
            true => self.server.orders(),
            false => Vec::new(),
        }
    }

    pub(crate) fn requests(&mut self) -> Vec<(u64, Vec<u8>)> {
        if !self.is_live() {
            return Vec::new();
        }
        let asked = self.server.links_ready().into_iter().filter_map(|link| {
            let connection = self.links.get(&link)?;
            Some((*connection, self.server.link_output(link)))
        });
        asked.filter(|(_, bytes)| !bytes.is_empty()).collect()
    }

    /// When the server's next timer is due, where nobody has set it yet.
    pub(crate) fn timer(&mut self, now: Duration) -> Option<Duration> {
        let wall = self.wall(now);
        let due = self.server.next_event().filter(|_| self.is_live());
        // A clock that runs too fast or too slow is asked again when the time is there.
        let due = due.map(|at| now + at.saturating_sub(wall).max(SHORTEST));
        let sooner = due.filter(|due| self.tick_at.is_none_or(|at| *due < at));
        if sooner.is_some() {
            self.tick_at = sooner;
        }
        sooner
    }

    /// Ends its process; after a cut of the power what was not synced is gone too. False where none runs.
    pub(crate) fn end(&mut self, loss: Loss) -> bool {
        if !self.runs {
            return false;
        }
        self.server.crash(loss);
        self.runs = false;
        self.is_stopped = false;
        self.links.clear();
        self.connections.clear();
        self.tick_at = None;
        true
    }

    /// Starts a process with what the last one saved, which it reads for so long; false where one runs.
    pub(crate) fn start(&mut self, now: Duration, loading: Duration) -> bool {
        if self.runs {
            return false;
        }
        self.server.restart(self.wall(now), loading);
        self.runs = true;
        true
    }
}
