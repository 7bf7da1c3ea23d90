//! Turns `--provisioner` and `--image` into the way in which servers are started.

use std::sync::Arc;

use clap::Args;
use cluster_config::{Process, Provisioner, Topology};

use crate::exit;

/// Flags of every command that starts servers.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ProvisionerArgs {
    /// What servers run in: process or container [default: process]
    #[arg(long, value_name = "P", value_parser = known)]
    provisioner: Option<String>,
    /// The containers' image, e.g. redis:7.4 [default: redis:8 or valkey/valkey:8 where a registry answers, else one built from
    /// the installed server]
    #[arg(long, value_name = "IMAGE")]
    image: Option<String>,
    /// How containers are reached: host or published [default: host where the engine shares this machine's network]
    #[arg(long, value_name = "N", value_parser = ["host", "published"])]
    container_network: Option<String>,
}

fn known(word: &str) -> Result<String, String> {
    Topology::check_provisioner(word)
        .map(|()| word.to_owned())
        .map_err(|error| error.to_string())
}

impl ProvisionerArgs {
    /// Whatever the flags say replaces what the topology said.
    pub(crate) fn apply(&self, topology: &mut Topology) {
        if let Some(name) = &self.provisioner {
            topology.provisioner = name.clone();
        } else if self.image.is_some() || self.container_network.is_some() {
            topology.provisioner = "container".to_owned();
        }
    }

    /// The provisioner that a topology names.
    pub(crate) fn of(&self, topology: &Topology) -> anyhow::Result<Arc<dyn Provisioner>> {
        match topology.provisioner.as_str() {
            "container" => self.container(),
            _ if self.image.is_some() || self.container_network.is_some() => Err(exit::usage(
                "--image and --container-network are for --provisioner container",
            )),
            _ => Ok(Arc::new(Process)),
        }
    }

    #[cfg(feature = "containers")]
    fn container(&self) -> anyhow::Result<Arc<dyn Provisioner>> {
        use cluster_config::{Container, Network};
        let network = self.container_network.as_deref().map(|word| match word {
            "published" => Network::Published,
            _ => Network::Host,
        });
        Ok(Arc::new(Container {
            image: self.image.clone(),
            network,
        }))
    }

    #[cfg(not(feature = "containers"))]
    fn container(&self) -> anyhow::Result<Arc<dyn Provisioner>> {
        Err(exit::usage(
            "this locklab was built without containers; build it with: cargo build -p cli --features containers",
        ))
    }
}
