//! A master's side of replication: the stream of what commands did, the replicas that read it, and who waits
//! for them.

use std::time::Duration;

use crate::server::keys::file::write_together;
use crate::server::keys::keyspace::{NOT_WHOLE, is};
use crate::server::keys::number;
use crate::server::reply::{Reply, write_command};
use crate::server::settings::{Address, Persistence};
use crate::server::{ConnectionId, Server};

/// How much of the stream is kept for replicas that come back.
const BACKLOG: usize = 1 << 20;
const NOBODY: &str = "0000000000000000000000000000000000000000";

#[derive(Debug, Default)]
pub(crate) struct Stream {
    pub(crate) run_id: String,
    /// Whose history this is, and whose it was up to an offset.
    pub(crate) id: String,
    pub(crate) former: Option<(String, u64)>,
    pub(crate) offset: u64,
    /// Its last bytes; nothing as long as no replica has ever asked.
    backlog: Option<Vec<u8>>,
    readers: Vec<ConnectionId>,
    said_at: Duration,
    /// More was acknowledged, or is on the disk, since waiters were looked at.
    pub(crate) heard: bool,
    /// Somebody waits for replicas that have not been asked yet.
    asks: bool,
}

#[derive(Debug)]
pub(crate) struct Replica {
    address: Address,
    acked: u64,
    synced: u64,
    heard_at: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Waiting {
    Pause,
    /// That its keys have arrived elsewhere.
    Migration,
    /// So many replicas, and the own disk where that is asked for.
    Acks {
        replicas: usize,
        /// WAITAOF: disks, also the own one.
        disks: Option<bool>,
        until: Option<Duration>,
    },
}

impl Stream {
    pub(crate) fn new(run_id: String) -> Self {
        Stream { id: run_id.chars().rev().collect(), run_id, ..Stream::default() }
    }

    fn first(&self) -> u64 {
        self.offset - self.backlog.as_ref().map_or(0, Vec::len) as u64
    }

    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.offset += bytes.len() as u64;
        let backlog = self.backlog.get_or_insert_default();
        backlog.extend_from_slice(bytes);
        if backlog.len() > 2 * BACKLOG {
            backlog.drain(..backlog.len() - BACKLOG);
        }
    }

    pub(crate) fn adopt(&mut self, id: String, offset: u64) {
        self.id = id;
        self.offset = offset;
        self.former = None;
        self.backlog = Some(Vec::new());
    }

    pub(crate) fn fork(&mut self, id: String) {
        self.former = Some((std::mem::replace(&mut self.id, id), self.offset));
    }

    /// What one that has read so much of a history lacks; nothing if it must read all anew.
    fn rest(&self, id: &str, from: u64) -> Option<Vec<u8>> {
        let backlog = self.backlog.as_ref()?;
        let known = id == self.id
            || self.former.as_ref().is_some_and(|(former, until)| id == former && from <= until + 1);
        // It asks for the first byte that it has not, counted from 1.
        let at = from.checked_sub(self.first() + 1)?;
        let at = usize::try_from(at).ok()?;
        (known && at <= backlog.len()).then(|| backlog[at..].to_vec())
    }
}

impl Server {
    /// Tells the file and the replicas what the commands of this moment did.
    pub(crate) fn propagate(&mut self) {
        if self.keyspace.effects.is_empty() {
            return;
        }
        let effects = std::mem::take(&mut self.keyspace.effects);
        self.append(&effects);
        if self.is_replica() {
            return;
        }
        if self.stream.backlog.is_none() {
            // Nobody reads it; it counts all the same.
            self.stream.offset += 1;
            return;
        }
        let mut bytes = Vec::new();
        write_together(&effects.iter().collect::<Vec<_>>(), &mut bytes);
        self.feed(&bytes);
    }

    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        self.stream.add(bytes);
        self.stream.said_at = self.now;
        for id in &self.stream.readers {
            if let Some(connection) = self.connections.get_mut(id) {
                connection.output.extend_from_slice(bytes);
                self.ready.push(*id);
            }
        }
    }

    pub(crate) fn about_replication(
        &mut self,
        from: ConnectionId,
        name: &str,
        command: &[Vec<u8>],
    ) -> Option<Reply> {
        match (name, &command[1..]) {
            ("role", _) => Some(self.role()),
            ("wait" | "waitaof", args) => self.wait_for_replicas(from, args),
            ("replconf", args) => self.replconf(from, args),
            ("psync", args) => self.begin_replication(from, args),
            (_, args) => Some(self.replicate(from, args)),
        }
    }

    fn replicas(&self) -> impl Iterator<Item = &Replica> {
        self.stream.readers.iter().filter_map(|id| self.connections.get(id)?.replica.as_ref())
    }

    fn lag_s(&self, replica: &Replica) -> u64 {
        self.now.as_secs().saturating_sub(replica.heard_at.as_secs())
    }

    fn role(&self) -> Reply {
        if let Some(watch) = self.settings.watch.as_ref() {
            return Reply::Array(vec![Reply::text("sentinel"), Reply::Array(vec![Reply::text(&watch.name)])]);
        }
        if let Some(role) = self.replica_role() {
            return role;
        }
        let each = |replica: &Replica| {
            let address = &replica.address;
            Reply::texts([&address.host, &address.port.to_string(), &replica.acked.to_string()])
        };
        let replicas = self.replicas().map(each).collect();
        let offset = Reply::Int(self.stream.offset as i64);
        Reply::Array(vec![Reply::text("master"), offset, Reply::Array(replicas)])
    }

    pub(crate) fn replication_lines(&self) -> Vec<(&'static str, String)> {
        const NUMBERED: [&str; 8] =
            ["slave0", "slave1", "slave2", "slave3", "slave4", "slave5", "slave6", "slave7"];
        let mut lines = self.replica_lines();
        lines.push(("connected_slaves", self.replicas().count().to_string()));
        for (name, replica) in NUMBERED.into_iter().zip(self.replicas()) {
            let Address { host, port } = &replica.address;
            let (acked, lag) = (replica.acked, self.lag_s(replica));
            lines.push((name, format!("ip={host},port={port},state=online,offset={acked},lag={lag}")));
        }
        let (former, until) = match &self.stream.former {
            Some((former, until)) => (former.as_str(), *until as i64 + 1),
            None => (NOBODY, -1),
        };
        lines.extend([
            ("master_replid", self.stream.id.clone()),
            ("master_replid2", former.to_owned()),
            ("master_repl_offset", self.stream.offset.to_string()),
            ("second_repl_offset", until.to_string()),
        ]);
        lines
    }

    /// REPLCONF: who a replica is, and how much it has read.
    fn replconf(&mut self, from: ConnectionId, args: &[Vec<u8>]) -> Option<Reply> {
        let (now, connection) = (self.now, self.connections.get_mut(&from)?);
        let number = |text: &Vec<u8>| number::whole(text).map_or(0, |number| number as u64);
        let mut acknowledges = false;
        for pair in args.chunks(2) {
            let [word, value] = pair else { return Some(Reply::error("ERR syntax error")) };
            let replica = connection.replica.get_or_insert_with(|| Replica {
                address: Address::default(),
                acked: 0,
                synced: 0,
                heard_at: now,
            });
            match word.to_ascii_lowercase().as_slice() {
                b"listening-port" => replica.address.port = number(value) as u16,
                b"ip-address" => replica.address.host = String::from_utf8_lossy(value).into_owned(),
                b"ack" => {
                    acknowledges = true;
                    self.stream.heard = true;
                    replica.acked = replica.acked.max(number(value));
                    replica.heard_at = now;
                }
                b"fack" => replica.synced = replica.synced.max(number(value)),
                _ => {}
            }
        }
        (!acknowledges).then_some(Reply::OK)
    }

    /// PSYNC: the rest of the stream, or everything.
    fn begin_replication(&mut self, from: ConnectionId, args: &[Vec<u8>]) -> Option<Reply> {
        if self.following.is_some() && !self.is_in_step() {
            return Some(Reply::error("NOMASTERLINK Can't SYNC while not connected with my master"));
        }
        let id = String::from_utf8_lossy(&args[0]).into_owned();
        let offset = number::whole(&args[1]).and_then(|offset| u64::try_from(offset).ok());
        let rest = offset.and_then(|offset| self.stream.rest(&id, offset));
        let mut bytes = Vec::new();
        match rest {
            Some(rest) => {
                bytes.extend(format!("+CONTINUE {}\r\n", self.stream.id).into_bytes());
                bytes.extend(rest);
            }
            None => {
                if self.stream.backlog.is_none() {
                    self.stream.offset += 1;
                    self.stream.backlog = Some(Vec::new());
                }
                let mut snapshot = Vec::new();
                let commands = self.keyspace.as_commands();
                commands.iter().for_each(|command| write_command(command, &mut snapshot));
                bytes.extend(
                    format!("+FULLRESYNC {} {}\r\n", self.stream.id, self.stream.offset).into_bytes(),
                );
                Reply::Bulk(snapshot).write(&mut bytes);
            }
        }
        self.stream.said_at = self.now;
        let (now, acked) = (self.now, offset.unwrap_or(0));
        let connection = self.connections.get_mut(&from)?;
        self.ready.push(from);
        connection.output.extend(bytes);
        if let Some(replica) = &mut connection.replica {
            self.stream.heard = true;
            replica.heard_at = now;
            replica.acked = acked.saturating_sub(1).min(self.stream.offset);
            let readers = &mut self.stream.readers;
            readers.push(from);
            readers.retain(|id| self.connections.contains_key(id));
            readers.sort_unstable();
            readers.dedup();
        }
        None
    }

    fn wait_for_replicas(&mut self, from: ConnectionId, args: &[Vec<u8>]) -> Option<Reply> {
        let refuse = |why: &'static str| Some(Reply::error(why));
        let mut numbers = Vec::new();
        for arg in args {
            match number::whole(arg) {
                None => return refuse(NOT_WHOLE),
                Some(number) => numbers.push(usize::try_from(number).ok()),
            }
        }
        let (disks, replicas, time_ms) = match numbers.as_slice() {
            [replicas, time_ms] => (None, *replicas, *time_ms),
            [Some(local @ 0..=1), replicas, time_ms] => (Some(*local == 1), *replicas, *time_ms),
            _ => return refuse("ERR value is out of range, must be between 0 and 1"),
        };
        if self.is_replica() {
            return refuse(match disks {
                None => {
                    "ERR WAIT cannot be used with replica instances. Please also note that since Redis 4.0 if a replica is configured to be writable (which is not the default) writes to replicas are just local and are not propagated."
                }
                Some(_) => {
                    "ERR WAITAOF cannot be used with replica instances. Please also note that writes to replicas are just local and are not propagated."
                }
            });
        }
        if disks == Some(true) && self.settings.persistence == Persistence::None {
            return refuse("ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.");
        }
        let Some(time_ms) = time_ms else { return refuse("ERR timeout is negative") };
        let Some(replicas) = replicas else { return refuse("ERR value is out of range, must be positive") };
        let until = (time_ms > 0).then(|| self.now + Duration::from_millis(time_ms as u64));
        let waiting = Waiting::Acks { replicas, disks, until };
        let (reply, enough) = self.acknowledged(from, &waiting);
        if enough {
            return Some(reply);
        }
        self.stream.asks = true;
        self.wait(from, waiting);
        None
    }

    pub(crate) fn wait(&mut self, connection: ConnectionId, waiting: Waiting) {
        if let Some(state) = self.connections.get_mut(&connection) {
            state.waiting = Some(waiting);
            self.waiters.insert(connection);
        }
    }

    pub(crate) fn waiting(&self) -> impl Iterator<Item = (ConnectionId, &Waiting)> {
        self.waiters.iter().filter_map(|id| Some((*id, self.connections.get(id)?.waiting.as_ref()?)))
    }

    fn acknowledged(&self, connection: ConnectionId, waiting: &Waiting) -> (Reply, bool) {
        let Waiting::Acks { replicas, disks, .. } = waiting else { return (Reply::Nil, false) };
        let offset = self.connections.get(&connection).map_or(0, |state| state.offset);
        let count = |reaches: fn(&Replica) -> u64| {
            self.replicas().filter(|replica| reaches(replica) >= offset).count()
        };
        match disks {
            None => {
                let count = count(|replica| replica.acked);
                (Reply::count(count), count >= *replicas)
            }
            Some(local) => {
                let own = self.settings.persistence != Persistence::None && self.file.offset >= offset;
                let count = count(|replica| replica.synced);
                let reply = Reply::Array(vec![Reply::Int(own.into()), Reply::count(count)]);
                (reply, count >= *replicas && (own || !local))
            }
        }
    }

    /// After every command: the disk before the answer, replicas are asked, and who waited goes on.
    pub(crate) fn settle(&mut self) {
        self.sync_if_always();
        if std::mem::take(&mut self.stream.asks) && self.replicas().next().is_some() {
            let mut bytes = Vec::new();
            write_command(&["REPLCONF", "GETACK", "*"], &mut bytes);
            self.feed(&bytes);
        }
        if std::mem::take(&mut self.stream.heard) {
            self.let_go(|_| false);
        }
    }

    pub(crate) fn give_up_waiting(&mut self) {
        let now = self.now;
        self.let_go(|until| now >= until);
    }

    fn let_go(&mut self, over: impl Fn(Duration) -> bool) {
        let mut done = Vec::new();
        for (id, waiting) in self.waiting() {
            if let Waiting::Acks { until, .. } = waiting {
                let (reply, enough) = self.acknowledged(id, waiting);
                if enough || until.is_some_and(&over) {
                    done.push((id, reply));
                }
            }
        }
        for (id, reply) in done {
            self.answer(id, &reply);
            self.resume(id);
        }
    }

    pub(crate) fn patience_ends(&self) -> Option<Duration> {
        let until = |(_, waiting): (_, &Waiting)| match waiting {
            Waiting::Acks { until, .. } => *until,
            _ => None,
        };
        self.waiting().filter_map(until).min()
    }

    /// Says in the stream that the master is there, and forgets replicas that have been silent for too long.
    pub(crate) fn look_after_replicas(&mut self) {
        if self.replicas_due().is_none_or(|due| self.now < due) {
            return;
        }
        let silent = |replica: &Replica| self.now >= self.forgotten_at(replica);
        let gone: Vec<_> = (self.connections.iter())
            .filter(|(_, state)| state.replica.as_ref().is_some_and(silent))
            .map(|(id, _)| *id)
            .collect();
        gone.into_iter().for_each(|id| self.end(id));
        if self.now < self.ping_at() {
            return;
        }
        if !self.is_replica() {
            let mut bytes = Vec::new();
            write_command(&["PING"], &mut bytes);
            self.feed(&bytes);
        }
        self.stream.said_at = self.now;
    }

    pub(crate) fn replicas_due(&self) -> Option<Duration> {
        // Without a backlog nobody was ever here.
        self.stream.backlog.as_ref()?;
        let forgotten = self.replicas().map(|replica| self.forgotten_at(replica));
        Some(forgotten.min()?.min(self.ping_at()))
    }

    fn ping_at(&self) -> Duration {
        self.stream.said_at.min(self.now) + self.settings.replica_ping
    }

    /// The first whole second in which it has been silent for longer than it may.
    fn forgotten_at(&self, replica: &Replica) -> Duration {
        let silent = replica.heard_at.min(self.now) + self.settings.replication_timeout;
        Duration::from_secs(silent.as_secs() + 1)
    }

    /// Ends what others wait for or read here, since the role changes.
    pub(crate) fn change_role(&mut self) {
        let waiting: Vec<_> = (self.waiting())
            .filter(|(_, waiting)| matches!(waiting, Waiting::Acks { .. }))
            .map(|(id, _)| id)
            .collect();
        for id in waiting {
            self.answer(id, &Reply::error("UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)"));
            if let Some(state) = self.connections.get_mut(&id) {
                state.closing = true;
            }
        }
        self.kill_class(ConnectionId::default(), b"replica");
    }

    /// REPLICAOF.
    fn replicate(&mut self, _from: ConnectionId, args: &[Vec<u8>]) -> Reply {
        let [host, port] = args else { return Reply::Nil };
        if self.cluster.is_some() {
            return Reply::error("ERR REPLICAOF not allowed in cluster mode.");
        }
        if is(host, "no") && is(port, "one") {
            self.lead();
            return Reply::OK;
        }
        let port = number::whole(port).and_then(|port| u16::try_from(port).ok());
        let Some(port) = port else { return Reply::error("ERR Invalid master port") };
        let host = String::from_utf8_lossy(host).into_owned();
        let master = Address { host, port };
        if self.master_address() == Some(&master) {
            return Reply::Status("OK Already connected to specified master".into());
        }
        self.change_role();
        self.follow(master);
        Reply::OK
    }
}
