//! Connections of clients: who speaks, in which version of the protocol, and what it waits for.

use std::{
    collections::{BTreeSet, VecDeque},
    time::Duration,
};

use super::{
    ConnectionId, Server,
    command::{unknown_part, wrong_number},
    keyspace::{NOT_WHOLE, SYNTAX, is},
    number,
    pubsub::SubscriptionKind,
    replication::{Replica, Waiting},
    reply::{Command, Reply},
    strings::one_of,
};

#[derive(Debug, Default)]
pub(super) struct Connection {
    pub(super) output: Vec<u8>,
    pub(super) resp3: bool,
    pub(super) authenticated: bool,
    pub(super) name: Vec<u8>,
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
    /// Since when it has had more output than the soft limit.
    pub(super) full_since: Option<Duration>,
}

impl Server {
    pub(super) fn answer(&mut self, to: ConnectionId, reply: &Reply) {
        let limit = self.settings.output_limit;
        let Some(connection) = self.connections.get_mut(&to) else {
            return;
        };
        self.ready.push(to);
        reply.write(connection.resp3, &mut connection.output);
        if connection.listens.is_empty() {
            return;
        }
        let waits = connection.output.len();
        match waits > limit.soft {
            true => _ = connection.full_since.get_or_insert(self.now),
            false => connection.full_since = None,
        }
        let long = |since: Duration| self.now.saturating_sub(since) > limit.soft_time;
        if waits > limit.hard || connection.full_since.is_some_and(long) {
            self.end(to);
        }
    }

    pub(super) fn end(&mut self, connection: ConnectionId) {
        if self.connections.contains_key(&connection) {
            self.disconnect(connection);
            self.ended.push(connection);
        }
    }

    pub(super) fn about_connection(
        &mut self,
        from: ConnectionId,
        name: &str,
        command: &[Vec<u8>],
    ) -> Option<Reply> {
        let args = &command[1..];
        Some(match (name, args) {
            ("ping", args) => self.pong(from, args),
            ("select", [number]) => match number::whole(number) {
                None => Reply::error(NOT_WHOLE),
                // One of the sixteen is modelled.
                Some(0) => Reply::OK,
                Some(_) => Reply::error("ERR DB index is out of range"),
            },
            ("auth", args) => self.authenticate(from, args),
            ("hello", args) => self.hello(from, args),
            ("client", args) => self.client(from, args),
            ("quit", _) => {
                self.connections.get_mut(&from)?.closing = true;
                Reply::OK
            }
            _ => {
                let listens = self.connections.get(&from)?.listens.clone();
                listens
                    .iter()
                    .for_each(|listener| self.leave(from, listener));
                let open = self.settings.password.is_none();
                let connection = self.connections.get_mut(&from)?;
                connection.resp3 = false;
                connection.authenticated = open;
                connection.name.clear();
                Reply::Status("RESET".into())
            }
        })
    }

    fn pong(&self, from: ConnectionId, args: &[Vec<u8>]) -> Reply {
        let subscribed = (self.connections.get(&from))
            .is_some_and(|connection| !connection.resp3 && !connection.listens.is_empty());
        match args {
            [] if subscribed => Reply::texts(["pong", ""]),
            [text] if subscribed => {
                Reply::Array(vec![Reply::text("pong"), Reply::Bulk(text.clone())])
            }
            [] => Reply::Status("PONG".into()),
            [text] => Reply::Bulk(text.clone()),
            _ => wrong_number("ping"),
        }
    }

    fn authenticate(&mut self, from: ConnectionId, args: &[Vec<u8>]) -> Reply {
        let (user, password) = match args {
            [password] => {
                if self.settings.password.is_none() {
                    return Reply::error(
                        "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?",
                    );
                }
                (&b"default"[..], password)
            }
            [user, password] => (user.as_slice(), password),
            _ => return Reply::error(SYNTAX),
        };
        let right =
            (self.settings.password.as_ref()).is_none_or(|right| right.as_bytes() == password);
        if user != b"default" || !right {
            return Reply::error("WRONGPASS invalid username-password pair or user is disabled.");
        }
        if let Some(connection) = self.connections.get_mut(&from) {
            connection.authenticated = true;
        }
        Reply::OK
    }

    fn hello(&mut self, from: ConnectionId, args: &[Vec<u8>]) -> Reply {
        let asked = match args.first() {
            None => None,
            Some(version) => match number::whole(version) {
                None => {
                    return Reply::error("ERR Protocol version is not an integer or out of range");
                }
                Some(version @ 2..=3) => Some(version),
                Some(_) => return Reply::error("NOPROTO unsupported protocol version"),
            },
        };
        let mut name = None;
        let mut rest = args.get(1..).unwrap_or(&[]);
        while let [word, more @ ..] = rest {
            rest = match more {
                [user, password, rest @ ..] if is(word, "auth") => {
                    let refused = self.authenticate(from, &[user.clone(), password.clone()]);
                    if refused != Reply::OK {
                        return refused;
                    }
                    rest
                }
                [set, rest @ ..] if is(word, "setname") => {
                    name = Some(set.clone());
                    rest
                }
                _ => {
                    let word = String::from_utf8_lossy(word);
                    return Reply::error(format!("ERR Syntax error in HELLO option '{word}'"));
                }
            };
        }
        let Some(connection) = self.connections.get_mut(&from) else {
            return Reply::Nil;
        };
        if !connection.authenticated {
            return Reply::error(
                "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time",
            );
        }
        connection.name = name.unwrap_or(std::mem::take(&mut connection.name));
        connection.resp3 = asked.map_or(connection.resp3, |version| version == 3);
        let proto = if connection.resp3 { 3 } else { 2 };
        let text = Reply::text;
        let version = self.settings.version_text();
        let role = if self.is_replica() {
            "replica"
        } else {
            "master"
        };
        let fields = [
            ("server", text("redis")),
            ("version", text(&version)),
            ("proto", Reply::Int(proto)),
            ("id", Reply::Int(from.0 as i64)),
            ("mode", text(self.mode())),
            ("role", text(role)),
            ("modules", Reply::Array(Vec::new())),
        ];
        let fields = fields.into_iter();
        Reply::Map(
            fields
                .flat_map(|(name, value)| [text(name), value])
                .collect(),
        )
    }

    fn client(&mut self, from: ConnectionId, args: &[Vec<u8>]) -> Reply {
        let (word, rest) = args.split_first().expect("a word");
        let Some(connection) = self.connections.get_mut(&from) else {
            return Reply::Nil;
        };
        match (word.to_ascii_lowercase().as_slice(), rest) {
            (b"id", []) => Reply::Int(from.0 as i64),
            (b"getname", []) if connection.name.is_empty() => Reply::Nil,
            (b"getname", []) => Reply::Bulk(connection.name.clone()),
            (b"setname", [name]) => {
                connection.name = name.clone();
                Reply::OK
            }
            (b"setinfo", [_, _]) if self.settings.version >= (7, 2) => Reply::OK,
            (b"no-evict" | b"no-touch", [_]) => Reply::OK,
            (b"pause", [time_ms, rest @ ..]) => {
                let Some(time_ms) = number::whole(time_ms).and_then(|ms| u64::try_from(ms).ok())
                else {
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
            (b"setname" | b"id" | b"getname" | b"pause" | b"unpause" | b"setinfo", _) => {
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
        let gone: Vec<_> = others
            .filter(|(_, connection)| of_class(connection))
            .map(|(id, _)| *id)
            .collect();
        gone.iter().for_each(|id| self.end(*id));
        gone.len()
    }

    pub(super) fn unpause(&mut self) {
        self.paused = None;
        self.resume_all();
    }

    pub(super) fn is_paused(&self, spec: &super::command::Spec) -> bool {
        // Servers are not kept waiting.
        if matches!(spec.name, "bus" | "replconf" | "psync") {
            return false;
        }
        let writes = spec.has('w') || spec.has('r');
        self.paused
            .is_some_and(|(_, writes_only)| writes || !writes_only)
    }
}
