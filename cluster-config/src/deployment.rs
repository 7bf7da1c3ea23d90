//! A running topology: its addresses, its nodes' fates (kill, start, pause, resume), its links, and its end.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::baseline;
use crate::ports::PortLock;
use crate::probe::{self, Prober};
use crate::process::fleet::{Fleet, lose_data};
use crate::process::ready::Start;
use crate::proxy::Proxies;
use crate::{
    ClusterError, Data, LinkFault, LinkGuard, LinkTable, Node, Party, Role, Secret, Server, Topology,
    node_commands, registry,
};

/// Longest wait for one node's answer to ROLE; a node that is slower counts as unreachable.
const ROLE_TIMEOUT: Duration = Duration::from_millis(500);
/// Longest wait for a restarted node to answer PING.
const RESTART_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest wait for the answer to a single command.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(2);

/// A running topology. Taking it down is explicit ([`down`](Deployment::down)); drop is the safety net and
/// ends the same processes without telling whether that worked. Shown without passwords.
#[derive(Debug)]
pub struct Deployment {
    pub(crate) topology: Topology,
    pub(crate) id: String,
    pub(crate) url: Secret,
    pub(crate) shown_url: String,
    pub(crate) dir: PathBuf,
    pub(crate) nodes: Vec<Node>,
    pub(crate) server_version: String,
    pub(crate) prober: Prober,
    // Dropped in this order: servers first, then the proxies between them, then their ports.
    pub(crate) fleet: Fleet,
    pub(crate) proxies: Option<Proxies>,
    pub(crate) _ports: Option<PortLock>,
}

impl Deployment {
    /// What was asked for.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// The name under which [`running`](crate::running) lists and [`down_by_id`](crate::down_by_id) ends it.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The target URL for lock clients (announced addresses), with the password if there is one.
    pub fn url(&self) -> String {
        self.url.reveal().to_owned()
    }

    /// The same without the password, for everything that is kept or shown to others.
    pub fn shown_url(&self) -> &str {
        &self.shown_url
    }

    /// Masters first, then replicas, then sentinels.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The node of that name, or an error that lists the names there are.
    pub fn node(&self, name: &str) -> Result<&Node, ClusterError> {
        Ok(self.fleet.planned(name)?)
    }

    /// Absolute directory of data (`nodes/`) and logs (`logs/`).
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The version that the running binary reports of itself, for example `7.0.15`.
    pub fn server_version(&self) -> &str {
        &self.server_version
    }

    /// Asks every data node on its real address what it is: Redis by ROLE, a member of an ensemble whether it
    /// leads; nodes that do not answer within 500 ms are absent.
    pub async fn roles(&self) -> BTreeMap<String, Role> {
        match self.topology.kind.system() {
            Some(system) => baseline::roles(system, &self.nodes, ROLE_TIMEOUT).await,
            None => probe::roles(&self.nodes, ROLE_TIMEOUT).await,
        }
    }

    /// Sends one command to a node's real address, past any proxy, on its own connection; waits 2 s at most.
    ///
    /// The answer is what `redis-cli --raw` would print: arrays one element per line, nil as nothing. A
    /// server's error answer is an error here. After a timeout the command may still take effect.
    pub async fn command(&self, node: &str, args: &[&str]) -> Result<String, ClusterError> {
        let mut answers = self.commands(node, &[args], COMMAND_TIMEOUT).await?;
        answers.pop().ok_or_else(|| failed!("{node} gave no answer"))
    }

    /// Sends several commands, in order, on one connection: `SET` and then `WAIT` belong together, since WAIT
    /// asks about its own connection's writes. `timeout` bounds them together; the first error ends the row.
    pub async fn commands(
        &self,
        node: &str,
        commands: &[&[&str]],
        timeout: Duration,
    ) -> Result<Vec<String>, ClusterError> {
        let node = self.node(node)?;
        if self.topology.kind.system().is_some() {
            bail!("{} is no Redis server: it takes no commands", node.name);
        }
        let answers = node_commands::ask_all(&node.dial, commands, timeout).await.map_err(|failure| {
            let message = format!("{} ({}): {failure}", node.name, node.address);
            match failure {
                node_commands::Failure::Refused(_) => ClusterError::Refused(message),
                _ => ClusterError::Other(message),
            }
        })?;
        Ok(answers.iter().map(node_commands::text).collect())
    }

    /// Writes a short-lived key in the slot of `lock`, past any proxy; whether it worked within `timeout`.
    ///
    /// It writes where clients would be sent now: the slot's owner, the master that most sentinels name, a
    /// majority of independent masters. Connections are kept, so that asking often is cheap.
    pub async fn probe(&self, lock: &str, timeout: Duration) -> bool {
        self.prober.probe(self.topology.kind, &self.nodes, lock, timeout).await
    }

    /// SIGKILL, and waits until the process is gone. An error if it was not running.
    pub async fn kill(&self, node: &str) -> Result<(), ClusterError> {
        self.fleet.kill(node).await
    }

    /// Starts a killed node again on its address; returns when it can be used (not before it has loaded). A
    /// member of an ensemble of which most is away needs only listen.
    pub async fn start(&self, node: &str, data: Data) -> Result<(), ClusterError> {
        let planned = self.fleet.planned(node)?;
        if data == Data::Lose && self.fleet.pid(node).is_none() {
            lose_data(planned).map_err(|error| failed!("cannot remove the data of {node}: {error}"))?;
        }
        self.fleet.spawn(node).await?;
        Start::new(&self.fleet, RESTART_TIMEOUT).wait_until_ready(planned).await
    }

    /// The node runs this binary from its next start on, with its data and configuration.
    pub fn upgrade(&self, node: &str, server: &Server) -> Result<(), ClusterError> {
        self.fleet.set_program(node, server.path.clone())
    }

    /// What a node says that it is, by its INFO: `redis-7.0.15`, `valkey-9.1.2`, `dragonfly-1.25.0`.
    pub async fn serves(&self, node: &str) -> Result<String, ClusterError> {
        if self.topology.kind.system().is_some() {
            let version = &self.server_version;
            let name = match self.topology.kind {
                // MariaDB's versions are from 10 on.
                crate::TopologyKind::Mysql if !version.starts_with('1') => "mysql",
                kind => kind.server(),
            };
            return Ok(match version.as_str() {
                // Somebody else's, which does not say it to everybody.
                "" => name.to_owned(),
                version => format!("{name}-{version}"),
            });
        }
        let info = self.command(node, &["INFO", "server"]).await?;
        node_commands::server_name(&info).ok_or_else(|| failed!("{node} does not say which server it is"))
    }

    /// SIGSTOP; returns when the process has stopped. An error if it was not running.
    pub fn pause(&self, node: &str) -> Result<(), ClusterError> {
        self.fleet.pause(node)
    }

    /// SIGCONT. An error if the process was not there.
    pub fn resume(&self, node: &str) -> Result<(), ClusterError> {
        self.fleet.resume(node)
    }

    /// `R`, `S`, `T`, … of `/proc/<pid>/stat`; `None` if the process is gone.
    pub fn process_state(&self, node: &str) -> Option<char> {
        self.fleet.state(node)
    }

    /// The process number; `None` if the process is gone, and of somebody else's server.
    pub fn pid(&self, node: &str) -> Option<u32> {
        self.fleet.pid(node)
    }

    /// Whether the node is an own server whose process is gone. Of somebody else's nothing is known: `false`.
    pub fn is_down(&self, node: &str) -> bool {
        self.fleet.is_down(node)
    }

    /// The directory of a node's data.
    pub fn data_dir(&self, node: &str) -> Result<&Path, ClusterError> {
        Ok(&self.fleet.planned(node)?.dir)
    }

    /// Whether nobody has taken the deployment down by its id meanwhile.
    pub fn is_listed(&self) -> bool {
        registry::is_listed(&self.id)
    }

    /// Tells the proxies which process is which client (number to process number), so that client links can
    /// be told apart. Replaces what was said before. Sockets of a process's descendants count as its own.
    /// Does nothing when links are direct.
    pub fn set_clients(&self, pids: BTreeMap<u32, u32>) {
        if let Some(proxies) = &self.proxies {
            proxies.table.set_clients(pids);
        }
    }

    /// The links as the proxies see them; an error where they are [`Links::Direct`](crate::Links::Direct).
    pub fn links(&self) -> Result<&LinkTable, ClusterError> {
        match &self.proxies {
            Some(proxies) => Ok(&proxies.table),
            None => bail!(
                "this deployment was started with direct links, which cannot be harmed; start it with proxied links"
            ),
        }
    }

    /// Puts a fault on the bytes that flow over each of these links (from, to), on open connections and on
    /// later ones. The faults are in the order of the links.
    pub fn apply(&self, links: &[(Party, Party)], fault: &LinkFault) -> Result<Vec<LinkGuard>, ClusterError> {
        let table = self.links()?;
        Ok(links.iter().map(|(from, to): &(Party, Party)| table.apply(from, to, fault.clone())).collect())
    }

    /// Lets go of a deployment that was started with `detach`: its servers go on, listed by
    /// [`running`](crate::running). One that was started without ends here, as when it is dropped.
    pub fn leave(self) {
        drop(self);
    }

    /// Stops every server by id, heals nothing, waits until all are gone, removes data but keeps logs.
    pub async fn down(self) -> Result<(), ClusterError> {
        self.fleet.end()?;
        if let Some(data) = self.fleet.data()
            && data.exists()
        {
            bail!("the servers are gone, but {} could not be removed", data.display());
        }
        Ok(())
    }
}
