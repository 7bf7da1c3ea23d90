//! Somebody else's servers by URL: whether they may be loaded, how they are reached, and which scenarios they
//! can carry.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bench::subject::SubjectError;
use bench::subjects::system_of;
use bench::survey::survey;
use bench::target::{Endpoint, Target, TlsHandshake, parse_target};
use cluster_config::{
    ClusterError, External, ExternalTarget, Handshake, Provisioner, Secret, SecureStream, Secured, Topology,
    TopologyKind, resolve_host,
};
use tokio::net::TcpStream;

use crate::faults::engine::Engine;
use crate::run::RunError;
use crate::scenario::Scenario;
use crate::scenario::scenario_source::ScenarioSource;
use crate::servers::external::{Allowed, for_servers, not_allowed};
use crate::servers::other_system::{described_by_lock, kind_of_system};

/// How long the end of a run looks for its keys on somebody else's servers.
const REMOVED_WITHIN: Duration = Duration::from_secs(20);

fn usage(why: impl fmt::Display) -> RunError {
    RunError::Usage(why.to_string())
}

fn missing(why: impl fmt::Display) -> RunError {
    RunError::Missing(why.to_string())
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

/// Somebody's own servers.
pub struct TargetServers {
    url: String,
    mine: bool,
    /// `None`: the servers are of another system than Redis.
    target: Option<Target>,
    kind: TopologyKind,
    loopback: bool,
    named_by_address: bool,
    /// Faults by command that their owner allows.
    pub allow: Vec<String>,
    /// The servers as they answered; before they were asked, each scenario's own topology is assumed.
    found: Option<External>,
    /// The engine that carries faults out there, besides the harness.
    pub engine: Option<Arc<dyn Engine>>,
}

impl TargetServers {
    /// Servers by their URL alone, unasked. `mine`: their owner allows runs beyond this machine.
    pub fn of(url: &str, mine: bool) -> Result<Self, RunError> {
        if !mine {
            bench::consent::for_named_alone();
        }
        let system = system_of(url);
        let target = if system.is_none() { Some(parse_target(url)?) } else { None };
        let (loopback, shown) = match &target {
            Some(target) => (target.is_loopback(), target.to_string()),
            None => (bench::subjects::is_loopback(url), results::secrets::redact(url)),
        };
        if !loopback && !mine {
            return Err(usage(format!(
                "{shown} is not on this machine: add --yes-this-is-mine if you may test on it"
            )));
        }
        let (kind, named_by_address) = match &target {
            Some(target) => {
                let tls = TlsHandshake::of(target).map_err(|why| usage(format!("{target}: {why}")))?;
                let kind = match target.topology_kind() {
                    bench::target::TopologyKind::Sentinel => TopologyKind::Sentinel,
                    bench::target::TopologyKind::Cluster => TopologyKind::Cluster,
                    bench::target::TopologyKind::Masters => TopologyKind::Masters,
                    bench::target::TopologyKind::Single => TopologyKind::Single,
                };
                (kind, tls.is_some_and(|tls| !tls.any_address()))
            }
            None => (kind_of_system(system.unwrap_or_default(), url).map_err(usage)?, false),
        };
        let (url, allow, found, engine) = (url.to_owned(), Vec::new(), None, None);
        Ok(Self { url, mine, target, kind, loopback, named_by_address, allow, found, engine })
    }

    /// Refuses servers that redirect to others elsewhere, before a driver hears of them: drivers of other
    /// libraries follow every redirect. What else is wrong with them is reported by the code that uses them.
    pub async fn refuse_redirects(&self) -> Result<(), RunError> {
        match &self.target {
            Some(target) if !self.mine && self.kind.announces_addresses() => {
                let surveyed = survey(target, "", false).await.map(drop);
                surveyed.or_else(|why| match why {
                    SubjectError::Usage(_) => Err(why.into()),
                    _ => Ok(()),
                })
            }
            _ => Ok(()),
        }
    }

    /// Their URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Whether their owner allows runs beyond this machine.
    pub fn has_consent(&self) -> bool {
        self.mine
    }

    /// Whether they are Redis or Valkey.
    pub fn are_redis(&self) -> bool {
        self.target.is_some()
    }

    /// The socket that the URL names, if it names one.
    pub fn unix_socket(&self) -> Option<&Path> {
        match self.target.as_ref()?.endpoints() {
            [Endpoint::Unix(path), ..] => Some(path),
            _ => None,
        }
    }

    /// Their shape.
    pub fn kind(&self) -> TopologyKind {
        self.kind
    }

    /// Asks which servers there are; all have to answer.
    pub async fn ask(&mut self) -> Result<&External, RunError> {
        self.find(true).await
    }

    /// The same of a set of masters, some of which may be down.
    pub async fn ask_some(&mut self) -> Result<&External, RunError> {
        self.find(false).await
    }

    async fn find(&mut self, all_answer: bool) -> Result<&External, RunError> {
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
            ClusterError::Missing(_) => missing(error),
            _ => usage(error),
        })?;
        self.kind = found.topology().kind;
        self.loopback = found.is_loopback();
        self.named_by_address = found.is_named_by_address();
        Ok(self.found.insert(found))
    }

    /// These servers in place of a scenario's, for the run with this key prefix; `None` until asked.
    pub fn for_run(&self, prefix: &str) -> Option<Arc<dyn Provisioner>> {
        let found = self.found.as_ref()?;
        Some(Arc::new(found.for_run(prefix)))
    }

    /// Removes the keys of the run with this prefix; how many, where that is known.
    pub async fn remove(&mut self, prefix: &str) -> Result<Option<u64>, RunError> {
        if self.target.is_none() {
            bench::subjects::remove_keys(&self.url, prefix).await?;
            return Ok(None);
        }
        let found = match &self.found {
            Some(found) => found,
            None => self.ask().await?,
        };
        let removed = found.for_run(prefix).remove_keys(REMOVED_WITHIN).await;
        removed.map(Some).map_err(|error| RunError::Other(error.to_string()))
    }

    /// Faults on servers beyond this machine need their owner's permission, whatever the servers are.
    pub fn check_allowed(&self, sources: &[ScenarioSource]) -> Result<(), RunError> {
        let wrong = sources.iter().filter_map(|source| {
            // An unreadable scenario is reported with the other mistakes.
            let scenario = source.scenario.as_ref().ok()?;
            let wrong = not_allowed(scenario, self.loopback, &self.allow);
            (!wrong.is_empty()).then(|| source.complaints(wrong))
        });
        let wrong: Vec<String> = wrong.collect();
        if wrong.is_empty() { Ok(()) } else { Err(usage(wrong.join("\n"))) }
    }

    /// The scenario on these servers, or everything that cannot be done to them, with the lines of the
    /// faults.
    pub fn fit_scenario(&self, source: &ScenarioSource, scenario: Scenario) -> Result<Scenario, String> {
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

/// How Redis servers are reached; nobody dials servers behind a Unix socket.
async fn external_target(target: &Target, kind: TopologyKind) -> Result<ExternalTarget, RunError> {
    let tls = TlsHandshake::of(target).map_err(usage)?;
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
                address.map_err(missing)?
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
