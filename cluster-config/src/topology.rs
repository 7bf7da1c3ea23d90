//! Turns a wish ("sentinel, two replicas") into checked data; starts nothing.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use crate::ClusterError;

/// The shape of a deployment.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    serde::Serialize,
    serde::Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum TopologyKind {
    /// One server.
    Single,
    /// A master, replicas, sentinels.
    Sentinel,
    /// Masters with slots, and their replicas.
    Cluster,
    /// Independent masters.
    Masters,
}

impl TopologyKind {
    /// Every kind, in the order in which they are listed to people.
    pub const ALL: [TopologyKind; 4] = [
        TopologyKind::Single,
        TopologyKind::Sentinel,
        TopologyKind::Cluster,
        TopologyKind::Masters,
    ];

    /// The word used in commands and files.
    pub fn name(self) -> &'static str {
        match self {
            TopologyKind::Single => "single",
            TopologyKind::Sentinel => "sentinel",
            TopologyKind::Cluster => "cluster",
            TopologyKind::Masters => "masters",
        }
    }

    /// A sentence for people who choose between the kinds.
    pub fn about(self) -> &'static str {
        match self {
            TopologyKind::Single => "one server",
            TopologyKind::Sentinel => {
                "a master, its replicas, and sentinels that promote one of them"
            }
            TopologyKind::Cluster => "masters that share 16384 slots, each with replicas",
            TopologyKind::Masters => "independent masters without replicas, as Redlock wants them",
        }
    }
}

impl fmt::Display for TopologyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for TopologyKind {
    type Err = ClusterError;

    fn from_str(word: &str) -> Result<Self, ClusterError> {
        TopologyKind::ALL
            .into_iter()
            .find(|kind| kind.name() == word)
            .ok_or_else(|| {
                let known = TopologyKind::ALL.map(TopologyKind::name).join(", ");
                ClusterError::new(format!("{word:?} is no topology; there are {known}"))
            })
    }
}

/// The shape wanted, as data. A count that a kind does not use is ignored.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Topology {
    /// Which shape.
    pub kind: TopologyKind,
    /// Replicas per master, 0 to 5 (sentinel, cluster).
    pub replicas: u32,
    /// Independent masters, 1 to 9 (masters).
    pub masters: u32,
    /// Masters that share the slots, 1 to 9 (cluster). With fewer than three no replica is ever promoted after a crash,
    /// since a vote needs a majority of the masters.
    pub shards: u32,
    /// Sentinels, 1 to 7 (sentinel). One or two cannot outvote the loss of one.
    pub sentinels: u32,
    /// `redis`, `valkey` or a path to a server binary.
    pub server: String,
    /// redis.conf lines for every data node: directive, then its value as it would stand in the file.
    pub config: BTreeMap<String, String>,
}

impl Topology {
    /// The usual one of a kind: sentinel 1+2+3, cluster 3+3, 5 masters. Counts that the kind does not use are 0.
    pub fn of(kind: TopologyKind) -> Self {
        let (replicas, masters, shards, sentinels) = match kind {
            TopologyKind::Single => (0, 0, 0, 0),
            TopologyKind::Sentinel => (2, 0, 0, 3),
            TopologyKind::Cluster => (1, 0, 3, 0),
            TopologyKind::Masters => (0, 5, 0, 0),
        };
        Topology {
            kind,
            replicas,
            masters,
            shards,
            sentinels,
            server: "redis".into(),
            config: BTreeMap::new(),
        }
    }

    /// Says whether this shape can be started at all; all complaints in one message.
    pub fn validate(&self) -> Result<(), ClusterError> {
        let mut wrong = Vec::new();
        let mut count = |word: &str, found: u32, allowed: RangeInclusive<u32>| {
            if !allowed.contains(&found) {
                let (low, high) = (allowed.start(), allowed.end());
                wrong.push(format!(
                    "{word} = {found} in a {} topology: allowed are {low} to {high}",
                    self.kind
                ));
            }
        };
        match self.kind {
            TopologyKind::Single => {}
            TopologyKind::Sentinel => {
                count("replicas", self.replicas, 0..=5);
                count("sentinels", self.sentinels, 1..=7);
            }
            TopologyKind::Cluster => {
                count("replicas", self.replicas, 0..=5);
                count("shards", self.shards, 1..=9);
            }
            TopologyKind::Masters => count("masters", self.masters, 1..=9),
        }
        if self.server.trim().is_empty() {
            wrong.push("server is empty: say redis, valkey or the path of a server binary".into());
        }
        for (directive, value) in &self.config {
            if let Some(complaint) = config_complaint(directive, value) {
                wrong.push(complaint);
            }
        }
        if wrong.is_empty() {
            Ok(())
        } else {
            Err(ClusterError::new(wrong.join("\n")))
        }
    }

    /// Data nodes: everything but sentinels.
    pub fn data_nodes(&self) -> u32 {
        match self.kind {
            TopologyKind::Single => 1,
            TopologyKind::Sentinel => 1 + self.replicas,
            TopologyKind::Cluster => self.shards * (1 + self.replicas),
            TopologyKind::Masters => self.masters,
        }
    }

    /// What a reader should know about a shape that can be started but does not do what its kind promises.
    pub fn remark(&self) -> Option<&'static str> {
        match self.kind {
            TopologyKind::Cluster if self.shards < 3 => Some(
                "with fewer than 3 shards no replica is promoted after a crash: a vote needs a majority of the masters",
            ),
            TopologyKind::Sentinel if self.sentinels < 3 => {
                Some("with fewer than 3 sentinels the loss of one can stop every failover")
            }
            _ => None,
        }
    }
}

/// Directives that say where a node lives and who it is: another value would break the address scheme, not the server.
const RESERVED: [&str; 17] = [
    "bind",
    "bind-source-addr",
    "cluster-announce-bus-port",
    "cluster-announce-ip",
    "cluster-announce-port",
    "cluster-config-file",
    "cluster-enabled",
    "cluster-port",
    "daemonize",
    "dir",
    "logfile",
    "port",
    "replica-announce-ip",
    "replica-announce-port",
    "replicaof",
    "set-proc-title",
    "slaveof",
];

fn config_complaint(directive: &str, value: &str) -> Option<String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if directive.is_empty() || !directive.chars().all(plain) {
        return Some(format!(
            "config: {directive:?} is no directive of redis.conf: letters, digits and - are allowed"
        ));
    }
    if RESERVED.contains(&directive.to_ascii_lowercase().as_str()) {
        return Some(format!(
            "config: {directive} is chosen by the harness, since addresses and directories follow from it; leave it out"
        ));
    }
    if value.contains(['\n', '\r', '\0']) {
        return Some(format!(
            "config: the value of {directive} spans several lines; one directive is one line"
        ));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_topologies_are_valid() {
        for kind in TopologyKind::ALL {
            Topology::of(kind).validate().unwrap();
        }
        assert_eq!(Topology::of(TopologyKind::Cluster).data_nodes(), 6);
        assert_eq!(Topology::of(TopologyKind::Sentinel).data_nodes(), 3);
    }

    #[test]
    fn a_kind_is_read_back_from_its_name_and_others_name_the_known_ones() {
        for kind in TopologyKind::ALL {
            assert_eq!(kind.to_string().parse::<TopologyKind>().unwrap(), kind);
        }
        let message = "ring".parse::<TopologyKind>().unwrap_err().message;
        assert!(message.contains("sentinel, cluster"), "{message}");
    }

    #[test]
    fn a_count_out_of_range_is_named_with_its_range() {
        let mut topology = Topology::of(TopologyKind::Sentinel);
        topology.replicas = 6;
        topology.sentinels = 0;
        let message = topology.validate().unwrap_err().message;
        assert!(
            message.contains("replicas = 6") && message.contains("0 to 5"),
            "{message}"
        );
        assert!(
            message.contains("sentinels = 0") && message.contains("1 to 7"),
            "{message}"
        );
    }

    #[test]
    fn counts_that_a_kind_does_not_use_are_ignored() {
        let mut topology = Topology::of(TopologyKind::Single);
        topology.shards = 500;
        topology.validate().unwrap();
    }

    #[test]
    fn directives_that_place_a_node_are_refused() {
        let mut topology = Topology::of(TopologyKind::Single);
        topology.config.insert("port".into(), "7000".into());
        let message = topology.validate().unwrap_err().message;
        assert!(
            message.contains("port is chosen by the harness"),
            "{message}"
        );
    }

    #[test]
    fn a_value_cannot_smuggle_in_a_second_line() {
        let mut topology = Topology::of(TopologyKind::Single);
        topology
            .config
            .insert("maxmemory".into(), "1mb\nport 1".into());
        assert!(topology.validate().is_err());
    }

    #[test]
    fn small_clusters_and_few_sentinels_are_remarked_upon() {
        let mut topology = Topology::of(TopologyKind::Cluster);
        assert_eq!(topology.remark(), None);
        topology.shards = 2;
        topology.validate().unwrap();
        assert!(topology.remark().is_some());
    }
}
