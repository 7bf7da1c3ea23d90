//! A replica makes itself master of a cluster shard without asking anybody: CLUSTER FAILOVER TAKEOVER.

use cluster_config::{Topology, TopologyKind};

use super::each::{At, OnEach};
use super::{FaultError, FaultKind, Hits, Proof, promote};
use crate::members;
use crate::scenario::{On, Settings};

pub(super) const KIND: FaultKind = FaultKind {
    name: "takeover",
    about: "a replica makes itself master without a vote and without its master's word: CLUSTER FAILOVER TAKEOVER, once",
    hits: Hits::NODE,
    one_shot: true,
    by_command: true,
    recovers: true,
    allowed,
    ..FaultKind::of(&Takeover)
};

fn allowed(topology: &Topology, _: &On, _: &Settings) -> Result<(), String> {
    match (topology.kind, topology.replicas) {
        (TopologyKind::Cluster, 1..) => Ok(()),
        (kind, _) => Err(format!(
            "`takeover` is a cluster's command and needs a replica; this `{kind}` topology has {}",
            if kind == TopologyKind::Cluster {
                "none"
            } else {
                "no such thing"
            }
        )),
    }
}

struct Takeover;

impl OnEach for Takeover {
    type Kept = Proof;

    async fn harm(at: At<'_>) -> Result<Proof, FaultError> {
        let successor = promote::successor(at.world, at.node()?).await?;
        let order = ["CLUSTER", "FAILOVER", "TAKEOVER"];
        at.deployment().command(&successor, &order).await?;
        // It is done when the answer comes: there is nobody to wait for.
        let member = members::itself(at.deployment(), &successor).await?;
        let slots = member.slots().count();
        Ok(proof!(
            member.is_live_master() && slots > 0,
            "{successor} calls itself master of {slots} slots"
        ))
    }
}
