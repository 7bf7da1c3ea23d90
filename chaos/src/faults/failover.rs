//! A master is replaced by the servers' own, orderly command.

use std::time::{Duration, Instant};

use cluster_config::{Role, TopologyKind};

use super::each::{At, OnEach};
use super::{FaultError, FaultKind, Proof, World, promote};
use crate::wait::until;

pub(super) const KIND: FaultKind = FaultKind {
    name: "failover",
    about: "a replica takes over from the master, by SENTINEL FAILOVER or CLUSTER FAILOVER, once",
    one_shot: true,
    by_command: true,
    recovers: true,
    allowed: |topology, _, _| match topology.kind {
        TopologyKind::Sentinel | TopologyKind::Cluster if topology.replicas > 0 => Ok(()),
        kind => Err(format!(
            "`failover` needs a replica, and this `{kind}` topology has none"
        )),
    },
    ..FaultKind::of(&Failover)
};

/// A promotion takes a second or two; on a busy machine more.
const LONGEST: Duration = Duration::from_secs(15);

/// One that has not happened by then has come to nothing.
const AGAIN: Duration = Duration::from_secs(4);

struct Failover;

impl OnEach for Failover {
    type Kept = Proof;

    async fn harm(at: At<'_>) -> Result<Proof, FaultError> {
        let name = at.node()?;
        let deadline = Instant::now() + LONGEST;
        loop {
            match order(at.world, name).await {
                Ok(()) => return Ok(replaced(at.world, name).await),
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
            let mut sentinels = promote::with_role(deployment, Role::Sentinel);
            let sentinel = sentinels.next();
            let sentinel = &sentinel
                .ok_or_else(|| failed!("there is no sentinel"))?
                .name;
            let masters = deployment
                .command(sentinel, &["SENTINEL", "MASTERS"])
                .await?;
            // Names and values in turn, one per line: the first value is the master's name.
            let group = masters.lines().nth(1).unwrap_or("mymaster");
            let order = ["SENTINEL", "FAILOVER", group];
            deployment.command(sentinel, &order).await?;
        }
        TopologyKind::Cluster => {
            let replica = promote::successor(world, name).await?;
            let order = ["CLUSTER", "FAILOVER"];
            deployment.command(&replica, &order).await?;
        }
        kind => {
            return Err(failed!("a `{kind}` topology has nobody to take over"));
        }
    }
    Ok(())
}

/// Waits for the master to be one no more. An order that was taken can come to nothing, when a replica was not fit at that moment: it is
/// given again.
async fn replaced(world: &World, name: &str) -> Proof {
    let is_over = || async {
        let roles = world.deployment.roles().await;
        (roles.get(name) == Some(&Role::Replica)).then_some(roles)
    };
    let deadline = Instant::now() + LONGEST;
    while Instant::now() < deadline {
        if let Some(mut roles) = until(AGAIN, Duration::from_millis(50), is_over).await {
            roles.retain(|_, role| *role == Role::Master);
            let masters: Vec<String> = roles.into_keys().collect();
            return proof!(
                true,
                "{name} is a replica, and master is {}",
                masters.join(", ")
            );
        }
        // Refused while one is under way.
        let _ = order(world, name).await;
    }
    proof!(false, "{name} is still a master after {LONGEST:?}")
}
