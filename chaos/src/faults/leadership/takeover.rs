//! A replica makes itself master of a cluster shard without asking anybody: CLUSTER FAILOVER TAKEOVER.

use cluster_config::TopologyKind;

use crate::faults::leadership::promote;
use crate::faults::per_target::{OnEach, TargetContext};
use crate::faults::{FaultError, FaultKind, Proof};
use crate::servers::members;

pub(crate) const KIND: FaultKind = FaultKind {
    name: "takeover",
    about: "a replica makes itself master without a vote and without its master's word: CLUSTER FAILOVER TAKEOVER, once",
    one_shot: true,
    by_command: true,
    recovers: true,
    allowed: |topology, _, _| match (topology.kind, topology.replicas) {
        (TopologyKind::Cluster, 1..) => Ok(()),
        (kind, _) => Err(format!(
            "`takeover` is a cluster's command and needs a replica; this `{kind}` topology has {}",
            if kind == TopologyKind::Cluster { "none" } else { "no such thing" }
        )),
    },
    ..FaultKind::of(&Takeover)
};

struct Takeover;

impl OnEach for Takeover {
    type Kept = Proof;

    async fn harm(at: TargetContext<'_>) -> Result<Proof, FaultError> {
        let successor = promote::successor(at.world, at.node()?).await?;
        at.deployment().command(&successor, &["CLUSTER", "FAILOVER", "TAKEOVER"]).await?;
        // It is done when the answer comes: there is nobody to wait for.
        let member = members::itself(at.deployment(), &successor).await?;
        let slots = member.slots().count();
        Ok(proof!(member.is_live_master() && slots > 0, "{successor} calls itself master of {slots} slots"))
    }
}
