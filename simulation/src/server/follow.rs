//! A replica's side of replication: the link to its master, and the stream that comes by it.

use std::time::Duration;

use super::{
    Server,
    keyspace::Expiry,
    replication::TIMEOUT,
    reply::{Command, Reply, write_command},
    settings::{Address, Persistence},
};

/// How long it waits before it dials again, and how often it says how much it has read.
const SECOND: Duration = Duration::from_secs(1);

/// A connection that a process opens itself; never used again after its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct LinkId(pub(super) u64);

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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Not connected; the link is being dialled if there is one.
    Down,
    /// It has said who it is and how much it has.
    Greets,
    /// All keys are on their way.
    Copies,
    Online,
}

/// The master of a replica, and the link to it.
#[derive(Debug)]
pub(super) struct Following {
    master: Address,
    link: Option<LinkId>,
    stage: Stage,
    input: Vec<u8>,
    output: Vec<u8>,
    /// Commands that belong together and are not all here, and their length.
    together: Option<(Vec<Command>, Vec<u8>)>,
    /// Whose history the keys are, if they are a replica's; it asks for the rest of that one.
    knows: bool,
    /// When it last dialled, heard something, and said how much it has.
    dialled_at: Option<Duration>,
    heard_at: Duration,
    said_at: Duration,
    down_since: Option<Duration>,
}

impl Server {
    pub(super) fn is_replica(&self) -> bool {
        self.following.is_some()
    }

    /// Whether its link to the master is up.
    pub(super) fn is_in_step(&self) -> bool {
        self.following
            .as_ref()
            .is_some_and(|following| following.stage == Stage::Online)
    }

    pub(super) fn master_address(&self) -> Option<&Address> {
        self.following.as_ref().map(|following| &following.master)
    }

    /// Becomes a replica. What it has may be the beginning of what its new master has, so it asks for the rest first.
    pub(super) fn follow(&mut self, master: Address) {
        let before = self.following.take();
        let knows = before.is_none_or(|before| before.knows) && !self.stream.id.is_empty();
        if let Some(link) = self.link() {
            self.orders.push(Order::HangUp { link });
        }
        self.keyspace.expiry = Expiry::Hides;
        self.following = Some(Following {
            master,
            link: None,
            stage: Stage::Down,
            input: Vec::new(),
            output: Vec::new(),
            together: None,
            knows,
            dialled_at: None,
            heard_at: self.now,
            said_at: self.now,
            down_since: None,
        });
        self.dial_master();
    }

    /// Becomes a master.
    pub(super) fn lead(&mut self) {
        if !self.is_replica() {
            return;
        }
        if let Some(link) = self.link() {
            self.orders.push(Order::HangUp { link });
        }
        self.following = None;
        self.keyspace.expiry = Expiry::Deletes;
        let id = self.dice.name();
        self.stream.fork(id);
        self.change_role();
    }

    fn link(&self) -> Option<LinkId> {
        self.following.as_ref().and_then(|following| following.link)
    }

    fn dial_master(&mut self) {
        self.links += 1;
        let link = LinkId(self.links);
        let now = self.now;
        if let Some(following) = &mut self.following {
            following.link = Some(link);
            following.dialled_at = Some(now);
            following.heard_at = now;
            let to = following.master.clone();
            self.orders.push(Order::Dial { link, to });
        }
    }

    /// What the process wants to be dialled or hung up, since it was asked last.
    pub fn orders(&mut self) -> Vec<Order> {
        std::mem::take(&mut self.orders)
    }

    /// A link is connected.
    pub fn dialled(&mut self, now: Duration, link: LinkId) {
        self.look_at_clock(now);
        if self.link() != Some(link) {
            return;
        }
        let (id, next) = match self
            .following
            .as_ref()
            .is_some_and(|following| following.knows)
        {
            true => (self.stream.id.clone(), (self.stream.offset + 1).to_string()),
            false => ("?".to_owned(), "-1".to_owned()),
        };
        let (own, password) = (
            self.settings.address.clone(),
            self.settings.password.clone(),
        );
        let Some(following) = &mut self.following else {
            return;
        };
        following.stage = Stage::Greets;
        following.heard_at = now;
        let output = &mut following.output;
        if let Some(password) = password {
            write_command(&["AUTH", &password], output);
        }
        let port = own.port.to_string();
        write_command(
            &["REPLCONF", "listening-port", &port, "ip-address", &own.host],
            output,
        );
        write_command(&["PSYNC", &id, &next], output);
    }

    /// A link was refused or has ended.
    pub fn link_closed(&mut self, now: Duration, link: LinkId) {
        self.look_at_clock(now);
        if self.link() == Some(link) {
            self.lose_link();
        }
    }

    fn lose_link(&mut self) {
        let now = self.now;
        if let Some(following) = &mut self.following {
            if following.stage == Stage::Online {
                following.down_since = Some(now);
            }
            following.link = None;
            following.stage = Stage::Down;
            following.input.clear();
            following.output.clear();
            following.together = None;
        }
    }

    /// Takes the bytes that are ready for a link.
    pub fn link_output(&mut self, link: LinkId) -> Vec<u8> {
        let following = self
            .following
            .as_mut()
            .filter(|following| following.link == Some(link));
        following
            .map(|following| std::mem::take(&mut following.output))
            .unwrap_or_default()
    }

    /// Bytes came by a link.
    pub fn arrived(&mut self, now: Duration, link: LinkId, bytes: &[u8]) {
        self.look_at_clock(now);
        let Some(following) = self
            .following
            .as_mut()
            .filter(|following| following.link == Some(link))
        else {
            return;
        };
        following.heard_at = now;
        following.input.extend_from_slice(bytes);
        let mut input = std::mem::take(&mut following.input);
        let mut read = 0;
        while let Some((reply, length)) = Reply::read(&input[read..]) {
            let raw = &input[read..read + length];
            read += length;
            self.take(reply, raw);
            if self.link() != Some(link) {
                return;
            }
        }
        input.drain(..read);
        if let Some(following) = &mut self.following {
            following.input = input;
        }
        self.settle();
    }

    fn take(&mut self, reply: Reply, raw: &[u8]) {
        let Some(following) = &mut self.following else {
            return;
        };
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
                        self.kill_class(super::ConnectionId::default(), b"replica");
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
                let link = following.link;
                self.orders.extend(link.map(|link| Order::HangUp { link }));
                self.lose_link();
            }
            _ => {}
        }
    }

    /// Takes all keys over.
    fn copy(&mut self, snapshot: &[u8]) {
        self.keyspace.clear();
        self.keyspace.expiry = Expiry::Ignores;
        let mut read = 0;
        while let Some((reply, length)) = Reply::read(&snapshot[read..]) {
            read += length;
            if let Some(command) = reply.into_command() {
                self.redo(&command);
            }
        }
        self.keyspace.expiry = Expiry::Hides;
        self.keyspace.effects.clear();
        if self.settings.persistence != Persistence::None {
            self.rewrite_file();
        }
    }

    /// A command of the stream. What belongs together is done when all of it is here, and counts only then.
    fn take_command(&mut self, command: Command, raw: &[u8]) {
        let Some(following) = &mut self.following else {
            return;
        };
        let name = command[0].to_ascii_uppercase();
        match (name.as_slice(), &mut following.together) {
            (b"MULTI", _) => following.together = Some((Vec::new(), raw.to_vec())),
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

    /// Says how much it has read, and how much of it is on the disk.
    fn acknowledge_master(&mut self) {
        let (offset, now) = (self.stream.offset.to_string(), self.now);
        self.sync_if_always();
        let synced = self.file.offset.to_string();
        let on_disk =
            self.settings.persistence != Persistence::None && self.settings.version >= (7, 2);
        if let Some(following) = &mut self.following {
            following.said_at = now;
            match on_disk {
                true => write_command(
                    &["REPLCONF", "ACK", &offset, "FACK", &synced],
                    &mut following.output,
                ),
                false => write_command(&["REPLCONF", "ACK", &offset], &mut following.output),
            }
        }
    }

    /// Dials again, says how much it has, and gives a silent master up.
    pub(super) fn look_after_master(&mut self) {
        if self.master_due().is_none_or(|due| self.now < due) {
            return;
        }
        let Some(following) = &self.following else {
            return;
        };
        if following.link.is_none() {
            self.dial_master();
        } else if self.now.saturating_sub(following.heard_at) > TIMEOUT {
            let link = following.link;
            self.orders.extend(link.map(|link| Order::HangUp { link }));
            self.lose_link();
        } else if following.stage == Stage::Online {
            self.acknowledge_master();
        }
    }

    pub(super) fn master_due(&self) -> Option<Duration> {
        let following = self.following.as_ref()?;
        let since = match (following.link, following.stage) {
            (None, _) => following.dialled_at.unwrap_or(self.now),
            (Some(_), Stage::Online) => following.said_at,
            (Some(_), _) => return Some(following.heard_at.min(self.now) + TIMEOUT + SECOND),
        };
        Some(since.min(self.now) + SECOND)
    }

    pub(super) fn replica_role(&self) -> Option<Reply> {
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

    /// What INFO says of the role.
    pub(super) fn replica_lines(&self) -> Vec<(&'static str, String)> {
        let Some(following) = &self.following else {
            return vec![("role", "master".to_owned())];
        };
        let up = following.stage == Stage::Online;
        let since = |at: Duration| self.now.saturating_sub(at).as_secs().to_string();
        let mut lines = vec![
            ("role", "slave".to_owned()),
            ("master_host", following.master.host.clone()),
            ("master_port", following.master.port.to_string()),
            (
                "master_link_status",
                if up { "up" } else { "down" }.to_owned(),
            ),
            (
                "master_last_io_seconds_ago",
                if up {
                    since(following.heard_at)
                } else {
                    "-1".to_owned()
                },
            ),
            ("slave_repl_offset", self.stream.offset.to_string()),
            ("slave_priority", self.settings.priority.to_string()),
            ("slave_read_only", "1".to_owned()),
        ];
        if !up {
            let down = following.down_since.map_or("-1".to_owned(), since);
            lines.push(("master_link_down_since_seconds", down));
        }
        lines
    }
}
