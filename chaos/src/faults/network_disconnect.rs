//! Takes a container off its network and plugs it in again: to its clients it looks like a crash, while the server lives on.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use cluster_config::{ContainerNetwork, ProvisionerKind, Topology, TopologyKind};

use super::{Fault, FaultGuard, FaultKind, Healed, Hits, Injected, Injection, Proof, World, nodes};
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
    ..FaultKind::of(&NetworkDisconnect)
};

struct NetworkDisconnect;

#[async_trait]
impl Fault for NetworkDisconnect {
    fn allowed(&self, topology: &Topology, _on: &On, _with: &Settings) -> Result<(), String> {
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

    async fn inject(&self, world: &Arc<World>, injection: &Injection) -> Injected {
        let mut guard = Unplugged {
            world: world.clone(),
            nodes: Vec::new(),
            proofs: Vec::new(),
        };
        for node in nodes(injection) {
            let unplugged = world.deployment.unplug(node).await;
            guard.proofs.push(match unplugged {
                Ok(()) => {
                    guard.nodes.push(node.to_owned());
                    gone(world, node).await
                }
                Err(error) => Proof::of(false, format!("{node}: {error}")),
            });
        }
        Ok(Box::new(guard))
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

struct Unplugged {
    world: Arc<World>,
    nodes: Vec<String>,
    proofs: Vec<Proof>,
}

#[async_trait]
impl FaultGuard for Unplugged {
    fn proof(&self) -> Proof {
        Proof::all(self.proofs.clone())
    }

    async fn heal(mut self: Box<Self>) -> Healed {
        let mut failed = Vec::new();
        for node in std::mem::take(&mut self.nodes) {
            if let Err(error) = self.world.deployment.plug_in(&node).await {
                failed.push(error.to_string());
                continue;
            }
            let deadline = Instant::now() + BACK_WITHIN;
            while self
                .world
                .deployment
                .command(&node, &["PING"])
                .await
                .is_err()
            {
                if Instant::now() >= deadline {
                    failed.push(format!(
                        "{node} does not answer {BACK_WITHIN:?} after it was plugged in"
                    ));
                    break;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        Healed::with(self.proof(), &failed)
    }
}

impl Drop for Unplugged {
    fn drop(&mut self) {
        // The safety net of a run that ends in the middle: without a runtime there is no engine to be asked, and the container goes with the
        // deployment anyway.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            for node in std::mem::take(&mut self.nodes) {
                let deployment = self.world.deployment.clone();
                runtime.spawn(async move { deployment.plug_in(&node).await });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_containers_with_a_network_each_can_be_taken_off_it() {
        let allowed = |topology: &Topology| {
            let on = On::Parties(Vec::new());
            NetworkDisconnect.allowed(topology, &on, &Settings::new())
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
