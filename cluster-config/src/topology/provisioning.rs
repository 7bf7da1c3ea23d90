//! What servers run in, and how containers are reached.

use crate::words::words;

words! {
    /// What the servers of a topology run in.
    #[derive(Default)]
    pub enum ProvisionerKind {
        /// Processes of this machine.
        #[default]
        Process = "process",
        /// Containers of the engine that answers on this machine.
        Container = "container",
    }
}

impl ProvisionerKind {
    /// For files that name only what differs from the default.
    pub(crate) fn is_default(&self) -> bool {
        *self == ProvisionerKind::default()
    }
}

words! {
    /// How containers are reached. Nothing listens beyond loopback in either form.
    pub enum ContainerNetwork {
        /// The machine's own network: each node has a loopback address of its own, as processes have, and links can be harmed.
        Host = "host",
        /// Ports that the engine publishes on 127.0.0.1, the same number inside and outside: for engines in a virtual machine, as Docker
        /// Desktop. Sentinel and cluster nodes share the network of one container that nobody harms, so that addresses mean
        /// the same to nodes and to clients. Links between nodes do not pass this machine and cannot be harmed.
        Published = "published",
    }
}
