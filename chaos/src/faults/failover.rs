//! A master is replaced by the servers' own, orderly command.

use std::time::{Duration, Instant};

use cluster_config::{Role, Topology, TopologyKind};

use super::each::{At, OnEach};
use super::{FaultError, FaultKind, Hits, Proof, World, promote};
use crate::scenario::{On, Settings};

pub(super) const KIND: FaultKind = FaultKind {
    name: "failover",
    about: "a replica takes over from the master, by SENTINEL FAILOVER or CLUSTER FAILOVER, once",
    hits: Hits::NODE,
    one_shot: true,
    by_command: true,
    recovers: true,
    allowed,
    ..FaultKind::of(&Failover)
};

/// A promotion takes a second or two; on a busy machine more.
const LONGEST: Duration = Duration::from_secs(15);

/// One that has not happened by then has come to nothing.
const AGAIN: Duration = Duration::from_secs(4);

fn allowed(topology: &Topology, _: &On, _: &Settings) -> Result<(), String> {
    match topology.kind {
        TopologyKind::Sentinel | TopologyKind::Cluster if topology.replicas > 0 => Ok(()),
        kind => Err(format!(
            "`failover` needs a replica, and this `{kind}` topology has none"
        )),
    }
}

struct Failover;

impl OnEach for Failover {
    type Kept = Proof;

    async fn harm(at: At<'_>) -> Result<Proof, FaultError> {
        let name = at.node()?;
        let deadline = Instant::now() + LONGEST;
        loop {
            match order(at.world, name).await {
                Ok(()) => return replaced(at.world, name).await,
                // A sentinel looks at replicas every second or later: one that has just come back is not fit to it yet.
                Err(error) if error.0.contains("NOGOODSLAVE") && Instant::now() < deadline => {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
                Err(error) => return Err(error),
            }
        }
    }
}

async fn order(world: &World, name: &str) -> Result<(), FaultError> {
    let deployment = &world.deployment;
    match deployment.topology().kind {
        TopologyKind::Sentinel => {
            let sentinel = deployment
                .nodes()
                .iter()
                .find(|node| node.role == Role::Sentinel)
                .ok_or_else(|| failed!("there is no sentinel"))?;
            let masters = deployment
                .command(&sentinel.name, &["SENTINEL", "MASTERS"])
                .await?;
            // Names and values in turn, one per line: the first value is the master's name.
            let group = masters.lines().nth(1).unwrap_or("mymaster").to_owned();
            deployment
                .command(&sentinel.name, &["SENTINEL", "FAILOVER", &group])
                .await?;
        }
        TopologyKind::Cluster => {
            let replica = promote::successor(world, name).await?;
            deployment
                .command(&replica, &["CLUSTER", "FAILOVER"])
                .await?;
        }
        kind => {
            return Err(failed!("a `{kind}` topology has nobody to take over"));
        }
    }
    Ok(())
}

/// Waits for the master to be one no more. An order that was taken can come to nothing, when a replica was not fit at that moment: it is
/// given again.
async fn replaced(world: &World, name: &str) -> Result<Proof, FaultError> {
    let deadline = Instant::now() + LONGEST;
    let mut again = Instant::now() + AGAIN;
    loop {
        let roles = world.deployment.roles().await;
        if roles.get(name) == Some(&Role::Replica) {
            let masters: Vec<&str> = roles
                .iter()
                .filter(|(_, role)| **role == Role::Master)
                .map(|(name, _)| name.as_str())
                .collect();
            return Ok(proof!(
                true,
                "{name} is a replica, and master is {}",
                masters.join(", ")
            ));
        }
        let now = Instant::now();
        if now >= deadline {
            return Ok(proof!(false, "{name} is still a master after {LONGEST:?}"));
        }
        if now >= again {
            again = now + AGAIN;
            // Refused while one is under way.
            let _ = order(world, name).await;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
