//! Connections of clients: who speaks, in which protocol version, and what each waits for.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use crate::server::command::{unknown_part, wrong_number};
use crate::server::keys::keyspace::is;
use crate::server::keys::number;
use crate::server::keys::strings::one_of;
use crate::server::pubsub::SubscriptionKind;
use crate::server::replication::stream::{Replica, Waiting};
use crate::server::reply::{Command, Reply};
use crate::server::{ConnectionId, Server};

#[derive(Debug, Default)]
pub(super) struct Connection {
    pub(super) output: Vec<u8>,
    /// The next command may be about a slot that is being imported.
    pub(super) asking: bool,
    pub(super) reads_only: bool,
    pub(super) listens: BTreeSet<(SubscriptionKind, Vec<u8>)>,
    /// The offset of the replication stream after its last command.
    pub(super) offset: u64,
    pub(super) waiting: Option<Waiting>,
    pub(super) queued: VecDeque<Command>,
    /// A replica, once it has asked for the stream.
    pub(super) replica: Option<Replica>,
    pub(super) closing: bool,
}

impl Server {
    pub(super) fn answer(&mut self, to: ConnectionId, reply: &Reply) {
        if let Some(connection) = self.connections.get_mut(&to) {
            self.ready.push(to);
            reply.write(&mut connection.output);
        }
    }

    pub(super) fn end(&mut self, connection: ConnectionId) {
        if self.connections.contains_key(&connection) {
            self.disconnect(connection);
            self.ended.push(connection);
        }
    }

    pub(super) fn about_connection(&mut self, from: ConnectionId, name: &str, command: &[Vec<u8>]) -> Reply {
        match name {
            "ping" => self.pong(from, &command[1..]),
            _ => self.client(from, &command[1..]),
        }
    }

    fn pong(&self, from: ConnectionId, args: &[Vec<u8>]) -> Reply {
        let subscribed =
            (self.connections.get(&from)).is_some_and(|connection| !connection.listens.is_empty());
        match args {
            [] if subscribed => Reply::texts(["pong", ""]),
            [text] if subscribed => Reply::Array(vec![Reply::text("pong"), Reply::Bulk(text.clone())]),
            [] => Reply::Status("PONG".into()),
            [text] => Reply::Bulk(text.clone()),
            _ => wrong_number("ping"),
        }
    }

    fn client(&mut self, from: ConnectionId, args: &[Vec<u8>]) -> Reply {
        let (word, rest) = args.split_first().expect("a word");
        match (word.to_ascii_lowercase().as_slice(), rest) {
            (b"setname", [_]) => Reply::OK,
            (b"pause", [time_ms, rest @ ..]) => {
                let Some(time_ms) = number::whole(time_ms).and_then(|ms| u64::try_from(ms).ok()) else {
                    return Reply::error("ERR timeout is not an integer or out of range");
                };
                let writes_only = rest.first().is_some_and(|mode| is(mode, "write"));
                self.paused = Some((self.now + Duration::from_millis(time_ms), writes_only));
                Reply::OK
            }
            (b"unpause", []) => {
                self.unpause();
                Reply::OK
            }
            (b"kill", [filter, class, ..]) if is(filter, "type") => {
                Reply::count(self.kill_class(from, class))
            }
            (b"kill", _) => Reply::count(self.kill_class(from, b"any")),
            (b"setname" | b"pause" | b"unpause", _) => {
                let word = String::from_utf8_lossy(word).to_lowercase();
                wrong_number(&format!("client|{word}"))
            }
            _ => unknown_part("client", word),
        }
    }

    /// Ends the connections of a class but the one that asks.
    pub(super) fn kill_class(&mut self, from: ConnectionId, class: &[u8]) -> usize {
        let of_class = |connection: &Connection| match () {
            () if connection.replica.is_some() => one_of(class, &["replica", "slave"]),
            () if connection.listens.is_empty() => one_of(class, &["normal", "any"]),
            () => one_of(class, &["pubsub", "any"]),
        };
        let others = self.connections.iter().filter(|(id, _)| **id != from);
        let gone: Vec<_> = others.filter(|(_, connection)| of_class(connection)).map(|(id, _)| *id).collect();
        gone.iter().for_each(|id| self.end(*id));
        gone.len()
    }

    pub(super) fn unpause(&mut self) {
        self.paused = None;
        self.resume_all();
    }

    pub(super) fn is_paused(&self, spec: &super::command::Spec) -> bool {
        // `CLIENT PAUSE` does not delay other servers.
        if matches!(spec.name, "bus" | "replconf" | "psync") {
            return false;
        }
        let writes = spec.has('w') || spec.has('r');
        self.paused.is_some_and(|(_, writes_only)| writes || !writes_only)
    }
}
