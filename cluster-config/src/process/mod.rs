//! Servers as local processes: milliseconds to start, and each can be killed or stopped by its number.
//!
//! | file | what it is for |
//! |---|---|
//! | `fleet.rs` | the servers of a deployment, by name |
//! | `children.rs` | one server as a child process |
//! | `capacity.rs` | whether the machine has room for them |
//! | `ready.rs` | when it has started |

mod capacity;
mod children;
pub(crate) mod fleet;
pub(crate) mod ready;

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use futures_util::future::try_join_all;

use crate::access::Access;
use crate::layout::{Layout, MASTER_NAME, PlannedNode};
use crate::probe::Prober;
use crate::provisioner::Runner;
use crate::proxy::Proxies;
use crate::registry::{self, Running, RunningNode};
use crate::server::Server;
use crate::{
    ClusterError, Deployment, Links, Provisioner, ProvisionerKind, Role, Secret, Topology, UpOptions, ports,
    sweep,
};
use children::Children;
use fleet::Fleet;
use ready::Start;

/// How many ports in a row a layout uses.
const PORTS: u16 = 3;

/// Local processes, on addresses of `127.0.0.0/8` (Linux only: elsewhere these are not configured).
///
/// Servers die with the process that started them, unless detached. They are promised to be gone after
/// [`Deployment::down`], after its drop, and after this process ended in any way.
#[derive(Debug, Default, Clone, Copy)]
pub struct Process;

#[async_trait]
impl Provisioner for Process {
    fn name(&self) -> &'static str {
        ProvisionerKind::Process.name()
    }

    async fn up(&self, topology: &Topology, options: &UpOptions) -> Result<Deployment, ClusterError> {
        topology.validate()?;
        if !cfg!(target_os = "linux") {
            bail!(
                "local processes need Linux: each has a loopback address of its own (127.0.0.11, …), which other systems do not \
                 configure, and dies with this program by a signal that they do not have; give --target for servers that run elsewhere",
            );
        }
        sweep()?;
        let server = Server::of(topology)?;
        if topology.tls && !server.has_tls() {
            return Err(missing!(
                "{} was built without TLS; give another server, or build it with BUILD_TLS=yes",
                server.path.display()
            ));
        }
        let program = server.path.clone();
        let env = options.env.clone();
        let settings = ProvisionerSettings {
            kind: ProvisionerKind::Process,
            server: Some(server),
            version: None,
            image: None,
            runner: Box::new(|record| Ok(Box::new(Children::new(program, env, record)))),
        };
        bring_up(topology, options, settings).await
    }
}

pub(crate) struct ProvisionerSettings<'a> {
    pub(crate) kind: ProvisionerKind,
    /// The binary that this machine will run, if it does.
    pub(crate) server: Option<Server>,
    /// The server's version, where another binary told it before; the first node is asked if nobody knows.
    pub(crate) version: Option<String>,
    pub(crate) image: Option<String>,
    pub(crate) runner: MakeRunner<'a>,
}

type MakeRunner<'a> = Box<dyn FnOnce(&Running) -> Result<Box<dyn Runner>, ClusterError> + Send + 'a>;

/// Starts the servers of a valid topology and waits until they are ready.
pub(crate) async fn bring_up(
    topology: &Topology,
    options: &UpOptions,
    settings: ProvisionerSettings<'_>,
) -> Result<Deployment, ClusterError> {
    if options.detach && options.links == Links::Proxied {
        bail!(
            "a detached deployment cannot have proxied links: the proxies live in the process that ends; \
             use direct links, or stay attached",
        );
    }
    let dir =
        std::path::absolute(&options.dir).map_err(|error| failed!("{}: {error}", options.dir.display()))?;
    let access = Access::of(topology);
    let plan = |port, data: &Path| Layout::plan(topology, options.links, port, &dir, data, &access);
    let listens = |port| plan(port, &dir).listen_addresses();
    // How many there are and who talks to whom does not depend on the port.
    capacity::ensure(&plan(1, &dir).nodes, options.links)?;
    let ports = ports::reserve(options.port, PORTS, listens)?;
    let data = data_dir(options, &dir, ports.port);
    let layout = plan(ports.port, &data);
    for node in &layout.nodes {
        node.dial.check()?;
    }
    let server = settings.server;
    let version = server.as_ref().map(|server| server.version.clone()).or(settings.version);
    let id = registry::new_id(topology.kind);
    let record = Running {
        id: id.clone(),
        topology: topology.kind,
        provisioner: settings.kind,
        image: settings.image,
        url: layout.shown_url.clone(),
        server_version: version.clone().unwrap_or_default(),
        server,
        modules: Vec::new(),
        tls: topology.tls,
        owner: registry::this_process()?,
        detached: options.detach,
        started_unix_ms: registry::since_1970().as_millis() as u64,
        dir: dir.clone(),
        data,
        nodes: layout.nodes.iter().map(listed).collect(),
        pid_namespace: registry::pid_namespace(),
    };
    let sources = layout.nodes.iter().map(|node| (node.address.ip(), node.name.clone()));
    let proxies = Proxies::open(options, &layout.nodes, topology.kind, sources.collect()).await?;
    let runner = (settings.runner)(&record)?;
    // From here on the fleet ends its servers when an error or a dropped call leaves this function.
    let table = proxies.as_ref().map(|proxies| proxies.table.clone());
    let mut fleet = Fleet::new(runner, layout.nodes.clone(), record, table)?;
    if let Some(tls) = &layout.tls {
        let addresses: BTreeSet<IpAddr> = layout.listen_addresses().iter().map(SocketAddr::ip).collect();
        tls.make(&Vec::from_iter(addresses))?;
    }
    let start = Start::new(&fleet, options.ready_timeout * (fleet.nodes.len() as u32).div_ceil(64));
    start_all(&fleet, topology, start).await?;
    let version = match version {
        Some(version) => version,
        None => start.version().await?,
    };
    let modules = match fleet.system {
        Some(_) => Vec::new(),
        None => ready::modules(&fleet.nodes[0]).await,
    };
    fleet.update_record(|record| {
        record.server_version = version.clone();
        record.modules = modules;
    })?;
    fleet.is_detached = options.detach;
    Ok(Deployment {
        topology: topology.clone(),
        id,
        url: Secret::new(layout.url),
        shown_url: layout.shown_url,
        dir,
        nodes: layout.nodes.iter().map(|node| (**node).clone()).collect(),
        server_version: version,
        prober: Prober::new(MASTER_NAME, "locklab:", None),
        fleet,
        proxies,
        _ports: Some(ports),
    })
}

fn listed(node: &PlannedNode) -> RunningNode {
    RunningNode { name: node.name.clone(), role: node.role, address: node.address, process: None }
}

/// `nodes` below the run's directory, or one in memory, whose name is free since the port is reserved.
fn data_dir(options: &UpOptions, dir: &Path, port: u16) -> PathBuf {
    let memory = Path::new("/dev/shm");
    if options.in_memory && nix::unistd::access(memory, nix::unistd::AccessFlags::W_OK).is_ok() {
        memory.join(format!("locklab-{}-{port}", std::process::id()))
    } else {
        dir.join("nodes")
    }
}

/// Masters, replicas, sentinels, each after those that it depends on: a replica without a master tries again
/// a second later, a sentinel without a replica half a second later.
async fn start_all(fleet: &Fleet, topology: &Topology, start: Start<'_>) -> Result<(), ClusterError> {
    let of_role = |role| fleet.nodes.iter().filter(move |node| node.role == role);
    if fleet.system.is_some() {
        // None of them serves before a majority is there.
        for node in &fleet.nodes {
            fleet.spawn(&node.name).await?;
        }
        try_join_all(fleet.nodes.iter().map(|node| start.wait_until_ready(node))).await?;
    } else if topology.kind == crate::TopologyKind::Cluster {
        try_join_all(fleet.nodes.iter().map(|node| start.start_server(node))).await?;
    } else {
        for role in [Role::Master, Role::Replica] {
            try_join_all(of_role(role).map(|node| start.start_server(node))).await?;
        }
        if topology.replicas > 0 {
            let counted = |master| start.wait_for_replicas(master, topology.replicas);
            try_join_all(of_role(Role::Master).map(counted)).await?;
        }
        try_join_all(of_role(Role::Sentinel).map(|node| start.start_server(node))).await?;
    }
    start.wait_until_settled(topology).await
}
