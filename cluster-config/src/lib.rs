//! Topology as data, then running servers.
//!
//! ```no_run
//! # async fn example() -> Result<(), cluster_config::ClusterError> {
//! use cluster_config::{Process, Provisioner, Topology, TopologyKind, UpOptions};
//!
//! let topology = Topology::of(TopologyKind::Sentinel);
//! let deployment = Process.up(&topology, &UpOptions::new("/tmp/lab")).await?;
//! assert!(deployment.url().starts_with("redis-sentinel://"));
//! deployment.kill("n1").await?;
//! deployment.down().await
//! # }
//! ```
//!
//! Promised: servers are ready when `up` returns, nothing of them is left when the deployment or this process
//! has ended, two deployments at once share no port, no directory and no process. Not promised: that a
//! failover has finished when `kill` or `start` returns, and any fault on a link when links are direct.
//!
//! In reading order:
//!
//! | part | what it is |
//! |---|---|
//! | [`topology`](Topology), [`layout`] | what is wanted, and where everything lives, both as data |
//! | `process`, `container` | start and wait |
//! | [`Deployment`] | what can be done to it |
//! | `proxy` | faults on links |
//! | `machine_check` | what this machine has and lacks for servers |
//! | `registry` | what other processes have started |
//!
//! Faults on links are the work of own proxies (`proxy`): they tell who dials, hold or lose single commands
//! and replies, and corrupt, lose, reset or share a bandwidth. They drop no packets: TCP itself never
//! notices. `toxiproxy` serves Toxiproxy's API by the same proxies.

#[macro_use]
mod error;

mod access;
mod baseline;
#[cfg(feature = "containers")]
mod container;
mod deployment;
mod external;
pub mod input;
pub mod layout;
mod machine_check;
mod node;
mod node_commands;
mod ports;
mod probe;
mod proc_fs;
mod process;
mod provisioner;
mod proxy;
mod registry;
mod server;
mod topology;
mod toxiproxy;

pub use access::{Access, Dial};
#[cfg(feature = "containers")]
pub use container::{Container, engine};
pub use deployment::Deployment;
pub use error::ClusterError;
pub use external::{
    External, ExternalTarget, Handshake, MonitorLine, MonitorStream, ScriptCalls, SecureStream, Secured,
    Writer, quoted_words, resolve_host,
};
pub use machine_check::{MachineFinding, check_machine};
pub use node::{Data, Node, Party, Role};
pub use ports::state_dir;
pub use probe::slot_of;
pub use proc_fs::{ProcessId, children, local_addresses, process_state, ran_and_waited_ns, threads};
pub use process::Process;
pub use provisioner::{Links, Provisioner, UpOptions, provisioner_of};
pub use proxy::{
    Label, Labels, LinkEffect, LinkFault, LinkGuard, LinkTable, MessagePassage, MessageWatch, MessageWords,
    Pattern,
};
pub use registry::{Running, RunningNode, down_by_id, running, sweep, unnamed_dir};
pub use server::{AvailableServer, Server, available_servers, servers_dir};
pub use topology::{
    Persistence, ProvisionerKind, Secret, Topology, TopologyKind, TopologyTable, json_schema,
};
pub use toxiproxy::Toxiproxy;
