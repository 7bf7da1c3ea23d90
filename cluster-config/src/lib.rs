//! Topology as data, then running servers.
use std::{collections::BTreeMap, net::SocketAddr, path::{Path, PathBuf}, time::Duration};
use async_trait::async_trait;

/// The shape of a deployment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TopologyKind { /// One server.
    Single, /// A master, replicas, sentinels.
    Sentinel, /// Masters with slots, and their replicas.
    Cluster, /// Independent masters.
    Masters }
/// The shape wanted, as data.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Topology { #[allow(missing_docs)] pub kind: TopologyKind,
    /// Replicas per master (sentinel, cluster).
    pub replicas: u32, /// Independent masters.
    pub masters: u32, /// Cluster masters.
    pub shards: u32, /// Sentinels.
    pub sentinels: u32, /// `redis`, `valkey` or a path.
    pub server: String, /// redis.conf lines for every node.
    pub config: BTreeMap<String, String> }
impl Topology { /// The usual one of a kind: sentinel 1+2+3, cluster 3+3, 5 masters.
    pub fn of(_kind: TopologyKind) -> Self { todo!() } }
/// Whether links pass through fault proxies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Links { /// Real addresses are announced; there is no proxy.
    Direct, /// Every directed link passes through a proxy hop of its own.
    Proxied }
/// How to bring a topology up.
#[derive(Debug, Clone)]
pub struct UpOptions { /// Directory for data, configuration and logs; made if missing.
    pub dir: PathBuf, #[allow(missing_docs)] pub links: Links, /// Longest wait for readiness. Default 30 s.
    pub ready_timeout: Duration, /// First port to try; a free one if `None`.
    pub port: Option<u16>, /// Keep running when the starting process ends (`up --detach`).
    pub detach: bool }
impl UpOptions { /// Direct links, free ports, ended with this process.
    pub fn new(dir: impl Into<PathBuf>) -> Self { UpOptions { dir: dir.into(), links: Links::Direct, ready_timeout: Duration::from_secs(30), port: None, detach: false } } }
/// A way to bring a topology up.
#[async_trait]
pub trait Provisioner: Send + Sync { /// `process`, …
    fn name(&self) -> &'static str;
    /// Starts servers and waits until they are ready; on an error nothing is left running.
    async fn up(&self, topology: &Topology, options: &UpOptions) -> Result<Deployment, ClusterError>; }
/// Local processes.
#[derive(Debug, Default, Clone)]
pub struct Process;
/// The job of a node when it was started; failovers change who is master (see `Deployment::roles`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum Role { Master, Replica, Sentinel }
/// One running server. `n1` is the first master; masters first, then replicas, then sentinels (`s1`…).
#[derive(Debug, Clone)]
pub struct Node { /// `n1`, `s1`.
    pub name: String, /// Role at start.
    pub role: Role, /// Where it really listens.
    pub address: SocketAddr, /// What it announces: `address`, or its proxy.
    pub announced: SocketAddr, /// Its log file.
    pub log: PathBuf }
/// What a restart does with the data directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Data { Keep, Lose }
/// One end of a link.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Party { /// A server by name.
    Node(String), /// A client process by number, from 1.
    Client(u32) }
/// A running topology. Taking it down is explicit; drop is the safety net.
#[derive(Debug)]
pub struct Deployment { }
#[allow(missing_docs)]
impl Deployment {
    pub fn topology(&self) -> &Topology { todo!() }
    /// The target URL for lock clients (announced addresses).
    pub fn url(&self) -> String { todo!() }
    pub fn nodes(&self) -> &[Node] { todo!() }
    pub fn dir(&self) -> &Path { todo!() }
    /// `redis_version` of the running binary.
    pub fn server_version(&self) -> &str { todo!() }
    /// Asks every data node for ROLE on its real address; unreachable nodes are absent.
    pub async fn roles(&self) -> BTreeMap<String, Role> { todo!() }
    /// SIGKILL, and waits until the process is gone.
    pub async fn kill(&self, _node: &str) -> Result<(), ClusterError> { todo!() }
    /// Starts a killed node again on its address; returns when it answers PING (not before it has loaded).
    pub async fn start(&self, _node: &str, _data: Data) -> Result<(), ClusterError> { todo!() }
    /// SIGSTOP.
    pub fn pause(&self, _node: &str) -> Result<(), ClusterError> { todo!() }
    /// SIGCONT.
    pub fn resume(&self, _node: &str) -> Result<(), ClusterError> { todo!() }
    /// `R`, `T`, … of /proc/<pid>/stat; None if gone.
    pub fn process_state(&self, _node: &str) -> Option<char> { todo!() }
    pub fn pid(&self, _node: &str) -> Option<u32> { todo!() }
    /// Tells the proxies which process is which client, so that client links can be told apart. Replaces what was said before.
    pub fn set_clients(&self, _pids: BTreeMap<u32, u32>) { todo!() }
    /// The links; an error if the deployment was started with `Links::Direct`.
    pub fn links(&self) -> Result<&LinkTable, ClusterError> { todo!() }
    /// Stops every server (by id), heals nothing, waits until all are gone, removes data directories but keeps logs.
    pub async fn down(self) -> Result<(), ClusterError> { todo!() }
}
/// The proxies of a deployment: settings per directed link, bytes flowing from one party to another.
#[derive(Debug)]
pub struct LinkTable { }
#[allow(missing_docs)]
impl LinkTable {
    /// Puts a fault on the bytes that flow `from -> to`, whoever dialled; also on connections opened later. Undone by the guard's `heal` or drop.
    pub fn apply(&self, _from: &Party, _to: &Party, _fault: LinkFault) -> LinkGuard { todo!() }
}
/// A harm to one directed link.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum LinkFault { Delay { latency: Duration, jitter: Duration }, Cut }
/// The undo of a link fault, and what it did so far.
#[derive(Debug)]
pub struct LinkGuard { }
#[allow(missing_docs)]
impl LinkGuard {
    /// Bytes delayed or held so far, and connections affected: the proof that it bit.
    pub fn effect(&self) -> LinkEffect { todo!() }
    pub fn heal(self) -> LinkEffect { todo!() }
}
/// What a link fault did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct LinkEffect { pub bytes: u64, pub chunks: u64, pub connections: u64 }
/// An error of a provisioner: which node, what, the end of its log, and the mend.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct ClusterError { pub message: String, /// A package, a binary or an engine is missing (exit 69).
    pub missing: bool }
