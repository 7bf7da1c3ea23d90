//! Names what servers run in, and how containers are reached.

use std::fmt;

/// What the servers of a topology run in.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    serde::Serialize,
    serde::Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum ProvisionerKind {
    /// Processes of this machine.
    #[default]
    Process,
    /// Containers of the engine that answers on this machine.
    Container,
}

impl ProvisionerKind {
    /// Every one, in the order in which they are listed to people.
    pub const ALL: [ProvisionerKind; 2] = [ProvisionerKind::Process, ProvisionerKind::Container];

    /// The word used in files and commands.
    pub fn name(self) -> &'static str {
        match self {
            ProvisionerKind::Process => "process",
            ProvisionerKind::Container => "container",
        }
    }

    /// For files that name only what differs from the default.
    pub(crate) fn is_default(&self) -> bool {
        *self == ProvisionerKind::default()
    }
}

impl fmt::Display for ProvisionerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How containers are reached. Nothing listens beyond loopback in either form.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum ContainerNetwork {
    /// The machine's own network: each node has a loopback address of its own, as processes have, and links can be harmed.
    Host,
    /// Ports that the engine publishes on 127.0.0.1, the same number inside and outside: for engines in a virtual machine, as Docker
    /// Desktop. Sentinel and cluster nodes share the network of one container that nobody harms, so that addresses mean
    /// the same to nodes and to clients. Links between nodes do not pass this machine and cannot be harmed.
    Published,
}

impl ContainerNetwork {
    /// Every one, in the order in which they are listed to people.
    pub const ALL: [ContainerNetwork; 2] = [ContainerNetwork::Host, ContainerNetwork::Published];

    /// The word used in files and commands.
    pub fn name(self) -> &'static str {
        match self {
            ContainerNetwork::Host => "host",
            ContainerNetwork::Published => "published",
        }
    }
}

impl fmt::Display for ContainerNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
