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
        const fn count(key: &'static str, role: Role, allowed: RangeInclusive<u32>) -> Count {
            Count { key, role, allowed }
        }
        const MASTERS: Count = count("masters", Role::Master, 1..=9);
        const SHARDS: Count = count("shards", Role::Master, 1..=9);
        const REPLICAS: Count = count("replicas", Role::Replica, 0..=5);
        const SENTINELS: Count = count("sentinels", Role::Sentinel, 1..=7);
        match self {
            TopologyKind::Single => &[],
            TopologyKind::Sentinel => &[REPLICAS, SENTINELS],
            TopologyKind::Cluster => &[SHARDS, REPLICAS],
            TopologyKind::Masters => &[MASTERS, REPLICAS],
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
