//! Takes a container off its network and plugs it in again: to its clients it looks like a crash, while the server lives on.

use std::time::Duration;

use cluster_config::{ContainerNetwork, ProvisionerKind, TopologyKind};

use super::per_target::{OnEach, TargetContext};
use super::{FaultError, FaultKind, FaultWorld, Proof};
use crate::polling::is_so;

/// The engine sets ports up again within a tenth of a second; a busy machine may need more.
const BACK_WITHIN: Duration = Duration::from_secs(10);

pub(super) const KIND: FaultKind = FaultKind {
    name: "network-disconnect",
    about: "the engine takes a container with published ports off its network until `for` ends: connections break, new ones are \
            refused, and the server lives on",
    recovers: true,
    allowed: |topology, _, _| {
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
            _ => Err(format!(
                "containers of a `{}` topology with published ports share one network, from which no single one can be taken; take \
             `single` or `masters`, or container-network = \"host\" and `partition`",
                topology.kind
            )),
        }
    },
    ..FaultKind::of(&NetworkDisconnect)
};

struct NetworkDisconnect;

impl OnEach for NetworkDisconnect {
    type Kept = Proof;

    async fn harm(at: TargetContext<'_>) -> Result<Proof, FaultError> {
        let node = at.node()?;
        at.deployment().unplug(node).await?;
        Ok(gone(at.world, node).await)
    }

    async fn undo(at: TargetContext<'_>, _: &mut Proof) -> Result<(), FaultError> {
        let (node, deployment) = (at.node()?, at.deployment());
        deployment.plug_in(node).await?;
        let answers = || async { deployment.command(node, &["PING"]).await.is_ok() };
        match is_so(BACK_WITHIN, Duration::from_millis(20), answers).await {
            true => Ok(()),
            false => Err(failed!(
                "{node} does not answer {BACK_WITHIN:?} after it was plugged in"
            )),
        }
    }

    /// Without a runtime there is no engine to be asked, and the container goes with the deployment anyway.
    fn undo_now(at: TargetContext<'_>, _: &Proof) -> Result<(), FaultError> {
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let (node, deployment) = (at.node()?.to_owned(), at.world.deployment.clone());
            runtime.spawn(async move { deployment.plug_in(&node).await });
        }
        Ok(())
    }
}

/// Nobody answers at its published port, and its process is there.
async fn gone(world: &FaultWorld, node: &str) -> Proof {
    let answer = world.deployment.command(node, &["PING"]).await;
    match (answer, world.deployment.pid(node)) {
        (Err(_), Some(pid)) => proof!(
            true,
            "{node}: its port gives no answer, and its process {pid} lives"
        ),
        (Ok(_), _) => proof!(false, "{node} still answers"),
        (_, None) => proof!(false, "{node} is dead"),
    }
}

#[cfg(test)]
mod tests {
    use cluster_config::Topology;

    use super::*;
    use crate::scenario::{FaultSite, Settings};

    #[test]
    fn only_containers_with_a_network_each_can_be_taken_off_it() {
        let allowed = |topology: &Topology| {
            let on = FaultSite::Parties(Vec::new());
            (KIND.allowed)(topology, &on, &Settings::new())
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
