//! What a server is started with.

use std::{fmt, time::Duration};

/// Where a process listens, as others are told.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Address {
    /// A host's name or number.
    pub host: String,
    /// Its port.
    pub port: u16,
}

impl Address {
    /// From its parts as texts; port 0 where that is no number.
    pub(super) fn of(host: &str, port: &str) -> Self {
        Self { host: host.to_owned(), port: port.parse().unwrap_or(0) }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// What is written to disk, and when it is safe there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Persistence {
    #[default]
    /// Nothing.
    None,
    /// Everything, before it is answered (`appendfsync always`).
    Always,
    /// Everything, each second (`appendfsync everysec`).
    EverySecond,
    /// Everything, when the system likes, after 30 seconds here (`appendfsync no`).
    Never,
}

impl Persistence {
    pub(super) const WORDS: [(Persistence, &'static str); 3] =
        [(Persistence::Always, "always"), (Persistence::EverySecond, "everysec"), (Persistence::Never, "no")];
}

/// What a sentinel watches.
#[derive(Debug, Clone)]
pub struct Watch {
    /// How the master is called.
    pub name: String,
    /// Where it is at first.
    pub master: Address,
    /// How many sentinels must find it down.
    pub quorum: usize,
    /// For how long it must be silent for that.
    pub down_after: Duration,
    /// How long a failover may take.
    pub failover_timeout: Duration,
}

/// Who belongs to a cluster.
#[derive(Debug, Clone)]
pub struct Membership {
    /// Its parts.
    pub shards: Vec<Shard>,
    /// For how long a node must be silent to be suspected.
    pub node_timeout: Duration,
    /// Nothing is served while a slot is not (`cluster-require-full-coverage`).
    pub full_coverage: bool,
}

/// A part of a cluster, as it begins.
#[derive(Debug, Clone)]
pub struct Shard {
    /// The first and the last slot of each range.
    pub slots: Vec<(u16, u16)>,
    /// The master, and its replicas.
    pub nodes: Vec<Address>,
}

/// What a server is started with.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where everything random in the server comes from.
    pub seed: u64,
    /// As which version it behaves: 7.0, or 7.2.
    pub version: (u8, u8),
    /// Where it listens.
    pub address: Address,
    /// What it watches, if it is a sentinel.
    pub watch: Option<Watch>,
    /// The cluster that it is a node of.
    pub cluster: Option<Membership>,
    /// Its master, if it is a replica and not a node.
    pub replica_of: Option<Address>,
    /// What is written to disk.
    pub persistence: Persistence,
    /// Roughly how many bytes its keys may take, with the policy `noeviction`; 0 is no limit.
    pub max_memory: u64,
    /// How long each end of a replication link believes in the other without a word (`repl-timeout`).
    pub replication_timeout: Duration,
    /// How often replicas are told that nothing happened (`repl-ping-replica-period`).
    pub replica_ping: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            seed: 0,
            version: (7, 2),
            address: Address::default(),
            watch: None,
            cluster: None,
            replica_of: None,
            persistence: Persistence::None,
            max_memory: 0,
            replication_timeout: Duration::from_secs(60),
            replica_ping: Duration::from_secs(10),
        }
    }
}

impl Settings {
    pub(super) fn version_text(&self) -> String {
        format!("{}.{}.0", self.version.0, self.version.1)
    }
}
