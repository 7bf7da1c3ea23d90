//! `--provisioner` and its companions: what servers run in, and what `up` and `ps` say of them.

use clap::Args;
use cluster_config::{ProvisionerKind, Running, Topology, TopologyKind};

const RUNNING: &str = "How servers run";

/// Flags of the commands that start servers as asked.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ProvisionerArgs {
    /// What servers run in: process or container [default: process]
    #[arg(hide_short_help = true, help_heading = RUNNING, long, value_name = "P")]
    provisioner: Option<ProvisionerKind>,
    /// The containers' image, e.g. redis:7.4 [default: that of the server's makers where a registry answers,
    /// such as redis:8 or postgres:17, else one of the installed server]
    #[arg(hide_short_help = true, help_heading = RUNNING, long, value_name = "IMAGE")]
    image: Option<String>,
}

impl ProvisionerArgs {
    /// Whether nobody asked for containers.
    pub(crate) fn wants_processes(&self) -> bool {
        let mut topology = Topology::of(TopologyKind::Single);
        self.apply(&mut topology);
        topology.provisioner == ProvisionerKind::Process
    }

    /// What the flags say replaces what the topology said. An image is a wish for containers.
    pub(crate) fn apply(&self, topology: &mut Topology) {
        if self.image.is_some() {
            topology.provisioner = ProvisionerKind::Container;
        }
        topology.provisioner = self.provisioner.unwrap_or(topology.provisioner);
        topology.image = self.image.clone().or(topology.image.take());
    }
}

/// The version of the container engine that answers here, in a build that can use one.
pub(super) async fn engine_here() -> Option<String> {
    #[cfg(feature = "containers")]
    return cluster_config::engine().await.ok();
    #[cfg(not(feature = "containers"))]
    None
}

pub(super) fn running_server(deployment: &Running) -> serde_json::Value {
    let binary = deployment.server.as_ref();
    serde_json::json!({
        "version": deployment.server_version,
        "flavour": binary.map(|binary| &binary.flavour),
        "path": binary.map(|binary| &binary.path),
        "has_tls": binary.map(cluster_config::Server::has_tls),
        "modules": deployment.modules,
        "speaks_tls": deployment.tls,
    })
}
