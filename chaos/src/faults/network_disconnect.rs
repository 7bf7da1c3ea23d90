//! Takes a container off its network and plugs it in again: to its clients it looks like a crash, while the server lives on.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use cluster_config::{ContainerNetwork, ProvisionerKind, Topology, TopologyKind};

use super::each::OnEach;
use super::{FaultError, FaultKind, Hits, Injection, Proof, Target, World};
use crate::scenario::{On, Settings};

/// The engine sets ports up again within a tenth of a second; a busy machine may need more.
const BACK_WITHIN: Duration = Duration::from_secs(10);

pub(super) const KIND: FaultKind = FaultKind {
    name: "network-disconnect",
    about: "the engine takes a container with published ports off its network until `for` ends: connections break, new ones are \
            refused, and the server lives on",
    hits: Hits::NODE,
    colour: "#1f618d",
    recovers: true,
    allowed,
    ..FaultKind::of(&NetworkDisconnect)
};

fn allowed(topology: &Topology, _: &On, _: &Settings) -> Result<(), String> {
    let published = topology.provisioner == ProvisionerKind::Container
        && topology.container_network == Some(ContainerNetwork::Published);
    if !published {
        return Err(
            "it is a fault of containers on a network of their own; [topology] needs provisioner = \"container\" and \
             container-network = \"published\", or take `partition`"
                .to_owned(),
        );
    }
    match topology.kind {
        TopologyKind::Single | TopologyKind::Masters => Ok(()),
        TopologyKind::Sentinel | TopologyKind::Cluster => Err(format!(
            "containers of a `{}` topology with published ports share one network, from which no single one can be taken; take \
             `single` or `masters`, or container-network = \"host\" and `partition`",
            topology.kind
        )),
    }
}

struct NetworkDisconnect;

#[async_trait]
impl OnEach for NetworkDisconnect {
    type Kept = Proof;

    async fn harm(world: &Arc<World>, target: &Target, _: &Injection) -> Result<Proof, FaultError> {
        let node = target.node()?;
        world.deployment.unplug(node).await?;
        Ok(gone(world, node).await)
    }

    async fn undo(world: &World, target: &Target, _: &mut Proof) -> Result<(), FaultError> {
        let (node, deployment) = (target.node()?, &world.deployment);
        deployment.plug_in(node).await?;
        let deadline = Instant::now() + BACK_WITHIN;
        while deployment.command(node, &["PING"]).await.is_err() {
            if Instant::now() >= deadline {
                return Err(FaultError(format!(
                    "{node} does not answer {BACK_WITHIN:?} after it was plugged in"
                )));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }

    /// Without a runtime there is no engine to be asked, and the container goes with the deployment anyway.
    fn undo_now(world: &World, target: &Target, _: &Proof) -> Result<(), FaultError> {
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let (node, deployment) = (target.node()?.to_owned(), world.deployment.clone());
            runtime.spawn(async move { deployment.plug_in(&node).await });
        }
        Ok(())
    }
}

/// Nobody answers at its published port, and its process is there.
async fn gone(world: &World, node: &str) -> Proof {
    let answer = world.deployment.command(node, &["PING"]).await;
    match (answer, world.deployment.pid(node)) {
        (Err(_), Some(pid)) => Proof::of(
            true,
            format!("{node}: its port gives no answer, and its process {pid} lives"),
        ),
        (Ok(_), _) => Proof::of(false, format!("{node} still answers")),
        (_, None) => Proof::of(false, format!("{node} is dead")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_containers_with_a_network_each_can_be_taken_off_it() {
        let allowed = |topology: &Topology| {
            let on = On::Parties(Vec::new());
            super::allowed(topology, &on, &Settings::new())
        };
        let mut topology = Topology::of(TopologyKind::Masters);
        assert!(allowed(&topology).unwrap_err().contains("provisioner = "));
        topology.provisioner = ProvisionerKind::Container;
        assert!(allowed(&topology).is_err());
        topology.container_network = Some(ContainerNetwork::Published);
        assert_eq!(allowed(&topology), Ok(()));
        topology.kind = TopologyKind::Cluster;
        assert!(
            allowed(&topology)
                .unwrap_err()
                .contains("share one network")
        );
    }
}
