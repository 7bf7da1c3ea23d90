//! A machine with one server: its process, which may be stopped or gone, and its wall clock, which may be wrong.

use std::{collections::BTreeMap, time::Duration};

use crate::{
    server::{ConnectionId, Server},
    system::EPOCH,
};

/// A timer of a server is never set closer than this.
const SHORTEST: Duration = Duration::from_millis(1);

/// A server and its machine.
pub(crate) struct Host {
    pub(crate) address: String,
    /// `None`: no process runs.
    pub(crate) server: Option<Server>,
    pub(crate) is_stopped: bool,
    /// What came while it was stopped, by connection.
    pub(crate) held: Vec<(u64, Vec<u8>)>,
    connections: BTreeMap<ConnectionId, u64>,
    skew: Skew,
    tick_at: Option<Duration>,
}

/// How wrong a wall clock is.
#[derive(Debug, Clone, Copy, Default)]
struct Skew {
    jump_ns: i64,
    drift_ppb: i64,
    since: Duration,
}

impl Host {
    pub(crate) fn new(address: String, server: Server) -> Self {
        Host {
            address,
            server: Some(server),
            is_stopped: false,
            held: Vec::new(),
            connections: BTreeMap::new(),
            skew: Skew::default(),
            tick_at: None,
        }
    }

    /// Sets the clock wrong from now on, or right.
    pub(crate) fn set_clock(&mut self, now: Duration, jump_ns: i64, drift_ppb: i64) {
        self.skew = Skew {
            jump_ns,
            drift_ppb,
            since: now,
        };
        self.tick_at = None;
    }

    /// What its wall clock shows at a moment of the run.
    pub(crate) fn wall(&self, now: Duration) -> Duration {
        let since = i64::try_from((now - self.skew.since).as_nanos()).unwrap_or(i64::MAX);
        let drift = i128::from(since) * i128::from(self.skew.drift_ppb) / 1_000_000_000;
        let wrong = i128::from(self.skew.jump_ns) + drift;
        let amount = Duration::from_nanos(u64::try_from(wrong.unsigned_abs()).unwrap_or(u64::MAX));
        match wrong < 0 {
            true => (EPOCH + now).saturating_sub(amount),
            false => EPOCH + now + amount,
        }
    }

    /// Accepts a connection; a process runs.
    pub(crate) fn accept(&mut self, connection: u64) -> ConnectionId {
        let server = self.server.as_mut().expect("a process runs");
        let id = server.connect();
        self.connections.insert(id, connection);
        id
    }

    pub(crate) fn hang_up(&mut self, id: ConnectionId) {
        if self.connections.remove(&id).is_some()
            && let Some(server) = &mut self.server
        {
            server.disconnect(id);
        }
    }

    pub(crate) fn tick(&mut self, now: Duration) {
        self.tick_at = None;
        let wall = self.wall(now);
        if let Some(server) = self.server.as_mut().filter(|_| !self.is_stopped) {
            server.tick(wall);
        }
    }

    /// What is ready for each connection, and when the next timer is due that nobody has set yet.
    pub(crate) fn ready(&mut self, now: Duration) -> (Vec<(u64, Vec<u8>)>, Option<Duration>) {
        let wall = self.wall(now);
        let Some(server) = self.server.as_mut().filter(|_| !self.is_stopped) else {
            return (Vec::new(), None);
        };
        let mut ready = Vec::new();
        for (id, connection) in &self.connections {
            let bytes = server.output(*id);
            if !bytes.is_empty() {
                ready.push((*connection, bytes));
            }
        }
        let due = server.next_event().map(|at| {
            // A clock that runs too fast or too slow is asked again when the time is there.
            now + at.saturating_sub(wall).max(SHORTEST)
        });
        let sooner = due.filter(|due| self.tick_at.is_none_or(|at| *due < at));
        if sooner.is_some() {
            self.tick_at = sooner;
        }
        (ready, sooner)
    }

    /// Takes its process away.
    pub(crate) fn end(&mut self) -> Option<Server> {
        self.is_stopped = false;
        self.held.clear();
        self.connections.clear();
        self.tick_at = None;
        self.server.take()
    }
}
