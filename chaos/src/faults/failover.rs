//! A master is replaced by the servers' own, orderly command.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use cluster_config::{Role, TopologyKind};

use super::{Done, Fault, FaultError, FaultGuard, FaultKind, Hits, Injection, Proof, World, nodes};

pub(super) const KIND: FaultKind = FaultKind {
    name: "failover",
    about: "a replica takes over from the master, by SENTINEL FAILOVER or CLUSTER FAILOVER, once",
    hits: Hits::NODE,
    settings: &[],
    one_shot: true,
    colour: "#1e8449",
    fault: &Failover,
};

/// A promotion takes a second or two; on a busy machine more.
const LONGEST: Duration = Duration::from_secs(15);

struct Failover;

#[async_trait]
impl Fault for Failover {
    async fn inject(
        &self,
        world: &Arc<World>,
        injection: &Injection,
    ) -> Result<Box<dyn FaultGuard>, FaultError> {
        let mut proofs = Vec::new();
        for name in nodes(injection) {
            order(world, name).await?;
            proofs.push(replaced(world, name).await);
        }
        Ok(Box::new(Done(Proof::all(proofs))))
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
                .ok_or_else(|| FaultError("there is no sentinel".to_owned()))?;
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
            let id = deployment.command(name, &["CLUSTER", "MYID"]).await?;
            let replica = replica_of(world, id.trim()).await?;
            deployment
                .command(&replica, &["CLUSTER", "FAILOVER"])
                .await?;
        }
        kind => {
            return Err(FaultError(format!(
                "a `{kind}` topology has nobody to take over"
            )));
        }
    }
    Ok(())
}

/// The first data node that says it replicates the node of that id.
async fn replica_of(world: &World, master_id: &str) -> Result<String, FaultError> {
    for node in world.deployment.nodes() {
        let Ok(nodes) = world
            .deployment
            .command(&node.name, &["CLUSTER", "NODES"])
            .await
        else {
            continue;
        };
        let replicates = nodes.lines().any(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            words.len() > 3 && words[2].contains("myself") && words[3] == master_id
        });
        if replicates {
            return Ok(node.name.clone());
        }
    }
    Err(FaultError("the master has no replica".to_owned()))
}

async fn replaced(world: &World, name: &str) -> Proof {
    let deadline = Instant::now() + LONGEST;
    loop {
        let roles = world.deployment.roles().await;
        if roles.get(name) == Some(&Role::Replica) {
            let masters: Vec<&str> = roles
                .iter()
                .filter(|(_, role)| **role == Role::Master)
                .map(|(name, _)| name.as_str())
                .collect();
            return Proof::of(
                true,
                format!("{name} is a replica, and master is {}", masters.join(", ")),
            );
        }
        if Instant::now() >= deadline {
            return Proof::of(false, format!("{name} is still a master after {LONGEST:?}"));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
