//! The seam between the ways to start the servers of a topology, and its options.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;

use crate::{ClusterError, Deployment, Topology};

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
    /// The API of a Toxiproxy server on this machine that faults proxied links in the embedded proxies' place, as far as it can
    /// ([`LinkFault::by_toxiproxy`](crate::LinkFault::by_toxiproxy)).
    pub toxiproxy: Option<SocketAddr>,
    /// Longest wait for readiness. Default 30 s.
    pub ready_timeout: Duration,
    /// The port of every node, each on its own address; a cluster also needs the next one. A free one if `None`.
    pub port: Option<u16>,
    /// Keep running when the starting process ends (`up --detach`). Needs direct links, since proxies live in this process.
    pub detach: bool,
    /// Keep the servers' data in memory (`/dev/shm`) where the machine allows it, instead of in `dir`. Sentinels and cluster nodes sync
    /// their own configuration before they vote, so a busy disk can hold up a failover for seconds. Not for measuring what syncing costs.
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
            toxiproxy: None,
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
    /// Starts servers and waits until they are ready; on an error, or if the call is dropped, nothing is left running.
    async fn up(
        &self,
        topology: &Topology,
        options: &UpOptions,
    ) -> Result<Deployment, ClusterError>;
}
