//! Somebody else's servers by URL, and which scenarios may run on them.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bench::subject::{AcquireEnd, AcquireRequest, ConnectTo, Connected, ReleaseEnd};
use chaos::external::{Allowed, for_servers, not_allowed};
use chaos::faults::FAULTS;
use chaos::faults::engine::Engine;
use chaos::scenario::Scenario;
use chaos::toxiproxy::beyond_toxiproxy;
use cluster_config::{
    ClusterError, External, ExternalTarget, Handshake, Secret, SecureStream, Secured, Server,
    Topology, TopologyKind, Writer, resolve_host,
};
use lock_core::{Endpoint, Target, diagnostics::TlsHandshake};
use tokio::net::TcpStream;

use super::bench::{allow, allow_url, subject_error};
use crate::exit;
use crate::terminal::Terminal;

/// How long keys of a run are looked for on somebody else's servers, at its end.
const REMOVED_WITHIN: Duration = Duration::from_secs(20);

/// Somebody's own servers in place of those that a scenario starts.
#[derive(Debug, clap::Args)]
pub(crate) struct OwnServers {
    /// Somebody's own servers by URL: nothing there is started or ended but by the scenario's hooks; keys lie under locklab:RUN: and are removed at the end
    #[arg(long, value_name = "URL")]
    pub(crate) target: Option<String>,
    /// Servers to run everything on, one after the other, by the names of `locklab list servers`; with --all the scenarios that judge safety
    #[arg(
        long,
        value_delimiter = ',',
        conflicts_with = "target",
        value_name = "SERVER[,SERVER]"
    )]
    server: Vec<String>,
    /// The target is not on this machine and may be loaded all the same
    #[arg(long, requires = "target")]
    pub(crate) yes_this_is_mine: bool,
    /// A fault that the target's owner allows where it is not on this machine
    #[arg(long, value_delimiter = ',', requires = "target", value_name = "FAULT[,FAULT]", value_parser = allowable)]
    pub(crate) allow: Vec<String>,
}

/// A server of `--server`.
#[derive(Debug, Clone)]
pub(crate) struct OnServer {
    /// As it was asked for.
    pub(crate) asked: String,
    /// Flavour and version.
    pub(crate) name: String,
}

impl OwnServers {
    /// Whether servers were named to run everything on.
    pub(crate) fn names_servers(&self) -> bool {
        !self.server.is_empty()
    }

    /// Refuses scenarios side by side on servers that are there once.
    pub(crate) fn one_by_one(&self, jobs: u32) -> anyhow::Result<()> {
        match self.target.is_some() && jobs > 1 {
            false => Ok(()),
            true => Err(exit::usage(
                "--jobs with --target: scenarios side by side would break each other's servers; run them one after the other",
            )),
        }
    }

    /// What everything is to be run on: each server once; `None` alone: on what each scenario says.
    pub(crate) fn matrix(&self) -> anyhow::Result<Vec<Option<OnServer>>> {
        let mut all: Vec<Option<OnServer>> = Vec::new();
        for asked in &self.server {
            let name = Server::find(asked).map_err(exit::missing)?.name();
            if !all.iter().flatten().any(|other| other.name == name) {
                let asked = asked.clone();
                all.push(Some(OnServer { asked, name }));
            }
        }
        if all.is_empty() {
            all.push(None);
        }
        Ok(all)
    }
}

/// A fault that `--allow` may name.
pub(crate) fn allowable(text: &str) -> Result<String, String> {
    // By command, on servers beyond this machine, needs their owner's word.
    let by_command = FAULTS.iter().filter(|kind| kind.by_command);
    let names: Vec<&str> = by_command.map(|kind| kind.name).collect();
    if names.contains(&text) {
        return Ok(text.to_owned());
    }
    Err(format!(
        "`{text}` is nothing that can be allowed; {} can{}",
        names.join(", "),
        results::nearest::nearest(text, names.iter().copied())
    ))
}

/// The harness trusts servers as the locks do.
#[derive(Debug)]
struct OverTls(TlsHandshake);

#[async_trait]
impl Handshake for OverTls {
    async fn connect(&self, host: &str, stream: TcpStream) -> io::Result<Box<dyn SecureStream>> {
        Ok(Box::new(self.0.connect(host, stream).await?))
    }

    fn any_address(&self) -> bool {
        self.0.any_address()
    }
}

/// Finds the servers behind a URL. `mine`: they may be touched although they are not on this machine.
pub(crate) async fn external(url: &str, mine: bool) -> anyhow::Result<External> {
    if let Some(system) = bench::subjects::system_of(url) {
        allow_url(url, mine)?;
        return of_system(system, url, mine).await;
    }
    let target = crate::args::target(url)?;
    allow(&target, mine)?;
    if let Some(Endpoint::Unix(path)) = target.endpoints().first() {
        return Err(exit::usage(format!(
            "{}: faults need servers with addresses; `bench --target` takes sockets",
            path.display()
        )));
    }
    found(url, &target, mine).await
}

/// The same for servers of another system. One lock on them is taken and given back to see whether they serve.
async fn of_system(system: &str, url: &str, mine: bool) -> anyhow::Result<External> {
    let kind = kind_of_system(system, url)?;
    let subject = bench::subjects::of_system(system)[0];
    let subject = bench::subjects::find(subject).map_err(|why| subject_error(&why))?;
    let to = ConnectTo::new(url, "harness", 0, "none");
    let connected = subject.connect(&to).await;
    let connected = connected.map_err(|why| subject_error(&why))?;
    let mut addresses = Vec::new();
    for address in bench::subjects::addresses(url) {
        addresses.push(resolve_host(&address).await.map_err(exit::missing)?);
    }
    let described = ExternalTarget {
        kind,
        addresses,
        socket: None,
        master_name: String::new(),
        tls: None,
        user: None,
        password: None,
        database: 0,
        writer: Some(Arc::new(ByLock(connected))),
    };
    let shown = results::secrets::redact(url);
    External::find(described, (url.to_owned(), shown), mine)
        .await
        .map_err(exit::usage)
}

/// The shape of a system's servers by the number of addresses in their URL.
fn kind_of_system(system: &str, url: &str) -> anyhow::Result<TopologyKind> {
    let named = bench::subjects::addresses(url).len();
    let of_system = |kind: &TopologyKind| kind.system_name() == Some(system);
    let kinds = TopologyKind::ALL.into_iter().filter(of_system);
    let counts: Vec<_> = kinds
        .map(|kind| (kind, Topology::of(kind).data_nodes() as usize))
        .collect();
    let found = counts.iter().find(|(_, count)| *count == named);
    found.map(|(kind, _)| *kind).ok_or_else(|| {
        let counts = counts.iter().map(|(_, count)| count.to_string());
        exit::usage(format!(
            "{}: the URL names {named} servers; scenarios on {system} take {}",
            results::secrets::redact(url),
            counts.collect::<Vec<_>>().join(" or ")
        ))
    })
}

/// Writes by a lock, which is what the servers are asked for anyway, and which the run's end takes away.
struct ByLock(Connected);

impl fmt::Debug for ByLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ByLock").finish_non_exhaustive()
    }
}

#[async_trait]
impl Writer for ByLock {
    async fn writes(&self, name: &str, timeout: Duration) -> bool {
        let one_try = AcquireRequest {
            lock: name,
            others: &[],
            kind: "",
            owner: "harness",
            reenters: false,
            wait: Some(Duration::ZERO),
            lease: Some(timeout),
            permits: None,
            cancel: None,
        };
        let client = &self.0.client;
        let written = async {
            match client.acquire(one_try).await {
                AcquireEnd::Ok { grant, .. } => client.release(&grant).await == ReleaseEnd::Ok,
                // What an earlier try left behind: to see it the servers were asked as well.
                end => end == AcquireEnd::Busy,
            }
        };
        let written = tokio::time::timeout(timeout, written).await;
        written.unwrap_or(false)
    }
}

/// The same for a target that is known to be allowed; a socket too.
async fn found(url: &str, target: &Target, mine: bool) -> anyhow::Result<External> {
    let tls = TlsHandshake::of(target).map_err(|why| exit::usage(format!("{target}: {why}")))?;
    let mut addresses = Vec::new();
    let mut socket = None;
    for endpoint in target.endpoints() {
        addresses.push(match endpoint {
            Endpoint::Unix(path) => {
                socket = Some(path.clone());
                // Nobody dials it.
                SocketAddr::from(([127, 0, 0, 1], 0))
            }
            _ => {
                let address = resolve_host(&endpoint.to_string()).await;
                address.map_err(exit::missing)?
            }
        });
    }
    let described = ExternalTarget {
        kind: kind_of(target),
        addresses,
        socket,
        master_name: target.master_name().unwrap_or_default().to_owned(),
        tls: tls.map(|tls| Secured(Arc::new(OverTls(tls)))),
        user: target.username().map(str::to_owned),
        password: target.password().map(Secret::new),
        database: target.database(),
        writer: None,
    };
    External::find(described, (url.to_owned(), target.to_string()), mine)
        .await
        .map_err(|error| match error {
            ClusterError::Missing(_) => exit::missing(error),
            _ => exit::usage(error),
        })
}

fn kind_of(target: &Target) -> TopologyKind {
    match target.topology_kind() {
        lock_core::TopologyKind::Sentinel => TopologyKind::Sentinel,
        lock_core::TopologyKind::Cluster => TopologyKind::Cluster,
        lock_core::TopologyKind::Masters => TopologyKind::Masters,
        lock_core::TopologyKind::Single => TopologyKind::Single,
    }
}

/// Removes what a run made on somebody else's servers; what stays there is said.
pub(crate) async fn remove_keys(external: &External, prefix: &str, terminal: &Terminal) {
    let removed = match external.topology().kind.is_redis() {
        true => {
            let removed = external.for_run(prefix).remove_keys(REMOVED_WITHIN).await;
            removed.map(Some).map_err(anyhow::Error::from)
        }
        false => {
            let removed = bench::subjects::remove_keys(external.url(), prefix).await;
            removed.map(|()| None).map_err(anyhow::Error::from)
        }
    };
    match removed {
        Ok(Some(removed)) => terminal.detail(&format!("{removed} keys of {prefix}* were removed")),
        Ok(None) => {}
        Err(why) => terminal.warn(&format!(
            "keys of this run may have stayed on the target (remove {prefix}* and what contains it): {why}"
        )),
    }
}

/// The same for a run that found the servers by itself.
pub(crate) async fn remove_keys_at(url: &str, mine: bool, prefix: &str, terminal: &Terminal) {
    let external = async {
        let target = crate::args::target(url)?;
        found(url, &target, mine).await
    };
    match external.await {
        Ok(external) => remove_keys(&external, prefix, terminal).await,
        Err(why) => terminal.warn(&format!(
            "keys of this run may have stayed on the target (remove {prefix}* and what contains it): {why:#}"
        )),
    }
}

/// What is known of somebody else's servers when a scenario is read for them.
pub(crate) struct Servers {
    /// What they are; `None` where they were not asked: then they are taken for what the scenario wants.
    topology: Option<Topology>,
    kind: TopologyKind,
    loopback: bool,
    named_by_address: bool,
    /// Who carries faults out there besides the harness.
    engine: Option<Arc<dyn Engine>>,
}

impl Servers {
    /// The same, with somebody who carries faults out.
    pub(crate) fn with_engine(self, engine: Option<Arc<dyn Engine>>) -> Self {
        Self { engine, ..self }
    }

    /// Their shape, as their URL says.
    #[cfg(feature = "kube")]
    pub(crate) fn kind(&self) -> TopologyKind {
        self.kind
    }

    /// As they were found.
    pub(crate) fn of(external: &External) -> Self {
        Servers {
            topology: Some(external.topology().clone()),
            kind: external.topology().kind,
            loopback: external.is_loopback(),
            named_by_address: external.is_named_by_address(),
            engine: None,
        }
    }

    /// As far as their URL says, without asking them.
    pub(crate) fn unasked(url: &str, mine: bool) -> anyhow::Result<Self> {
        if let Some(system) = bench::subjects::system_of(url) {
            allow_url(url, mine)?;
            return Ok(Servers {
                topology: None,
                kind: kind_of_system(system, url)?,
                loopback: bench::subjects::is_loopback(url),
                named_by_address: false,
                engine: None,
            });
        }
        let target = crate::args::target(url)?;
        allow(&target, mine)?;
        let tls = TlsHandshake::of(&target).map_err(exit::usage)?;
        Ok(Servers {
            topology: None,
            kind: kind_of(&target),
            loopback: target.is_loopback(),
            named_by_address: tls.is_some_and(|tls| !tls.any_address()),
            engine: None,
        })
    }

    /// Faults of a scenario that these servers' owner has not allowed, with their lines.
    pub(crate) fn not_allowed(
        &self,
        (file, text): (&str, &str),
        scenario: &Scenario,
        allowed: &[String],
    ) -> Option<String> {
        let wrong = not_allowed(scenario, self.loopback, allowed);
        (!wrong.is_empty()).then(|| complaints((file, text), wrong))
    }
}

/// The scenario on these servers, or everything that cannot be done to them, with the lines of the faults.
pub(crate) fn on_target(
    source: (&str, &str),
    scenario: Scenario,
    servers: &Servers,
    allowed: &[String],
) -> Result<Scenario, String> {
    let topology = match &servers.topology {
        Some(topology) => topology.clone(),
        None if scenario.topology.kind == servers.kind => scenario.topology.clone(),
        None => Topology::of(servers.kind),
    };
    let allowed = Allowed {
        topology: &topology,
        loopback: servers.loopback,
        named_by_address: servers.named_by_address,
        faults: allowed,
        engine: servers.engine.as_deref(),
    };
    for_servers(scenario, &allowed).map_err(|wrong| complaints(source, wrong))
}

/// What is wrong with faults, with their lines; without a number with all that are drawn.
pub(crate) fn complaints(
    (file, text): (&str, &str),
    wrong: impl IntoIterator<Item = (impl Into<Option<usize>>, String)>,
) -> String {
    let complaints = wrong.into_iter().map(|(index, why)| {
        let line = match index.into() {
            Some(index) => line_of(text, "[[faults]]", index),
            None => line_of(text, "[random]", 0),
        };
        format!("{file}:{line}:1: {why}")
    });
    complaints.collect::<Vec<_>>().join("\n")
}

/// The scenario as it is, or everything in it that a Toxiproxy server cannot do, with the lines of the faults.
pub(crate) fn over_toxiproxy(source: (&str, &str), scenario: Scenario) -> Result<Scenario, String> {
    let wrong = beyond_toxiproxy(&scenario);
    match wrong.is_empty() {
        true => Ok(scenario),
        false => Err(complaints(source, wrong)),
    }
}

/// The line, from 1, at which the table of this heading and index begins.
fn line_of(text: &str, heading: &str, index: usize) -> usize {
    let mut begins = text
        .lines()
        .enumerate()
        .filter(|(_, line)| line.trim_start().starts_with(heading));
    begins.nth(index).map_or(1, |(line, _)| line + 1)
}
