//! The choices of a topology that have a word each: its shape, what survives a crash, what servers run in.

use std::ops::RangeInclusive;

use crate::input::named_choices::words;

words! {
    /// The shape of a deployment.
    pub enum TopologyKind {
        /// One server.
        Single = "single",
        /// A master, replicas, sentinels.
        Sentinel = "sentinel",
        /// Masters with slots, and their replicas.
        Cluster = "cluster",
        /// Independent masters.
        Masters = "masters",
        /// One member of etcd.
        Etcd = "etcd",
        /// Three members of etcd.
        Etcd3 = "etcd-3",
        /// One server of ZooKeeper.
        ZooKeeper = "zookeeper",
        /// An ensemble of three servers of ZooKeeper.
        ZooKeeper3 = "zookeeper-3",
        /// One server of MariaDB.
        Mysql = "mysql",
        /// One server of PostgreSQL.
        Postgres = "postgres",
        /// One server of MongoDB.
        Mongodb = "mongodb",
    }
}

/// A number of nodes that a kind lets choose.
pub(super) struct Count {
    pub(super) key: &'static str,
    pub(super) allowed: RangeInclusive<u32>,
}

impl Count {
    pub(super) fn complaint(&self, kind: TopologyKind, found: i64) -> Option<String> {
        let (low, high) = (*self.allowed.start(), *self.allowed.end());
        let allowed = (i64::from(low)..=i64::from(high)).contains(&found);
        (!allowed).then(|| {
            let key = self.key;
            format!("{key} = {found} in a {kind} topology: allowed are {low} to {high}")
        })
    }
}

impl TopologyKind {
    /// Those of Redis: where locks of ours run.
    pub const REDIS: [TopologyKind; 4] =
        [TopologyKind::Single, TopologyKind::Sentinel, TopologyKind::Cluster, TopologyKind::Masters];

    /// Whether its servers are Redis, or what speaks as Redis does.
    pub fn is_redis(self) -> bool {
        TopologyKind::REDIS.contains(&self)
    }

    /// Whether its servers say at which addresses clients are to dial them, past a proxy in front of them.
    pub fn announces_addresses(self) -> bool {
        matches!(self, TopologyKind::Sentinel | TopologyKind::Cluster)
    }

    /// Whether no node takes another's place: who is master is known before anybody is asked.
    pub fn has_fixed_roles(self) -> bool {
        !matches!(
            self,
            TopologyKind::Sentinel | TopologyKind::Cluster | TopologyKind::Etcd3 | TopologyKind::ZooKeeper3
        )
    }

    /// The system that it runs, which is what the names of its locks begin with; `None`: Redis.
    pub fn system_name(self) -> Option<&'static str> {
        match self {
            TopologyKind::Etcd3 => Some("etcd"),
            TopologyKind::ZooKeeper3 => Some("zookeeper"),
            kind if kind.is_redis() => None,
            kind => Some(kind.name()),
        }
    }

    /// What `server` is where nobody says: a name under which the usual server is found.
    pub fn server(self) -> &'static str {
        match self {
            TopologyKind::Etcd | TopologyKind::Etcd3 => "etcd",
            TopologyKind::ZooKeeper | TopologyKind::ZooKeeper3 => "zookeeper",
            TopologyKind::Mysql => "mariadb",
            TopologyKind::Postgres => "postgres",
            TopologyKind::Mongodb => "mongodb",
            _ => "redis",
        }
    }

    /// The numbers that it lets choose; another has no meaning for it.
    pub(super) fn counts(self) -> &'static [Count] {
        const fn count(key: &'static str, allowed: RangeInclusive<u32>) -> Count {
            Count { key, allowed }
        }
        const MASTERS: Count = count("masters", 1..=9);
        const SHARDS: Count = count("shards", 1..=100);
        const REPLICAS: Count = count("replicas", 0..=5);
        const SENTINELS: Count = count("sentinels", 1..=7);
        match self {
            TopologyKind::Sentinel => &[REPLICAS, SENTINELS],
            TopologyKind::Cluster => &[SHARDS, REPLICAS],
            TopologyKind::Masters => &[MASTERS, REPLICAS],
            _ => &[],
        }
    }

    /// A sentence for people who choose between the kinds.
    pub fn about(self) -> &'static str {
        match self {
            TopologyKind::Single => "one server",
            TopologyKind::Sentinel => "a master, its replicas, and sentinels that promote one of them",
            TopologyKind::Cluster => "masters that share 16384 slots, each with replicas",
            TopologyKind::Masters => {
                "independent masters, as Redlock wants them: without replicas unless they are asked for"
            }
            TopologyKind::Etcd => "one member of etcd",
            TopologyKind::Etcd3 => "three members of etcd, of which a majority decides",
            TopologyKind::ZooKeeper => "one server of ZooKeeper",
            TopologyKind::ZooKeeper3 => "three servers of ZooKeeper, of which a majority decides",
            TopologyKind::Mysql => "one server of MariaDB, for locks on MySQL",
            TopologyKind::Postgres => "one server of PostgreSQL",
            TopologyKind::Mongodb => "one server of MongoDB (untested)",
        }
    }
}

words! {
    /// What survives the death of a server's process.
    pub enum Persistence {
        /// Nothing.
        None = "none",
        /// Every write, to the log of writes, synced once per second: a power cut may lose about two seconds.
        AofEverysec = "aof-everysec",
        /// Every write, synced before it is answered.
        AofAlways = "aof-always",
        /// A snapshot, at most once per second while there are writes.
        Rdb = "rdb",
    }
}

impl Persistence {
    pub(crate) fn lines(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Persistence::None => &[("save", "\"\""), ("appendonly", "no")],
            Persistence::AofEverysec => &[("appendonly", "yes"), ("appendfsync", "everysec")],
            Persistence::AofAlways => &[("appendonly", "yes"), ("appendfsync", "always")],
            Persistence::Rdb => &[("appendonly", "no"), ("save", "1 1")],
        }
    }

    /// The directives that it decides, which `config` must leave alone.
    pub(super) const DECIDES: [&'static str; 3] = ["appendfsync", "appendonly", "save"];
}

words! {
    /// What the servers of a topology run in.
    #[derive(Default)]
    pub enum ProvisionerKind {
        /// Processes of this machine.
        #[default]
        Process = "process",
        /// Containers of the engine that answers on this machine.
        Container = "container",
    }
}

impl ProvisionerKind {
    /// For files that name only what differs from the default.
    pub(crate) fn is_default(&self) -> bool {
        *self == ProvisionerKind::default()
    }
}
