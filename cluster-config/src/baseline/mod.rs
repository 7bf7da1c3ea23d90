//! The servers of other systems that locks on Redis are compared with: a file per system says what starts it,
//! when it is ready, and who leads. Processes, proxies and the registry are those of Redis servers.
//!
//! | file | what it is for |
//! |---|---|
//! | `etcd.rs`, `zookeeper.rs` | consensus: one member or several |
//! | `postgres.rs`, `mysql.rs`, `mongodb.rs` | databases: one server |

mod etcd;
mod mongodb;
mod mysql;
mod postgres;
mod zookeeper;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::layout::PlannedNode;
use crate::server::{ask_version, in_path, non_empty_var, servers_dir, version};
use crate::{ClusterError, Node, Role, Server, Topology, TopologyKind};

/// Longest wait for one answer of a server that is starting; it is asked again.
pub(crate) const ANSWER: Duration = Duration::from_secs(1);

#[async_trait]
pub(crate) trait System: Debug + Send + Sync {
    /// Its server on this machine: the usual one, or the one of a topology's `server` if that is a path.
    fn find(&self, server: &str) -> Result<Server, ClusterError>;

    /// What clients connect to, given the announced addresses with commas between them.
    fn url(&self, addresses: &str) -> String;

    /// Decides the arguments and files of every node, whose ports are three in a row at its address.
    fn plan(&self, topology: &Topology, nodes: &mut [PlannedNode]);

    /// What the server's arguments come after.
    fn program(&self, server: &Path) -> Command {
        Command::new(server)
    }

    fn refuses_root(&self) -> bool {
        false
    }

    /// What has to run to its end before a node whose directory is empty can start.
    fn bootstrap(&self, _server: &Path, _node: &PlannedNode) -> Option<Command> {
        None
    }

    /// What a node is now, and what it says of its version; the error says why it serves nobody.
    async fn hello(&self, address: SocketAddr) -> Result<(Role, String), String>;

    async fn version(&self, address: SocketAddr) -> Result<String, String> {
        let (_, said) = self.hello(address).await?;
        version(&said).ok_or_else(|| format!("it names no version in {said:?}"))
    }

    async fn writes(&self, nodes: &[Node], timeout: Duration) -> bool {
        let roles = roles(self, nodes, timeout).await;
        roles.len() > nodes.len() / 2 && roles.values().any(|role| *role == Role::Master)
    }
}

impl TopologyKind {
    /// The system whose servers it has; `None`: Redis.
    pub(crate) fn system(self) -> Option<&'static dyn System> {
        match self {
            TopologyKind::Single | TopologyKind::Sentinel | TopologyKind::Cluster | TopologyKind::Masters => {
                None
            }
            TopologyKind::Etcd | TopologyKind::Etcd3 => Some(&etcd::Etcd),
            TopologyKind::ZooKeeper | TopologyKind::ZooKeeper3 => Some(&zookeeper::ZooKeeper),
            TopologyKind::Mongodb => Some(&mongodb::MongoDb),
            TopologyKind::Mysql => Some(&mysql::Mysql),
            TopologyKind::Postgres => Some(&postgres::Postgres),
        }
    }
}

/// What every node is that answers within `timeout`.
pub(crate) async fn roles<S: System + ?Sized>(
    system: &S,
    nodes: &[Node],
    timeout: Duration,
) -> BTreeMap<String, Role> {
    let answers = join_all(nodes.iter().map(|node| async move {
        let answer = tokio::time::timeout(timeout, system.hello(node.address)).await;
        Some((node.name.clone(), answer.ok()?.ok()?.0))
    }));
    answers.await.into_iter().flatten().collect()
}

pub(crate) async fn listens(address: SocketAddr) -> bool {
    matches!(tokio::time::timeout(ANSWER, TcpStream::connect(address)).await, Ok(Ok(_)))
}

/// What a server says to `request` on a connection of its own, until it closes or has said `enough`.
async fn exchange(
    address: SocketAddr,
    request: &[u8],
    enough: impl Fn(&[u8]) -> bool,
) -> Result<Vec<u8>, String> {
    let talk = async {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(request).await?;
        let mut said = Vec::new();
        while stream.read_buf(&mut said).await? > 0 && !enough(&said) {}
        Ok(said)
    };
    match tokio::time::timeout(ANSWER, talk).await {
        Ok(answer) => answer.map_err(|error: std::io::Error| error.to_string()),
        Err(_) => Err(format!("no answer within {ANSWER:?}")),
    }
}

/// The path that a topology's `server` gives, else the one that a variable names.
fn chosen(server: &str, usual: &str, variable: &str) -> Option<PathBuf> {
    if server == usual { non_empty_var(variable).map(PathBuf::from) } else { Some(PathBuf::from(server)) }
}

/// A program: the path given, else the one a variable names, else its package's or `make setup-baselines`'.
fn program(
    server: &str,
    usual: &str,
    variable: &str,
    name: &str,
    folders: impl IntoIterator<Item = PathBuf>,
) -> Result<Server, ClusterError> {
    let own = servers_dir().map(|dir| dir.join("bin"));
    let path = chosen(server, usual, variable)
        .or_else(|| in_path(name))
        .or_else(|| folders.into_iter().chain(own).map(|dir| dir.join(name)).find(|path| path.is_file()));
    let remedy = match name {
        "mongod" => "no package source has it; its makers ship it as an image (`--provisioner container`)",
        _ => "`make setup-baselines` installs it",
    };
    let remedy = format!("{remedy}; or name a program in {variable}");
    let path = path.ok_or_else(|| missing!("{name} was not found; {remedy}"))?;
    let (_, version) = ask_version(&path, "", &remedy)?;
    Ok(Server { path, flavour: usual.to_owned(), version })
}

/// The topology's own settings in the form of its server. They come before the harness's, which win.
fn settings(topology: &Topology, form: fn(&str, &str) -> Vec<String>) -> Vec<String> {
    topology.config.iter().flat_map(|(name, value)| form(name, value)).collect()
}

/// What a container is started with: what prepares an empty directory, then the server in its place.
#[cfg(feature = "containers")]
pub(crate) fn container_words(system: &dyn System, server: &Path, node: &PlannedNode) -> Vec<String> {
    let words = |command: Command| -> Vec<String> {
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        words.map(|word| word.to_string_lossy().into_owned()).collect()
    };
    let own = [words(system.program(server)), node.args.clone()].concat();
    let Some(first) = system.bootstrap(server, node) else { return own };
    let (first, own) = (shell_words::join(words(first)), shell_words::join(own));
    words(shell(&format!("{first}; exec {own}"), []))
}

/// The same command for a server that refuses root, in a user namespace in which root is nobody: root's files
/// are nobody's too, so that the deployment's directory needs no other owner.
pub(crate) fn unprivileged(system: &dyn System, command: Command) -> Command {
    if !system.refuses_root() || !nix::unistd::geteuid().is_root() {
        return command;
    }
    let mut other = Command::new("unshare");
    other.args(["--user", "--map-user=65534", "--map-group=65534", "--"]);
    other.arg(command.get_program()).args(command.get_args());
    other
}

/// `--name=value`.
fn flag(name: &str, value: &str) -> Vec<String> {
    vec![format!("--{name}={value}")]
}

/// Words of a shell command that gets its paths as arguments, so that none of them is read as anything else.
fn shell<'a>(script: &str, arguments: impl IntoIterator<Item = &'a Path>) -> Command {
    let mut command = Command::new("sh");
    command.args(["-euc", script, "sh"]).args(arguments);
    command
}
