//! A master is replaced by the servers' own, orderly command.

use std::time::{Duration, Instant};

use cluster_config::layout::MASTER_NAME;
use cluster_config::{Role, TopologyKind};

use crate::faults::leadership::promote;
use crate::faults::per_target::{OnEach, TargetContext};
use crate::faults::{FaultError, FaultKind, FaultWorld, Proof, Servers};
use crate::polling::until;
use crate::servers::members;

pub(crate) const KIND: FaultKind = FaultKind {
    name: "failover",
    about: "a replica takes over from the master, by SENTINEL FAILOVER or CLUSTER FAILOVER, once; on a replica: it takes over itself",
    servers: Servers::Data,
    one_shot: true,
    by_command: true,
    recovers: true,
    allowed: |topology, _, _| match topology.kind {
        TopologyKind::Sentinel | TopologyKind::Cluster if topology.replicas > 0 => Ok(()),
        kind => Err(format!("`failover` needs a replica, and this `{kind}` topology has none")),
    },
    ..FaultKind::of(&Failover)
};

/// A promotion takes a second or two; on a busy machine more.
const LONGEST: Duration = Duration::from_secs(15);

/// One that has not happened by then has come to nothing.
const AGAIN: Duration = Duration::from_secs(4);

struct Failover;

struct Change<'a> {
    world: &'a FaultWorld,
    name: &'a str,
    /// What it was before: a master is replaced, a replica takes over.
    was: Role,
}

impl OnEach for Failover {
    type Kept = Proof;

    async fn harm(at: TargetContext<'_>) -> Result<Proof, FaultError> {
        let (world, name) = (at.world, at.node()?);
        let was = role(world, name).await?;
        let change = Change { world, name, was };
        let deadline = Instant::now() + LONGEST;
        loop {
            match change.order().await {
                Ok(()) => return Ok(change.seen().await),
                // A sentinel looks at replicas every second or later, and not yet at one that came back.
                Err(error) if error.0.contains("NOGOODSLAVE") && Instant::now() < deadline => {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// What a server is now; of a silent one sentinels or replicas may still say that it is their master.
async fn role(world: &FaultWorld, name: &str) -> Result<Role, FaultError> {
    let deployment = &world.deployment;
    if let Some(role) = deployment.roles().await.get(name) {
        return Ok(*role);
    }
    let ask = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", MASTER_NAME];
    for sentinel in promote::with_role(deployment, Role::Sentinel) {
        let answer = deployment.command(&sentinel.name, &ask).await;
        let address = answer.unwrap_or_default().trim_end().replace('\n', ":");
        if members::by_address(deployment, &address).is_some_and(|node| node.name == name) {
            return Ok(Role::Master);
        }
    }
    let is_copied = deployment.topology().kind == TopologyKind::Cluster
        && (promote::successor(world, name).await).is_ok_and(|replica| replica != name);
    match is_copied {
        true => Ok(Role::Master),
        false => Err(failed!("{name} does not say whether it is a master")),
    }
}

impl Change<'_> {
    async fn order(&self) -> Result<(), FaultError> {
        let (name, deployment) = (self.name, &self.world.deployment);
        match (deployment.topology().kind, self.was) {
            (TopologyKind::Sentinel, Role::Replica) => promote::by_sentinels(deployment, name).await,
            (TopologyKind::Sentinel, _) => {
                let mut sentinels = promote::with_role(deployment, Role::Sentinel);
                let sentinel = sentinels.next();
                let sentinel = sentinel.ok_or_else(|| failed!("there is no sentinel"))?;
                let order = ["SENTINEL", "FAILOVER", MASTER_NAME];
                Ok(deployment.command(&sentinel.name, &order).await.map(drop)?)
            }
            (TopologyKind::Cluster, was) => {
                let replica = match was {
                    Role::Replica => name.to_owned(),
                    _ => promote::successor(self.world, name).await?,
                };
                Ok(deployment.command(&replica, &["CLUSTER", "FAILOVER"]).await.map(drop)?)
            }
            (kind, _) => Err(failed!("a `{kind}` topology has nobody to take over")),
        }
    }

    /// Waits for the server to be what it was not before. An order that was taken can come to nothing, when a
    /// replica was not fit at that moment: it is given again.
    async fn seen(&self) -> Proof {
        let Self { name, was, .. } = self;
        let becomes = match was {
            Role::Replica => Role::Master,
            _ => Role::Replica,
        };
        let is_over = || async {
            let roles = self.world.deployment.roles().await;
            (roles.get(*name) == Some(&becomes)).then_some(roles)
        };
        let deadline = Instant::now() + LONGEST;
        while Instant::now() < deadline {
            if let Some(mut roles) = until(AGAIN, Duration::from_millis(50), is_over).await {
                roles.retain(|_, role| *role == Role::Master);
                let masters: Vec<String> = roles.into_keys().collect();
                return proof!(
                    true,
                    "{name} was a {was} and is a {becomes}, and master is {}",
                    masters.join(", ")
                );
            }
            // Refused while one is under way.
            let _ = self.order().await;
        }
        proof!(false, "{name} is still a {was} after {LONGEST:?}")
    }
}
