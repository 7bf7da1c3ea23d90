//! One redis-server process as a state machine without I/O: commands and the time go in, the bytes of replies
//! and pushes come out.
//!
//! The owner of a [`Server`] carries its bytes, says what its wall clock shows, and calls [`Server::tick`]
//! when [`Server::next_event`] is due. Nothing in here asks a clock, a socket or a source of randomness.
//!
//! A server also opens connections itself: a replica to its master, a sentinel to those that it watches, a
//! node of a cluster to the others. It asks for them by [`Server::orders`]. Who owns it opens them like those
//! of clients, at whatever listens at that address, and says what becomes of them by [`Server::dialled`],
//! [`Server::arrived`] and [`Server::link_closed`]; [`Server::link_output`] has what is to be sent there. A
//! sentinel is a server with [`Settings::watch`].
//!
//! | file | rules |
//! |---|---|
//! | `command.rs` | which commands there are and when each is refused |
//! | `keys/` | keys, when they end, scripts, and what outlives a crash |
//! | `pubsub.rs`, `connection.rs`, `info.rs` | who listens, who speaks, what a server says of itself |
//! | `reply.rs`, `settings.rs` | answers as bytes; what a server is started with |
//! | `replication/` | the stream from masters to replicas; connections that a process opens itself |
//! | `sentinel/`, `cluster/` | sentinels; nodes of a cluster |

mod cluster;
mod command;
mod connection;
mod info;
mod keys;
mod pubsub;
mod replication;
mod reply;
mod sentinel;
mod settings;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use cluster::migrate::Migration;
use cluster::node::Cluster;
use command::{Family, Spec};
use connection::Connection;
use keys::file::File;
use keys::keyspace::Expiry;
use keys::number::Digits;
use replication::replica_link::Following;
use replication::stream::{Stream, Waiting};
use sentinel::state::Sentinel;

pub use keys::file::Loss;
pub use keys::keyspace::Keyspace;
pub(crate) use keys::scripts::prepare;
pub use replication::links::{LinkId, Order};
pub(crate) use reply::counted;
pub use reply::{Reply, write_command};
pub use settings::{Address, Membership, Persistence, Settings, Shard, Watch};

const OUT_OF_MEMORY: &str = "OOM command not allowed when used memory > 'maxmemory'.";
/// What a server takes without a key, in bytes.
const EMPTY: u64 = 1 << 20;
/// How often a server looks after what is due: 10 times a second, as `hz` is by default.
const CYCLE: Duration = Duration::from_millis(100);

/// A connection of one client to one server; never used again after its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ConnectionId(u64);

/// The state of one redis-server process.
#[derive(Debug, Default)]
pub struct Server {
    settings: Settings,
    /// What it begins with: what CONFIG SET has changed is gone with the process, if not rewritten.
    settings_in_file: Settings,
    /// What its wall clock showed last.
    now: Duration,
    keyspace: Keyspace,
    connections: BTreeMap<ConnectionId, Connection>,
    connected: u64,
    waiters: BTreeSet<ConnectionId>,
    ended: Vec<ConnectionId>,
    ready: Vec<ConnectionId>,
    links_ready: Vec<LinkId>,
    listeners: pubsub::Listeners,
    /// What goes behind the answer of the command of this moment.
    behind_answer: Vec<Reply>,
    scripts: keys::scripts::Scripts,
    /// Until when commands are kept back, and whether only those that write.
    paused: Option<(Duration, bool)>,
    loading_until: Option<Duration>,
    is_down: bool,
    started: Duration,
    file: File,
    stream: Stream,
    following: Option<Following>,
    links: BTreeMap<LinkId, replication::links::Link>,
    linked: u64,
    orders: Vec<Order>,
    sentinel: Option<Sentinel>,
    cluster: Option<Cluster>,
    migration: Option<Migration>,
    dice: Dice,
}

#[derive(Debug, Default)]
struct Dice(u64);

impl Dice {
    /// SplitMix64.
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A name as servers give themselves for one run.
    fn name(&mut self) -> String {
        let digits: String = (0..3).map(|_| format!("{:016x}", self.next())).collect();
        digits[..40].to_owned()
    }
}

impl Server {
    /// An empty server that runs.
    pub fn new(settings: Settings) -> Self {
        let mut server = Server {
            dice: Dice(settings.seed),
            settings_in_file: settings.clone(),
            settings,
            ..Server::default()
        };
        server.start();
        server
    }

    fn start(&mut self) {
        self.keyspace = Keyspace::default();
        self.keyspace.digits = if self.settings.version >= (7, 2) { Digits::Fewest } else { Digits::All };
        self.stream = Stream::new(self.dice.name());
        self.following = None;
        self.is_down = false;
        self.started = self.now;
        if let Some(master) = self.settings.replica_of.clone() {
            self.follow(master);
        }
        self.start_sentinel();
        self.start_in_cluster();
    }

    /// Accepts a connection.
    pub fn connect(&mut self) -> ConnectionId {
        self.connected += 1;
        let id = ConnectionId(self.connected);
        self.connections.insert(id, Connection::default());
        id
    }

    /// Forgets a connection with all that it waits for and is subscribed to.
    pub fn disconnect(&mut self, connection: ConnectionId) {
        let Some(gone) = self.connections.get_mut(&connection) else { return };
        self.waiters.remove(&connection);
        std::mem::take(&mut gone.listens).iter().for_each(|listener| self.leave(connection, listener));
        self.connections.remove(&connection);
    }

    /// Connections that the server has ended since it was asked last. One that is told why first is ended
    /// when its output is taken.
    pub fn ended(&mut self) -> Vec<ConnectionId> {
        std::mem::take(&mut self.ended)
    }

    /// Carries out a command at a moment of this server's wall clock (since the Unix epoch), or keeps its
    /// connection waiting.
    pub fn execute(&mut self, now: Duration, connection: ConnectionId, command: &[Vec<u8>]) {
        self.look_at_clock(now);
        let Some(state) = self.connections.get_mut(&connection) else { return };
        if state.closing || command.is_empty() {
            return;
        }
        match state.waiting {
            Some(_) => state.queued.push_back(command.to_vec()),
            None => self.run(connection, command),
        }
        self.settle();
    }

    /// Does what is due at a moment: active expiry, the end of a `WAIT`, the sync of each second.
    pub fn tick(&mut self, now: Duration) {
        self.look_at_clock(now);
        if self.is_down {
            return;
        }
        if self.loading_until.is_some_and(|until| now >= until) {
            self.loading_until = None;
        }
        if self.paused.is_some_and(|(until, _)| now >= until) {
            self.unpause();
        }
        let expires = self.loading_until.is_none() && self.keyspace.expiry == Expiry::Deletes;
        if expires && (self.keyspace.first_end_ms()).is_some_and(|end| self.keyspace.now_ms() > end) {
            self.keyspace.expire_all();
            self.propagate();
        }
        self.watch();
        self.keep_cluster();
        self.give_up_migrating();
        self.sync_by_time();
        self.look_after_replicas();
        self.look_after_master();
        self.give_up_waiting();
        self.settle();
    }

    /// Connections that may have bytes to send since they were asked for last, in order.
    pub(crate) fn ready(&mut self) -> Vec<ConnectionId> {
        self.ready.sort_unstable();
        self.ready.dedup();
        std::mem::take(&mut self.ready)
    }

    /// As [`Server::ready`], of what it opened itself.
    pub(crate) fn links_ready(&mut self) -> Vec<LinkId> {
        self.links_ready.sort_unstable();
        self.links_ready.dedup();
        std::mem::take(&mut self.links_ready)
    }

    /// Takes the bytes that are ready for a connection; empty for one that has ended.
    pub fn output(&mut self, connection: ConnectionId) -> Vec<u8> {
        let Some(state) = self.connections.get_mut(&connection) else { return Vec::new() };
        let taken = std::mem::take(&mut state.output);
        if state.closing {
            self.end(connection);
        }
        taken
    }

    /// The next moment at which [`Server::tick`] has something to do.
    pub fn next_event(&self) -> Option<Duration> {
        if self.is_down {
            return None;
        }
        let expires = self.keyspace.expiry == Expiry::Deletes;
        let expiry =
            (self.keyspace.first_end_ms().filter(|_| expires)).map(|end| Duration::from_millis(end + 1));
        // These have something to do in each turn.
        let turns = self.sentinel.is_some() || self.cluster.is_some();
        let in_cycles = [
            expiry,
            self.paused.map(|(until, _)| until),
            self.sync_due(),
            self.replicas_due(),
            self.master_due(),
            self.patience_ends(),
            turns.then(|| self.now + Duration::from_nanos(1)),
        ];
        let next = in_cycles.into_iter().flatten().min();
        next.map(|due| self.cycle_at(due.max(self.now))).into_iter().chain(self.loading_until).min()
    }

    /// The first turn of its cycle that is not before a moment.
    fn cycle_at(&self, due: Duration) -> Duration {
        let cycle = CYCLE.as_nanos() as u64;
        // As a product of numbers that do not overflow.
        let phase = (self.settings.seed % cycle) * (7_919_000 % cycle) % cycle;
        let due = u64::try_from(due.as_nanos()).unwrap_or(u64::MAX - 2 * cycle);
        let turns = (due + cycle - phase).div_ceil(cycle);
        Duration::from_nanos(turns * cycle + phase - cycle)
    }

    /// The keys, to be looked at.
    pub fn keyspace(&self) -> &Keyspace {
        &self.keyspace
    }

    fn look_at_clock(&mut self, now: Duration) {
        self.now = now;
        self.keyspace.now_us = u64::try_from(now.as_micros()).unwrap_or(u64::MAX);
    }

    fn run(&mut self, from: ConnectionId, command: &[Vec<u8>]) {
        let reply = match self.admit(from, command) {
            Ok(spec) if self.is_paused(&spec) => {
                self.connections.get_mut(&from).expect("it sent this").queued.push_front(command.to_vec());
                self.wait(from, Waiting::Pause);
                return;
            }
            Ok(spec) => {
                let reply = self.carry_out(from, &spec, command);
                self.propagate();
                reply
            }
            Err(refusal) => Some(refusal),
        };
        if let Some(reply) = reply {
            self.answer(from, &reply);
        }
        for message in std::mem::take(&mut self.behind_answer) {
            self.answer(from, &message);
        }
        if let Some(state) = self.connections.get_mut(&from) {
            state.offset = self.stream.offset;
            state.asking &= command[0].eq_ignore_ascii_case(b"asking");
        }
    }

    /// Whether a command is carried out, in the order in which a server looks.
    fn admit(&mut self, from: ConnectionId, command: &[Vec<u8>]) -> Result<Spec, Reply> {
        let refuse = |why: &'static str| Err(Reply::error(why));
        let spec =
            Spec::of(&command[0]).filter(|spec| spec.name != "waitaof" || self.settings.version >= (7, 2));
        let spec = spec.filter(|spec| match spec.family {
            Family::PubSub | Family::Connection => true,
            Family::Sentinel => self.sentinel.is_some(),
            _ => self.sentinel.is_none() || matches!(spec.name, "info" | "role"),
        });
        let spec = spec.ok_or_else(|| command::unknown(command))?;
        if !spec.takes(command.len()) {
            return Err(command::wrong_number(spec.name));
        }
        if let Some(elsewhere) = self.redirected(from, &spec, command) {
            return Err(elsewhere);
        }
        let state = &self.connections[&from];
        if spec.has('m') && self.is_out_of_memory() {
            return refuse(OUT_OF_MEMORY);
        }
        if spec.has('w')
            && let Some(refusal) = self.refuses_writes()
        {
            return Err(refusal);
        }
        if !state.listens.is_empty() && !spec.has('p') {
            let name = String::from_utf8_lossy(&command[0]).to_lowercase();
            return Err(Reply::error(format!(
                "ERR Can't execute '{name}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context"
            )));
        }
        if self.loading_until.is_some() && !spec.has('l') {
            return refuse("LOADING Redis is loading the dataset in memory");
        }
        Ok(spec)
    }

    fn refuses_writes(&self) -> Option<Reply> {
        let readonly = "READONLY You can't write against a read only replica.";
        self.is_replica().then(|| Reply::error(readonly))
    }

    fn is_out_of_memory(&self) -> bool {
        let most = self.settings.max_memory;
        most > 0 && self.keyspace.bytes() as u64 + EMPTY > most
    }

    fn carry_out(&mut self, from: ConnectionId, spec: &Spec, command: &[Vec<u8>]) -> Option<Reply> {
        match spec.family {
            Family::Keys => {
                // While it is paused the data do not change, not by their end either.
                let before = self.keyspace.expiry;
                if self.paused.is_some() {
                    self.keyspace.expiry = Expiry::Hides;
                }
                let reply = self.keyspace.call(spec.name, &command[1..]);
                self.keyspace.expiry = before;
                reply
            }
            Family::Script => Some(self.script(from, spec.name, command)),
            Family::PubSub => self.pub_sub(from, spec.name, command),
            Family::Connection => Some(self.about_connection(from, spec.name, command)),
            Family::Server => Some(self.about_server(spec.name, &command[1..])),
            Family::Replication => self.about_replication(from, spec.name, command),
            Family::Sentinel => Some(self.sentinel_command(&command[1..])),
            Family::Cluster => self.about_cluster(from, spec.name, command),
        }
    }

    /// Lets the connections go on that wait for nothing any more, and carries out what they sent meanwhile.
    fn resume(&mut self, connection: ConnectionId) {
        let Some(state) = self.connections.get_mut(&connection) else { return };
        if state.waiting.take().is_some() {
            self.waiters.remove(&connection);
        }
        while let Some(state) = self.connections.get_mut(&connection)
            && state.waiting.is_none()
            && let Some(command) = state.queued.pop_front()
        {
            self.run(connection, &command);
        }
    }

    fn resume_all(&mut self) {
        let paused = self.waiting();
        let paused = paused.filter(|(_, waiting)| **waiting == Waiting::Pause);
        let paused: Vec<_> = paused.map(|(id, _)| id).collect();
        paused.into_iter().for_each(|id| self.resume(id));
    }

    /// Ends the process. All connections and links are gone with it; its replicas and clients learn that from
    /// its owner.
    pub fn crash(&mut self, loss: Loss) {
        self.file.crash(loss);
        let kept = Server {
            settings: self.settings_in_file.clone(),
            settings_in_file: std::mem::take(&mut self.settings_in_file),
            file: std::mem::take(&mut self.file),
            dice: std::mem::take(&mut self.dice),
            connected: self.connected,
            linked: self.linked,
            sentinel: self.sentinel.take(),
            cluster: self.cluster.take(),
            now: self.now,
            is_down: true,
            ..Server::default()
        };
        *self = kept;
    }

    /// Starts the process again, with what its file has kept; it reads that for so long.
    pub fn restart(&mut self, now: Duration, loading: Duration) {
        self.look_at_clock(now);
        self.start();
        self.look_at_clock(now);
        self.load();
        self.loading_until = (!loading.is_zero()).then(|| now + loading);
    }
}
