//! A replica makes itself master of a cluster shard without asking anybody: CLUSTER FAILOVER TAKEOVER.

use std::sync::Arc;

use async_trait::async_trait;
use cluster_config::{Topology, TopologyKind};

use super::{Done, Fault, FaultKind, Hits, Injected, Injection, Proof, World, nodes, promote};
use crate::members;
use crate::scenario::{On, Settings};

pub(super) const KIND: FaultKind = FaultKind {
    name: "takeover",
    about: "a replica makes itself master without a vote and without its master's word: CLUSTER FAILOVER TAKEOVER, once",
    hits: Hits::NODE,
    one_shot: true,
    colour: "#148f77",
    by_command: true,
    recovers: true,
    ..FaultKind::of(&Takeover)
};

struct Takeover;

#[async_trait]
impl Fault for Takeover {
    fn allowed(&self, topology: &Topology, _on: &On, _with: &Settings) -> Result<(), String> {
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

    async fn inject(&self, world: &Arc<World>, injection: &Injection) -> Injected {
        let mut proofs = Vec::new();
        for name in nodes(injection) {
            let successor = promote::successor(world, name).await?;
            let order = ["CLUSTER", "FAILOVER", "TAKEOVER"];
            world.deployment.command(&successor, &order).await?;
            // It is done when the answer comes: there is nobody to wait for.
            let member = members::itself(&world.deployment, &successor).await?;
            let slots = member.slots().count();
            proofs.push(Proof::of(
                member.is_live_master() && slots > 0,
                format!("{successor} calls itself master of {slots} slots"),
            ));
        }
        Ok(Box::new(Done(Proof::all(proofs))))
    }
}
