//! A replica's side of replication: the link to its master, and the stream that comes by it.

use std::time::Duration;

use crate::server::keys::keyspace::Expiry;
use crate::server::replication::links::{LinkId, Purpose};
use crate::server::reply::{Command, Reply};
use crate::server::settings::{Address, Persistence};
use crate::server::{ConnectionId, Server};

/// How long it waits before it dials again, and how often it says how much it has read.
const SECOND: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Not connected; the link is being dialled if there is one.
    Down,
    Greets,
    Copies,
    Online,
}

#[derive(Debug)]
pub(crate) struct Following {
    master: Address,
    link: Option<LinkId>,
    stage: Stage,
    together: Option<(Vec<Command>, Vec<u8>)>,
    /// What it has is the beginning of somebody's history, so it asks for the rest of that.
    knows: bool,
    /// When it last dialled, heard something, and said how much it has.
    dialled_at: Duration,
    heard_at: Duration,
    said_at: Duration,
    down_since: Option<Duration>,
}

impl Server {
    pub(crate) fn is_replica(&self) -> bool {
        self.following.is_some()
    }

    pub(crate) fn is_in_step(&self) -> bool {
        (self.following.as_ref()).is_some_and(|following| following.stage == Stage::Online)
    }

    pub(crate) fn master_address(&self) -> Option<&Address> {
        self.following.as_ref().map(|following| &following.master)
    }

    fn leave_master(&mut self) -> Option<Following> {
        let following = self.following.take();
        if let Some(link) = following.as_ref().and_then(|following| following.link) {
            self.hang_up(link);
        }
        following
    }

    /// Becomes a replica. What it has may be the beginning of what its new master has.
    pub(crate) fn follow(&mut self, master: Address) {
        let knows = self.leave_master().is_none_or(|before| before.knows);
        self.keyspace.expiry = Expiry::Hides;
        self.following = Some(Following {
            master,
            link: None,
            stage: Stage::Down,
            together: None,
            knows,
            dialled_at: self.now,
            heard_at: self.now,
            said_at: self.now,
            down_since: None,
        });
        self.dial_master();
    }

    pub(crate) fn lead(&mut self) {
        if self.leave_master().is_some() {
            self.keyspace.expiry = Expiry::Deletes;
            let id = self.dice.name();
            self.stream.fork(id);
            self.change_role();
        }
    }

    fn dial_master(&mut self) {
        let Some(to) = self.master_address().cloned() else { return };
        let link = self.dial(Purpose::Master, to);
        let now = self.now;
        if let Some(following) = &mut self.following {
            following.link = Some(link);
            following.dialled_at = now;
            following.heard_at = now;
        }
    }

    pub(crate) fn greet_master(&mut self, link: LinkId) {
        let now = self.now;
        let Some(following) = &mut self.following else { return };
        following.stage = Stage::Greets;
        following.heard_at = now;
        let (id, next) = match following.knows {
            true => (self.stream.id.clone(), (self.stream.offset + 1).to_string()),
            false => ("?".to_owned(), "-1".to_owned()),
        };
        let Address { host, port } = self.settings.address.clone();
        let port = port.to_string();
        self.say(link, &["REPLCONF", "listening-port", &port, "ip-address", &host]);
        self.say(link, &["PSYNC", &id, &next]);
    }

    pub(crate) fn lose_master(&mut self) {
        let now = self.now;
        if let Some(following) = &mut self.following {
            if following.stage == Stage::Online {
                following.down_since = Some(now);
            }
            following.link = None;
            following.stage = Stage::Down;
            following.together = None;
        }
    }

    pub(crate) fn hear_master(&mut self, link: LinkId, reply: Reply, raw: &[u8]) {
        let now = self.now;
        let Some(following) = self.following.as_mut().filter(|following| following.link == Some(link)) else {
            return;
        };
        following.heard_at = now;
        match (following.stage, reply) {
            (Stage::Greets, Reply::Status(text)) => {
                let words: Vec<&str> = text.split(' ').collect();
                match words.as_slice() {
                    ["CONTINUE", id] => {
                        following.stage = Stage::Online;
                        if *id != self.stream.id {
                            self.stream.fork((*id).to_owned());
                        }
                        self.acknowledge_master();
                    }
                    ["FULLRESYNC", id, offset] => {
                        following.stage = Stage::Copies;
                        let offset = offset.parse().unwrap_or(0);
                        // What its own replicas have is of no use any more.
                        self.kill_class(ConnectionId::default(), b"replica");
                        self.stream.adopt((*id).to_owned(), offset);
                    }
                    _ => {}
                }
            }
            (Stage::Copies, Reply::Bulk(snapshot)) => {
                following.stage = Stage::Online;
                following.knows = true;
                self.copy(&snapshot);
                self.acknowledge_master();
            }
            (Stage::Online, reply) => {
                if let Some(command) = reply.into_command() {
                    self.take_command(command, raw);
                }
            }
            (_, Reply::Error(_)) => {
                self.hang_up(link);
                self.lose_master();
            }
            _ => {}
        }
    }

    /// Takes all keys over.
    fn copy(&mut self, snapshot: &[u8]) {
        self.keyspace.clear();
        self.keyspace.expiry = Expiry::Ignores;
        self.redo_all(snapshot);
        self.keyspace.expiry = Expiry::Hides;
        self.keyspace.effects.clear();
        if self.settings.persistence != Persistence::None {
            self.rewrite_file();
        }
    }

    /// A command of the stream. What belongs together is done when all of it is here, and counts only then.
    fn take_command(&mut self, command: Command, raw: &[u8]) {
        let Some(following) = &mut self.following else { return };
        match (command[0].to_ascii_uppercase().as_slice(), &mut following.together) {
            (b"MULTI", together) => *together = Some((Vec::new(), raw.to_vec())),
            (b"EXEC", together) => {
                let (commands, mut bytes) = together.take().unwrap_or_default();
                bytes.extend_from_slice(raw);
                self.apply(&commands, &bytes);
            }
            (_, Some((commands, bytes))) => {
                commands.push(command);
                bytes.extend_from_slice(raw);
            }
            (b"REPLCONF", None) => {
                self.acknowledge_master();
                self.feed(raw);
            }
            (_, None) => self.apply(&[command], raw),
        }
    }

    fn apply(&mut self, commands: &[Command], raw: &[u8]) {
        self.keyspace.expiry = Expiry::Ignores;
        for command in commands {
            match command[0].to_ascii_lowercase().as_slice() {
                b"publish" => _ = self.deliver(None, "publish", &command[1], &command[2]),
                b"spublish" => _ = self.deliver(None, "spublish", &command[1], &command[2]),
                _ => self.redo(command),
            }
        }
        self.keyspace.expiry = Expiry::Hides;
        self.propagate();
        self.feed(raw);
    }

    fn acknowledge_master(&mut self) {
        self.sync_if_always();
        let (offset, synced) = (self.stream.offset.to_string(), self.file.offset.to_string());
        let on_disk = self.settings.persistence != Persistence::None && self.settings.version >= (7, 2);
        let now = self.now;
        let Some(following) = &mut self.following else { return };
        following.said_at = now;
        if let Some(link) = following.link {
            match on_disk {
                true => self.say(link, &["REPLCONF", "ACK", &offset, "FACK", &synced]),
                false => self.say(link, &["REPLCONF", "ACK", &offset]),
            }
        }
    }

    /// Dials again, says how much it has, and gives a silent master up.
    pub(crate) fn look_after_master(&mut self) {
        if self.master_due().is_none_or(|due| self.now < due) {
            return;
        }
        let Some(following) = &self.following else { return };
        match following.link {
            None => self.dial_master(),
            Some(link) if self.now.saturating_sub(following.heard_at) > self.settings.replication_timeout => {
                self.hang_up(link);
                self.lose_master();
            }
            Some(_) if following.stage == Stage::Online => self.acknowledge_master(),
            Some(_) => {}
        }
    }

    pub(crate) fn master_due(&self) -> Option<Duration> {
        let following = self.following.as_ref()?;
        let since = match (following.link, following.stage) {
            (None, _) => following.dialled_at,
            (Some(_), Stage::Online) => following.said_at,
            (Some(_), _) => {
                let timeout = self.settings.replication_timeout;
                return Some(following.heard_at.min(self.now) + timeout + SECOND);
            }
        };
        Some(since.min(self.now) + SECOND)
    }

    pub(crate) fn silence_of_master(&self) -> Duration {
        let heard = self.following.as_ref().map_or(Duration::ZERO, |following| match following.stage {
            Stage::Online => following.heard_at,
            _ => following.down_since.unwrap_or_default(),
        });
        self.now.saturating_sub(heard)
    }

    pub(crate) fn replica_role(&self) -> Option<Reply> {
        let following = self.following.as_ref()?;
        let (state, offset) = match following.stage {
            Stage::Down if following.link.is_none() => ("connect", -1),
            Stage::Down => ("connecting", -1),
            Stage::Greets => ("handshake", -1),
            Stage::Copies => ("sync", -1),
            Stage::Online => ("connected", self.stream.offset as i64),
        };
        Some(Reply::Array(vec![
            Reply::text("slave"),
            Reply::text(&following.master.host),
            Reply::Int(following.master.port.into()),
            Reply::text(state),
            Reply::Int(offset),
        ]))
    }

    pub(crate) fn replica_lines(&self) -> Vec<(&'static str, String)> {
        let Some(following) = &self.following else { return vec![("role", "master".to_owned())] };
        let up = following.stage == Stage::Online;
        let since = |at: Duration| self.now.saturating_sub(at).as_secs().to_string();
        let heard = if up { since(following.heard_at) } else { "-1".to_owned() };
        let mut lines = vec![
            ("role", "slave".to_owned()),
            ("master_host", following.master.host.clone()),
            ("master_port", following.master.port.to_string()),
            ("master_link_status", if up { "up" } else { "down" }.to_owned()),
            ("master_last_io_seconds_ago", heard),
            ("slave_repl_offset", self.stream.offset.to_string()),
            ("slave_read_only", "1".to_owned()),
        ];
        if !up {
            let down = following.down_since.map_or("-1".to_owned(), since);
            lines.push(("master_link_down_since_seconds", down));
        }
        lines
    }
}
