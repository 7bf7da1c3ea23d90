//! Names the shapes that a deployment can have.

use std::fmt;
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
            TopologyKind::Masters => {
                "independent masters, as Redlock wants them: without replicas unless they are asked for"
            }
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
