//! The shapes that a deployment can have.

use std::ops::RangeInclusive;

use crate::Role;
use crate::words::words;

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
    }
}

/// A number of nodes that a kind lets choose.
pub(super) struct Count {
    /// Its key in a file.
    pub(super) key: &'static str,
    /// Nodes of which role it counts.
    pub(super) role: Role,
    pub(super) allowed: RangeInclusive<u32>,
}

impl TopologyKind {
    /// The numbers that it lets choose; another has no meaning for it.
    pub(super) fn counts(self) -> &'static [Count] {
        const MASTERS: RangeInclusive<u32> = 1..=9;
        const REPLICAS: Count = Count {
            key: "replicas",
            role: Role::Replica,
            allowed: 0..=5,
        };
        match self {
            TopologyKind::Single => &[],
            TopologyKind::Sentinel => &[
                REPLICAS,
                Count {
                    key: "sentinels",
                    role: Role::Sentinel,
                    allowed: 1..=7,
                },
            ],
            TopologyKind::Cluster => &[
                Count {
                    key: "shards",
                    role: Role::Master,
                    allowed: MASTERS,
                },
                REPLICAS,
            ],
            TopologyKind::Masters => &[
                Count {
                    key: "masters",
                    role: Role::Master,
                    allowed: MASTERS,
                },
                REPLICAS,
            ],
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
