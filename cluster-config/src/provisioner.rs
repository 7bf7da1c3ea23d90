//! The seams between the ways to start servers and their options, a deployment and what its servers run in.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use nix::sys::signal::Signal;

use crate::layout::PlannedNode;
use crate::{ClusterError, Deployment, Process, ProcessId, ProvisionerKind, Topology};

/// Whether links pass through fault proxies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Links {
    /// Real addresses are announced; there is no proxy.
    Direct,
    /// Every directed link passes through a proxy hop of its own.
    Proxied,
}

/// How to bring a topology up.
#[derive(Debug, Clone)]
pub struct UpOptions {
    /// Directory for data, configuration and logs; made if missing.
    pub dir: PathBuf,
    /// Whether faults on links will be wanted.
    pub links: Links,
    /// Longest wait for readiness, for up to 64 nodes; as long again for each 64 more. Default 30 s.
    pub ready_timeout: Duration,
    /// The port of every node, each on its own address; clusters need the next one too. `None`: a free one.
    pub port: Option<u16>,
    /// Keep running when the starting process ends (`up --detach`). Needs direct links: proxies are in it.
    pub detach: bool,
    /// Keep the servers' data in memory (`/dev/shm`) where the machine allows it, instead of in `dir`.
    /// Sentinels and cluster nodes sync their own configuration before they vote, so a busy disk can hold up
    /// a failover for seconds. Not for measuring what syncing costs.
    pub in_memory: bool,
    /// Variables for the environment of a node, by its name: a library to preload, say.
    pub env: BTreeMap<String, Vec<(String, String)>>,
}

impl UpOptions {
    /// Direct links, a free port, ended with this process.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        UpOptions {
            dir: dir.into(),
            links: Links::Direct,
            ready_timeout: Duration::from_secs(30),
            port: None,
            detach: false,
            in_memory: false,
            env: BTreeMap::new(),
        }
    }
}

/// A way to bring a topology up.
#[async_trait]
pub trait Provisioner: Send + Sync {
    /// `process`, …
    fn name(&self) -> &'static str;
    /// Starts servers and waits until they are ready; on an error, or if dropped, nothing is left running.
    async fn up(&self, topology: &Topology, options: &UpOptions) -> Result<Deployment, ClusterError>;
}

/// What starts, signals and ends the servers of one deployment. Names are those of its planned nodes.
#[async_trait]
pub(crate) trait Runner: Debug + Send + Sync {
    /// Starts the server of a node that is not running; returns its process where this machine can see it.
    async fn start(&self, node: &PlannedNode) -> Result<Option<ProcessId>, ClusterError>;

    /// Another program for a node, from its next start on.
    fn set_program(&self, node: &str, _program: PathBuf) -> Result<(), ClusterError> {
        Err(failed!(
            "{node} is a container, which runs what its image has; only servers that are processes of this machine can change"
        ))
    }

    /// How a server ended, by itself or by a signal; `None` while it runs and before it was started.
    fn ended(&self, node: &str) -> Option<String>;

    fn pid(&self, node: &str) -> Option<u32>;

    /// The state letter of `/proc/<pid>/stat` of a running server.
    fn state(&self, node: &str) -> Option<char>;

    /// Sends SIGSTOP or SIGCONT; returns when it was sent.
    fn signal(&self, node: &str, signal: Signal) -> Result<(), ClusterError>;

    async fn kill(&self, node: &str) -> Result<(), ClusterError>;

    /// Ends every server and waits until all are gone. Afterwards nothing can be started any more.
    fn end(&self) -> Result<(), ClusterError>;
}

/// What starts the servers of a topology, as it names it.
///
/// # Errors
/// Containers, where this build has none.
pub fn provisioner_of(topology: &Topology) -> Result<Arc<dyn Provisioner>, ClusterError> {
    match topology.provisioner {
        ProvisionerKind::Process => Ok(Arc::new(Process)),
        #[cfg(feature = "containers")]
        ProvisionerKind::Container => Ok(Arc::new(crate::Container)),
        #[cfg(not(feature = "containers"))]
        ProvisionerKind::Container => Err(ClusterError::missing(
            "this locklab was built without containers, as `make quickstart` builds it; build it with them: cargo build --release -p cli",
        )),
    }
}
