//! Somebody else's servers by URL, and which scenarios may run on them.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bench::subjects::system_of;
use chaos::external::{Allowed, for_servers, not_allowed};
use chaos::faults::FAULTS;
use chaos::faults::engine::Engine;
use chaos::other_system::{described_by_lock, kind_of_system};
use chaos::scenario::Scenario;
use chaos::scenario_source::{MatrixServer, ScenarioSource, server_matrix};
use cluster_config::{
    ClusterError, External, ExternalTarget, Handshake, Provisioner, Secret, SecureStream, Secured, Topology,
    TopologyKind, resolve_host,
};
use lock_core::diagnostics::{ServerReport, TlsHandshake};
use lock_core::{Client, ClientOptions, Endpoint, Target};
use tokio::net::TcpStream;

use crate::args::{TargetConsent, connect_failure, not_dialled};
use crate::exit;
use crate::terminal::Terminal;

/// How long the end of a run looks for its keys on somebody else's servers.
const REMOVED_WITHIN: Duration = Duration::from_secs(20);

pub(super) const SERVERS: &str = "Servers";

/// Somebody's own servers in place of those that a scenario starts.
#[derive(Debug, clap::Args)]
pub(crate) struct OwnServers {
    /// Your own servers by URL: nothing there is started or ended but by the scenario's hooks; keys lie under
    /// locklab:RUN: and are removed at the end
    #[arg(hide_short_help = true, help_heading = SERVERS, long, value_name = "URL", value_parser = crate::args::target_url)]
    pub(crate) target: Option<String>,
    #[command(flatten, next_help_heading = SERVERS)]
    mine: TargetConsent,
    /// A fault by command that you allow on a target that is not on this machine
    #[arg(hide_short_help = true, help_heading = SERVERS, long, value_delimiter = ',', requires = "target", value_name = "FAULT[,FAULT]", value_parser = fault_to_allow)]
    allow: Vec<String>,
    /// Run everything on each of these servers, one after the other (`locklab list servers`)
    #[arg(help_heading = SERVERS, long, value_delimiter = ',', conflicts_with = "target", value_name = "SERVER[,SERVER]")]
    pub(crate) server: Vec<String>,
}

impl OwnServers {
    /// What the target's URL says of its servers, without asking them; `None`: each scenario starts its own.
    pub(crate) fn servers(&self) -> anyhow::Result<Option<Servers>> {
        let Some(url) = &self.target else {
            return Ok(None);
        };
        let servers = Servers::of(url, self.mine.yes_this_is_mine)?;
        let endpoints = servers.target.as_ref().map(Target::endpoints);
        if let Some([Endpoint::Unix(path), ..]) = endpoints {
            return Err(exit::usage(format!(
                "{}: faults need servers with addresses; `bench --target` takes sockets",
                path.display()
            )));
        }
        let allow = self.allow.clone();
        Ok(Some(Servers { allow, ..servers }))
    }

    /// Refuses to run scenarios side by side on one target.
    pub(crate) fn check_jobs(&self, jobs: u32) -> anyhow::Result<()> {
        match self.target.is_some() && jobs > 1 {
            false => Ok(()),
            true => Err(exit::usage(
                "--jobs with --target: scenarios side by side would break each other's servers; run them one after the other",
            )),
        }
    }

    /// What everything is to be run on.
    pub(crate) fn matrix(&self) -> anyhow::Result<Vec<Option<MatrixServer>>> {
        server_matrix(&self.server).map_err(exit::missing)
    }
}

pub(crate) fn fault_to_allow(text: &str) -> Result<String, String> {
    // A fault by command on servers beyond this machine needs their owner's consent.
    let by_command = FAULTS.iter().filter(|kind| kind.by_command);
    let names: Vec<&str> = by_command.map(|kind| kind.name).collect();
    if names.contains(&text) {
        return Ok(text.to_owned());
    }
    Err(format!(
        "`{text}` is nothing that can be allowed; {} can{}",
        names.join(", "),
        results::spelling::nearest(text, names.iter().copied())
    ))
}

/// The harness's own TLS connections: they trust the certificates that the locks trust.
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

/// Load on servers beyond this machine needs their owner's permission.
pub(crate) fn require_consent(url: &str, mine: bool) -> anyhow::Result<()> {
    Servers::of(url, mine).map(drop)
}

pub(crate) struct Servers {
    url: String,
    mine: bool,
    /// `None`: the servers are of another system than Redis.
    target: Option<Target>,
    kind: TopologyKind,
    loopback: bool,
    named_by_address: bool,
    allow: Vec<String>,
    /// The servers as they answered; before they were asked, each scenario's own topology is assumed.
    found: Option<External>,
    /// The engine that carries faults out there, besides the harness.
    pub(crate) engine: Option<Arc<dyn Engine>>,
}

impl Servers {
    /// Servers by their URL alone, unasked. `mine`: their owner allows runs beyond this machine.
    pub(crate) fn of(url: &str, mine: bool) -> anyhow::Result<Self> {
        let servers = |target, kind, loopback, named_by_address| Servers {
            url: url.to_owned(),
            mine,
            target,
            kind,
            loopback,
            named_by_address,
            allow: Vec::new(),
            found: None,
            engine: None,
        };
        let allowed = |loopback: bool, shown: &dyn fmt::Display| match loopback || mine {
            true => Ok(()),
            false => Err(exit::usage(format!(
                "{shown} is not on this machine: add --yes-this-is-mine if you may test on it"
            ))),
        };
        if !mine {
            bench::consent::for_named_alone();
        }
        if let Some(system) = system_of(url) {
            let loopback = bench::subjects::is_loopback(url);
            allowed(loopback, &results::secrets::redact(url))?;
            return Ok(servers(None, kind_of_system(system, url).map_err(exit::usage)?, loopback, false));
        }
        let target = crate::args::target(url)?;
        let loopback = target.is_loopback();
        allowed(loopback, &target)?;
        let tls = TlsHandshake::of(&target);
        let tls = tls.map_err(|why| exit::usage(format!("{target}: {why}")))?;
        let by_address = tls.is_some_and(|tls| !tls.any_address());
        let kind = match target.topology_kind() {
            lock_core::TopologyKind::Sentinel => TopologyKind::Sentinel,
            lock_core::TopologyKind::Cluster => TopologyKind::Cluster,
            lock_core::TopologyKind::Masters => TopologyKind::Masters,
            lock_core::TopologyKind::Single => TopologyKind::Single,
        };
        Ok(servers(Some(target), kind, loopback, by_address))
    }

    /// Refuses servers that redirect to others elsewhere, before a driver hears of them: drivers of other
    /// libraries follow every redirect. What else is wrong with them is reported by the code that uses them.
    pub(crate) async fn refuse_redirects(&self) -> anyhow::Result<()> {
        match &self.target {
            Some(target) if !self.mine && self.kind.announces_addresses() => {
                let surveyed = survey(target, false).await.map(drop);
                surveyed.or_else(|why| match exit::code_of(&why) {
                    exit::USAGE => Err(why),
                    _ => Ok(()),
                })
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn has_consent(&self) -> bool {
        self.mine
    }

    pub(crate) fn are_redis(&self) -> bool {
        self.target.is_some()
    }

    #[cfg(feature = "kube")]
    pub(crate) fn kind(&self) -> TopologyKind {
        self.kind
    }

    pub(crate) async fn ask(&mut self) -> anyhow::Result<&External> {
        self.find(true).await
    }

    /// The same of a set of masters, some of which may be down.
    pub(crate) async fn ask_some(&mut self) -> anyhow::Result<&External> {
        self.find(false).await
    }

    async fn find(&mut self, all_answer: bool) -> anyhow::Result<&External> {
        let (described, shown) = match &self.target {
            Some(target) => (external_target(target, self.kind).await?, target.to_string()),
            None => {
                let described = described_by_lock(&self.url, self.kind).await?;
                (described, results::secrets::redact(&self.url))
            }
        };
        let urls = (self.url.clone(), shown);
        let found = match all_answer {
            true => External::find(described, urls, self.mine).await,
            false => External::find_some(described, urls, self.mine).await,
        };
        let found = found.map_err(|error| match error {
            ClusterError::Missing(_) => exit::missing(error),
            _ => exit::usage(error),
        })?;
        self.kind = found.topology().kind;
        self.loopback = found.is_loopback();
        self.named_by_address = found.is_named_by_address();
        Ok(self.found.insert(found))
    }

    /// These servers in place of a scenario's, for the run with this key prefix; `None` until asked.
    pub(crate) fn for_run(&self, prefix: &str) -> Option<Arc<dyn Provisioner>> {
        let found = self.found.as_ref()?;
        Some(Arc::new(found.for_run(prefix)))
    }

    pub(crate) async fn remove(&mut self, prefix: &str, terminal: &Terminal) -> anyhow::Result<()> {
        if self.target.is_none() {
            return Ok(bench::subjects::remove_keys(&self.url, prefix).await?);
        }
        let found = match &self.found {
            Some(found) => found,
            None => self.ask().await?,
        };
        let removed = found.for_run(prefix).remove_keys(REMOVED_WITHIN).await?;
        terminal.detail(&format!("{removed} keys of {prefix}* were removed"));
        Ok(())
    }

    /// As `remove`; a failure becomes a warning that names what may remain.
    pub(crate) async fn remove_keys(&mut self, prefix: &str, terminal: &Terminal) {
        if let Err(why) = self.remove(prefix, terminal).await {
            terminal.warn(&format!(
                "keys of this run may have stayed on the target (remove {prefix}* and what contains it): {why:#}"
            ));
        }
    }

    /// Faults on servers beyond this machine need their owner's permission, whatever the servers are.
    pub(crate) fn check_allowed(&self, sources: &[ScenarioSource]) -> anyhow::Result<()> {
        let wrong = sources.iter().filter_map(|source| {
            // An unreadable scenario is reported with the other mistakes.
            let scenario = source.scenario.as_ref().ok()?;
            let wrong = not_allowed(scenario, self.loopback, &self.allow);
            (!wrong.is_empty()).then(|| source.complaints(wrong))
        });
        let wrong: Vec<String> = wrong.collect();
        match wrong.is_empty() {
            true => Ok(()),
            false => Err(exit::usage(wrong.join("\n"))),
        }
    }

    /// The scenario on these servers, or everything that cannot be done to them, with the lines of the
    /// faults.
    pub(crate) fn fit_scenario(
        &self,
        source: &ScenarioSource,
        scenario: Scenario,
    ) -> Result<Scenario, String> {
        let topology = match &self.found {
            Some(found) => found.topology().clone(),
            None if scenario.topology.kind == self.kind => scenario.topology.clone(),
            None => Topology::of(self.kind),
        };
        let allowed = Allowed {
            topology: &topology,
            loopback: self.loopback,
            named_by_address: self.named_by_address,
            faults: &self.allow,
            engine: self.engine.as_deref(),
        };
        for_servers(scenario, &allowed).map_err(|wrong| source.complaints(wrong))
    }
}

/// Every master's report. Beyond this machine only masters that the target names are asked, unless `mine`.
pub(crate) async fn survey(target: &Target, mine: bool) -> anyhow::Result<Vec<ServerReport>> {
    let options = ClientOptions::default().only_named_addresses(!mine);
    let client = Client::connect(target, options).await.map_err(connect_failure)?;
    let reports = client.survey().await;
    client.close().await;
    let silences = reports.iter().filter_map(|report| report.silence.as_deref());
    match silences.into_iter().find_map(not_dialled) {
        Some(far) => Err(exit::usage(format!("{target} leads elsewhere: {far}"))),
        None => Ok(reports),
    }
}

/// How Redis servers are reached; nobody dials servers behind a Unix socket.
async fn external_target(target: &Target, kind: TopologyKind) -> anyhow::Result<ExternalTarget> {
    let tls = TlsHandshake::of(target).map_err(exit::usage)?;
    let mut addresses = Vec::new();
    let mut socket = None;
    for endpoint in target.endpoints() {
        addresses.push(match endpoint {
            Endpoint::Unix(path) => {
                socket = Some(path.clone());
                SocketAddr::from(([127, 0, 0, 1], 0))
            }
            _ => {
                let address = resolve_host(&endpoint.to_string()).await;
                address.map_err(exit::missing)?
            }
        });
    }
    Ok(ExternalTarget {
        kind,
        addresses,
        socket,
        master_name: target.master_name().unwrap_or_default().to_owned(),
        tls: tls.map(|tls| Secured(Arc::new(OverTls(tls)))),
        user: target.username().map(str::to_owned),
        password: target.password().map(Secret::new),
        sentinel_user: target.sentinel_user().map(str::to_owned),
        sentinel_password: target.sentinel_password().map(Secret::new),
        database: target.database(),
        writer: None,
    })
}
