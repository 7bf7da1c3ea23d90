//! How many replicas must have a write before it counts.

use std::time::Duration;

use crate::topology::{Replicas, WaitFor};

/// How many replicas must acknowledge an acquire before it counts as acquired.
///
/// Renewals and extends of such a hold count as successful under the same condition. A release needs
/// no replica. Acknowledged means received by the replica, not synced to its disk; and a failover may
/// still promote a replica that had not acknowledged, unless all had to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Durability {
    /// The master's word is enough.
    #[default]
    None,
    /// At least this many replicas.
    Wait(u32),
    /// Every replica that the topology knows of.
    WaitAll,
}

impl Durability {
    /// What is asked of the server, with the time it may take.
    pub(crate) fn wait_for(self, timeout: Duration) -> Option<WaitFor> {
        let replicas = match self {
            Durability::None | Durability::Wait(0) => return None,
            Durability::Wait(count) => Replicas::AtLeast(count),
            Durability::WaitAll => Replicas::All,
        };
        Some(WaitFor { replicas, timeout })
    }
}
