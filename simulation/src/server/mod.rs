//! One redis-server process as a state machine without I/O: commands and the time go in, the bytes of replies and pushes come out.
//!
//! Whoever owns a [`Server`] carries its bytes, says what its wall clock shows, and calls [`Server::tick`] when
//! [`Server::next_event`] is due. Nothing in here asks a clock, a socket or a source of randomness.

use std::{collections::BTreeMap, time::Duration};

/// What a server is started with.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Where everything random in the server comes from.
    pub seed: u64,
}

/// A connection of one client to one server; never used again after its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(u64);

/// The state of one redis-server process.
#[derive(Debug)]
pub struct Server {
    /// What is ready for each connection.
    output: BTreeMap<ConnectionId, Vec<u8>>,
    connected: u64,
}

impl Server {
    /// An empty server.
    pub fn new(_settings: Settings) -> Self {
        Server {
            output: BTreeMap::new(),
            connected: 0,
        }
    }

    /// Accepts a connection.
    pub fn connect(&mut self) -> ConnectionId {
        self.connected += 1;
        let connection = ConnectionId(self.connected);
        self.output.insert(connection, Vec::new());
        connection
    }

    /// Forgets a connection with all that it waits for and is subscribed to.
    pub fn disconnect(&mut self, connection: ConnectionId) {
        self.output.remove(&connection);
    }

    /// Carries out a command at a moment of this server's wall clock (since the Unix epoch), or keeps its connection waiting.
    pub fn execute(&mut self, _now: Duration, connection: ConnectionId, command: &[Vec<u8>]) {
        let name = String::from_utf8_lossy(command.first().map_or(&[][..], Vec::as_slice));
        if let Some(output) = self.output.get_mut(&connection) {
            output.extend(format!("-ERR unknown command '{name}'\r\n").into_bytes());
        }
    }

    /// Does what is due at a moment: active expiry, the end of a `WAIT`, the sync of each second.
    pub fn tick(&mut self, _now: Duration) {}

    /// Takes the bytes that are ready for a connection; empty for one that has ended.
    pub fn output(&mut self, connection: ConnectionId) -> Vec<u8> {
        self.output
            .get_mut(&connection)
            .map(std::mem::take)
            .unwrap_or_default()
    }

    /// The next moment at which [`Server::tick`] has something to do.
    pub fn next_event(&self) -> Option<Duration> {
        None
    }
}
