//! Somebody else's servers as a deployment: nothing is started there and nothing is ended.
//!
//! | file | what it is for |
//! |---|---|
//! | `discover.rs` | which nodes and roles a target has |
//! | `monitor.rs`, `monitor_line.rs` | what its servers run, by MONITOR; how it shows a command |
//! | `script_calls.rs` | the commands inside scripts, by the same |
//! | `leftovers.rs` | removes a run's keys |

mod discover;
mod leftovers;
mod monitor;
mod monitor_line;
mod script_calls;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use crate::access::Dial;
use crate::layout::PlannedNode;
use crate::probe::Prober;
use crate::process::fleet::Fleet;
use crate::proxy::Proxies;
use crate::{
    ClusterError, Deployment, Links, Node, Provisioner, Role, Secret, Topology, TopologyKind, UpOptions,
    node_commands, ports,
};
pub use monitor::MonitorStream;
pub use monitor_line::{MonitorLine, quoted_words};
pub use script_calls::ScriptCalls;

use discover::{ANSWER, DiscoveredServer, discover, resolved};

/// What a URL says of somebody else's servers.
#[derive(Debug, Clone)]
pub struct ExternalTarget {
    /// The shape that the URL names.
    pub kind: TopologyKind,
    /// Its addresses: servers, or sentinels.
    pub addresses: Vec<SocketAddr>,
    /// The Unix socket of a single server, which then needs no address of its own.
    pub socket: Option<PathBuf>,
    /// The name under which the sentinels know the master; empty without sentinels.
    pub master_name: String,
    /// How servers that speak TLS are trusted; `None`: they speak in the clear.
    pub tls: Option<Secured>,
    /// User of the data nodes.
    pub user: Option<String>,
    /// Password of the data nodes.
    pub password: Option<Secret>,
    /// User of the sentinels.
    pub sentinel_user: Option<String>,
    /// Password of the sentinels.
    pub sentinel_password: Option<Secret>,
    /// The database that clients select.
    pub database: u16,
    /// Who writes to servers of another system.
    pub writer: Option<Arc<dyn Writer>>,
}

/// Writes to servers that are not Redis as their client: the harness knows neither users nor databases.
#[async_trait]
pub trait Writer: Debug + Send + Sync {
    /// Whether a write under this name is answered within `timeout`.
    async fn writes(&self, name: &str, timeout: Duration) -> bool;
}

impl ExternalTarget {
    fn dial(&self, role: Role, address: SocketAddr) -> Dial {
        let data = role != Role::Sentinel;
        let (user, password) = match role {
            Role::Sentinel => (&self.sentinel_user, &self.sentinel_password),
            Role::Master | Role::Replica => (&self.user, &self.password),
        };
        Dial {
            address,
            socket: self.socket.clone(),
            tls: self.tls.clone(),
            user: user.clone(),
            password: password.clone(),
            database: if data { self.database } else { 0 },
        }
    }
}

/// Turns `host:port` into an address.
pub async fn resolve_host(host: &str) -> Result<SocketAddr, ClusterError> {
    resolved(host).await.map_err(ClusterError::missing)
}

/// Somebody else's servers. Nothing is started, ended, flushed or configured; which faults may act there, the
/// caller decides. The harness' own keys begin with the prefix. Shown without the password.
#[derive(Debug, Clone)]
pub struct External {
    target: ExternalTarget,
    url: Secret,
    shown_url: String,
    prefix: String,
    topology: Topology,
    found: Vec<DiscoveredServer>,
    version: String,
}

impl External {
    /// Asks the servers what they are. `url` is what lock clients are given, `shown_url` the same without its
    /// password; `mine` says that servers beyond this machine may be touched.
    ///
    /// # Errors
    /// One that the target names does not answer, or is not on this machine and nobody said that it is the
    /// user's.
    pub async fn find(
        target: ExternalTarget,
        urls: (String, String),
        mine: bool,
    ) -> Result<External, ClusterError> {
        discover::require_all(&target).await?;
        External::find_some(target, urls, mine).await
    }

    /// The same where masters of a set may be down.
    ///
    /// # Errors
    /// None answers, or one is not on this machine and nobody said that it is the user's.
    pub async fn find_some(
        target: ExternalTarget,
        (url, shown_url): (String, String),
        mine: bool,
    ) -> Result<External, ClusterError> {
        let (topology, found) = discover(&target).await?;
        if let Some(far) = found.iter().find(|found| !mine && !found.address.ip().is_loopback()) {
            bail!(
                "{shown_url} leads to {}, which is not on this machine: say --yes-this-is-mine if you may put load on it",
                far.address
            );
        }
        Ok(External {
            url: Secret::new(url),
            shown_url,
            prefix: "locklab:".to_owned(),
            topology,
            version: version(&target, &found).await,
            target,
            found,
        })
    }

    /// The shape that the servers form.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// What the first server says of its version; empty if it does not say it to everybody.
    pub fn server_version(&self) -> &str {
        &self.version
    }

    /// What clients are given, with its password.
    pub fn url(&self) -> &str {
        self.url.reveal()
    }

    /// Whether every server is on this machine.
    pub fn is_loopback(&self) -> bool {
        self.found.iter().all(|found| found.address.ip().is_loopback())
    }

    /// Whether certificates are held against the servers' addresses: then no proxy can stand at another one.
    pub fn is_named_by_address(&self) -> bool {
        let tls = self.target.tls.as_ref();
        tls.is_some_and(|tls| !tls.0.any_address())
    }

    /// The same servers for one run, whose keys begin with this.
    #[must_use]
    pub fn for_run(&self, prefix: &str) -> External {
        External { prefix: prefix.to_owned(), ..self.clone() }
    }

    fn nodes(&self, port: Option<u16>) -> Vec<PlannedNode> {
        let names = [Role::Master, Role::Replica, Role::Sentinel].map(|role| self.topology.names(role));
        let names = names.into_iter().flatten();
        let mut numbers = 1_u8..;
        self.found
            .iter()
            .zip(names)
            .map(|(found, name)| {
                let octet = 10 + numbers.next().unwrap_or(u8::MAX - 10);
                PlannedNode::new(Node {
                    role: found.role,
                    address: found.address,
                    announced: match port {
                        Some(port) => SocketAddr::from(([127, 0, 1, octet], port)),
                        None => found.address,
                    },
                    log: PathBuf::new(),
                    dial: self.target.dial(found.role, found.address),
                    name,
                })
            })
            .collect()
    }

    /// The URL with proxies in place of the servers.
    fn proxied_url(&self, nodes: &[PlannedNode]) -> String {
        let (scheme, rest) = self.url().split_once("://").unwrap_or(("redis", self.url()));
        let authority = rest.find(['/', '?']).map_or(rest, |end| &rest[..end]);
        let user = authority.rfind('@').map_or("", |at| &authority[..=at]);
        let tail = &rest[authority.len()..];
        let addresses: Vec<String> = nodes.iter().map(|node| node.announced.to_string()).collect();
        format!("{scheme}://{user}{}{tail}", addresses.join(","))
    }
}

#[async_trait]
impl Provisioner for External {
    fn name(&self) -> &'static str {
        "external"
    }

    /// The topology asked for is not compared: the servers are what they are.
    async fn up(&self, _topology: &Topology, options: &UpOptions) -> Result<Deployment, ClusterError> {
        let proxied = options.links == Links::Proxied;
        if proxied && self.topology.kind.announces_addresses() {
            bail!(
                "links of somebody else's {} servers cannot be harmed: they announce addresses of their own, past any proxy",
                self.topology.kind
            );
        }
        if proxied && self.is_named_by_address() {
            bail!(
                "the servers' certificates are for their addresses, and a proxy has another; add tls-server-name=NAME to the URL",
            );
        }
        let listens = |port| self.nodes(Some(port)).iter().map(|node| node.announced).collect();
        let ports = proxied.then(|| ports::reserve(None, 2, listens)).transpose()?;
        let nodes = self.nodes(ports.as_ref().map(|ports| ports.port));
        // The servers know of no proxies and do not dial through them: each one that dials is a client.
        let proxies = Proxies::open(options, &nodes, self.topology.kind, BTreeMap::new()).await?;
        let url = if proxied { self.proxied_url(&nodes) } else { self.url().to_owned() };
        Ok(Deployment {
            topology: self.topology.clone(),
            id: "external".to_owned(),
            url: Secret::new(url),
            shown_url: self.shown_url.clone(),
            dir: options.dir.clone(),
            nodes: nodes.iter().map(|node| (**node).clone()).collect(),
            server_version: self.version.clone(),
            prober: Prober::new(&self.target.master_name, &self.prefix, self.target.writer.clone()),
            fleet: Fleet::of_external(nodes),
            proxies,
            _ports: ports,
        })
    }
}

/// What the first server says of its version; empty if it does not.
async fn version(target: &ExternalTarget, found: &[DiscoveredServer]) -> String {
    let Some(first) = found.first() else { return String::new() };
    if let Some(system) = target.kind.system() {
        return system.version(first.address).await.unwrap_or_default();
    }
    let info = node_commands::ask(&target.dial(first.role, first.address), &["INFO", "server"], ANSWER).await;
    let info = info.map(|info| node_commands::text(&info)).unwrap_or_default();
    node_commands::server_version(&info).unwrap_or_default().to_owned()
}

/// A connection over which nobody else listens.
pub trait SecureStream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> SecureStream for T {}

/// Shakes hands with servers that speak TLS.
#[async_trait]
pub trait Handshake: Debug + Send + Sync {
    /// Secures a connection to `host`.
    async fn connect(&self, host: &str, stream: TcpStream) -> io::Result<Box<dyn SecureStream>>;

    /// Whether certificates are not held against the dialled address: then a proxy may stand at another.
    fn any_address(&self) -> bool;
}

/// A way to shake hands, shared by all connections of a target. Two are equal if they are the same one.
#[derive(Debug, Clone)]
pub struct Secured(pub Arc<dyn Handshake>);

impl PartialEq for Secured {
    fn eq(&self, other: &Secured) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Secured {}
