//! Runs a plan: servers, clients, load and faults, and then judges what was recorded.
//!
//! | file | what it is for |
//! |---|---|
//! | `recorded.rs` | the running part: clients, load and faults, all recorded |
//! | `clients.rs`, `client_sizes.rs` | the client processes, and what they take |
//! | `nemesis.rs`, `resolve.rs` | the faults at their times, and the nodes behind a role |
//! | `tracker.rs`, `probe.rs` | who holds now; how long the servers were down |
//! | `knee.rs` | measures a rate that is given as a share of the knee |
//! | `shared_clients.rs` | several harnesses run the clients of one scenario |
//! | `stalls.rs` | when the harness itself stood still |
//! | `run_judgement.rs`, `hand_offs.rs` | the verdicts; hand-offs between libraries |

pub(crate) mod client_sizes;
pub(crate) mod clients;
mod hand_offs;
mod knee;
pub(crate) mod nemesis;
pub(crate) mod probe;
mod recorded;
pub(crate) mod resolve;
mod run_judgement;
pub mod shared_clients;
mod stalls;
pub(crate) mod tracker;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bench::parts::GeneratorShare;
use bench::subject::{Subject, SubjectError};
use cluster_config::{
    ClusterError, Deployment, Links, Provisioner, ProvisionerKind, Server, Topology, UpOptions,
};
use futures_util::future::BoxFuture;
use results::history_file;
use results::run::ScenarioResult;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::watch;

use crate::faults::engine::Engine;
use crate::faults::process::stress;
use crate::planning::plan::Plan;
use crate::scenario::{self, FaultSpec, upgrade_servers};
use crate::servers::shim::Shims;
use knee::settled;
pub use recorded::load;
use recorded::{Recorded, record};
pub use run_judgement::check_options;
use run_judgement::{judged, nothing};
use shared_clients::PartBarrier;

/// What a run needs besides its plan.
#[derive(Clone)]
pub struct RunOptions {
    /// Directory for the plan, the history, logs and the servers' data; made if missing, and without an
    /// earlier history in it.
    pub dir: PathBuf,
    /// The lock under test; each of its clients must be a process of its own, or faults on clients have
    /// nothing to stop.
    pub subject: Arc<dyn Subject>,
    /// How servers are started.
    pub provisioner: Arc<dyn Provisioner>,
    /// Who carries faults out that it takes, in place of the harness; `None`: nobody.
    pub engine: Option<Arc<dyn Engine>>,
    /// This run is one of several that make the plan together; `None`: it makes all of it.
    pub together: Option<PartBarrier>,
    /// True ends the run in good order: faults are healed, servers stopped, and what was recorded is kept and
    /// judged.
    pub cancel: watch::Receiver<bool>,
    /// A history of more bytes is compressed once it was judged.
    pub plain_history_max_bytes: u64,
}

impl RunOptions {
    /// Not to be cancelled.
    pub fn new(
        dir: impl Into<PathBuf>,
        subject: Arc<dyn Subject>,
        provisioner: Arc<dyn Provisioner>,
    ) -> Self {
        Self {
            dir: dir.into(),
            subject,
            provisioner,
            engine: None,
            together: None,
            // A receiver outlives its sender, and then never changes.
            cancel: watch::channel(false).1,
            plain_history_max_bytes: history_file::PLAIN_MAX_BYTES,
        }
    }

    fn share(&self) -> GeneratorShare {
        let together = self.together.as_ref();
        together.map_or(GeneratorShare::WHOLE, |together| together.share)
    }
}

/// Why a run came to nothing. What was recorded until then stays in its directory.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RunError {
    /// A server, a package or an engine is missing, or no server answered (exit 69).
    #[error("{0}")]
    Missing(String),
    /// What was asked cannot be meant (exit 64).
    #[error("{0}")]
    Usage(String),
    /// The user has to change an input (exit 65).
    #[error("{0}")]
    Input(String),
    /// The lock has nothing to lock with there, by its own word: nothing was tried, and nothing went wrong.
    #[error("{0}")]
    NotApplicable(String),
    /// Something else, which the user cannot change (exit 70).
    #[error("{0}")]
    Other(String),
}

impl RunError {
    pub(crate) fn io(what: &str, path: &Path, error: &std::io::Error) -> Self {
        Self::Other(format!("cannot {what} {}: {error}", path.display()))
    }

    /// The same error, with the plan's name before it.
    pub(crate) fn of_plan(self, plan: &Plan) -> Self {
        let named = |why: String| format!("{}: {why}", plan.name);
        match self {
            Self::Missing(why) => Self::Missing(named(why)),
            Self::Usage(why) => Self::Usage(named(why)),
            Self::Input(why) => Self::Input(named(why)),
            Self::NotApplicable(why) => Self::NotApplicable(named(why)),
            Self::Other(why) => Self::Other(named(why)),
        }
    }
}

impl From<SubjectError> for RunError {
    fn from(error: SubjectError) -> Self {
        match error {
            SubjectError::Usage(why) | SubjectError::Refused(why) => Self::Usage(why),
            SubjectError::Unreachable(why) => Self::Missing(why),
            SubjectError::NotApplicable(why) => Self::NotApplicable(why),
        }
    }
}

/// How a run came out.
#[derive(Debug, Clone)]
pub struct ScenarioRun {
    /// What is kept of it.
    pub result: ScenarioResult,
    /// It was cancelled: the result is what was recorded until then, and unknown.
    pub partial: bool,
    /// What is to be said at once and not only in a report: clients that ended by themselves or did not
    /// answer.
    pub warnings: Vec<String>,
}

/// Runs a plan and judges what it recorded.
///
/// `plan.json` is written before anything starts. Whatever happens later, servers and clients are ended, and
/// nothing that was recorded is lost. A cancelled run is judged too, and is unknown.
///
/// # Errors
/// Servers or clients that could not be started, and files that could not be written.
pub async fn run_scenario(plan: &Plan, options: &RunOptions) -> Result<ScenarioRun, RunError> {
    match carried_out(plan, options).await? {
        None => Ok(nothing(plan)),
        Some((plan, recorded)) => blocking(|| {
            judged(&plan, &options.dir, options.subject.as_ref(), options.plain_history_max_bytes, recorded)
        }),
    }
}

/// Does what keeps a thread for seconds, as a proof does, or a disk that is busy. Other runs of this process
/// go on meanwhile: without this their tasks and connections would stand still with that thread.
fn blocking<T>(work: impl FnOnce() -> T) -> T {
    match Handle::current().runtime_flavor() {
        RuntimeFlavor::MultiThread => tokio::task::block_in_place(work),
        _ => work(),
    }
}

/// Carries a plan out: what was recorded, and the plan with its rate settled. `None`: cancelled before
/// anything was recorded.
///
/// Boxed, so that it is compiled in this crate and not where it is awaited.
fn carried_out<'a>(
    plan: &'a Plan,
    options: &'a RunOptions,
) -> BoxFuture<'a, Result<Option<(Plan, Recorded)>, RunError>> {
    Box::pin(carry_out(plan, options))
}

async fn carry_out(plan: &Plan, options: &RunOptions) -> Result<Option<(Plan, Recorded)>, RunError> {
    let dir = &options.dir;
    fs::create_dir_all(dir).map_err(|error| RunError::io("make", dir, &error))?;
    let plan_path = dir.join("plan.json");
    fs::write(&plan_path, plan.to_json()).map_err(|error| RunError::io("write", &plan_path, &error))?;
    let mut cancel = options.cancel.clone();

    let own = without_taken(plan, options);
    if let Some(why) = server_missing(upgrade_servers(&plan.faults)).or_else(|| stress::missing(&own)) {
        return Err(RunError::Missing(why));
    }
    let mut up = UpOptions::new(dir);
    up.in_memory = true;
    if own.needs_proxies() {
        up.links = Links::Proxied;
    }
    let shims = shims(&own, options)?;
    if let Some(shims) = &shims {
        up.env = nodes(plan).map(|node| (node.clone(), shims.env(&node))).collect();
        // A program in Go asks the kernel and not the C library.
        if plan.topology.kind.system_name() == Some("etcd") {
            for env in up.env.values_mut() {
                env.push(("LOCKLAB_SHIM_CALLS".to_owned(), "1".to_owned()));
            }
        }
    }
    let deployment = tokio::select! {
        // Dropping a start under way ends the servers that it has started.
        () = cancelled(&mut cancel) => return Ok(None),
        deployment = options.provisioner.up(&plan.topology, &up) => deployment.map_err(|error| match error {
            ClusterError::Missing(why) => RunError::Missing(why),
            ClusterError::Setting { message, .. } => RunError::Input(message),
            other => RunError::Other(other.to_string()),
        })?,
    };
    let deployment = Arc::new(deployment);
    let first = deployment.nodes().first().map(|node| node.name.as_str());
    let served = deployment.serves(first.unwrap_or_default()).await;
    let served = served.unwrap_or_default();
    let running = async {
        if let Some(why) = server_lacks(plan, &deployment).await {
            return Err(RunError::NotApplicable(why));
        }
        let settled = settled(plan, options, &deployment, &mut cancel).await?;
        let recorded = record(&settled.plan, options, &deployment, shims, &mut cancel).await?;
        Ok((settled, recorded))
    };
    let ended: Result<_, RunError> = running.await;
    let stopped = match Arc::into_inner(deployment) {
        Some(deployment) => deployment.down().await.map_err(|error| error.to_string()),
        // Its drop ends the servers as soon as the last user is gone.
        None => Err("the servers were still in use at the end".to_owned()),
    };
    let (settled, mut recorded) = ended?;
    recorded.server = served;
    recorded.notes.extend(settled.note);
    recorded.incomplete.extend(settled.failed);
    if let Err(why) = stopped {
        recorded.notes.push(format!("servers were not stopped in order: {why}"));
    }
    Ok(Some((settled.plan, recorded)))
}

/// The plan as far as the harness itself carries it out.
fn without_taken(plan: &Plan, options: &RunOptions) -> Plan {
    let mut own = plan.clone();
    if let Some(engine) = &options.engine {
        own.faults.retain(|fault| !engine.takes(fault));
    }
    own
}

/// Which server of those that a scenario names is not on this machine, and how to get it: its own, and what
/// its nodes are upgraded to. That there is any server of Redis at all is not asked.
pub fn missing_server(topology: &Topology, faults: &[FaultSpec]) -> Option<String> {
    let process = topology.provisioner == ProvisionerKind::Process;
    if !topology.kind.is_redis() {
        return Server::of(topology).err().filter(|_| process).map(|error| error.to_string());
    }
    let own = process && topology.server != Topology::of(topology.kind).server;
    let own = own.then_some(topology.server.as_str());
    server_missing(own.into_iter().chain(upgrade_servers(faults)))
}

fn server_missing<'a>(names: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let mut errors = names.into_iter().filter_map(|name| Server::find(name).err());
    errors.next().map(|error| error.to_string())
}

async fn server_lacks(plan: &Plan, deployment: &Deployment) -> Option<String> {
    let mut kinds = plan.kinds();
    let kind = kinds.find(|kind| !kind.needs_words.0.is_empty())?;
    let (words, servers) = kind.needs_words;
    let first = &deployment.nodes().first()?.name;
    let help = deployment.command(first, &["CLUSTER", "HELP"]).await.ok()?;
    let has = |word: &str| help.lines().any(|line| line.split(' ').next() == Some(word));
    if words.iter().any(|word| has(word)) {
        return None;
    }
    let here = deployment.serves(first).await.unwrap_or_default();
    Some(format!(
        "{here} has no CLUSTER {}, which `{}` needs; {servers} have (--server, `locklab list servers`)",
        words.join(" or "),
        kind.name
    ))
}

fn nodes(plan: &Plan) -> impl Iterator<Item = String> {
    let topology = &plan.topology;
    scenario::data_nodes(topology).into_iter().chain(scenario::sentinels(topology))
}

/// Control pages for all servers and clients, if a fault of the plan needs them.
fn shims(plan: &Plan, options: &RunOptions) -> Result<Option<Arc<Shims>>, RunError> {
    if !plan.needs_shim() {
        return Ok(None);
    }
    if options.provisioner.name() != "process" {
        return Err(RunError::Input(format!(
            "faults on clocks and disks need servers that run as local processes, and these run as `{}`",
            options.provisioner.name()
        )));
    }
    let shims = Shims::new(nodes(plan).chain(plan.load.client_names()));
    let shims = shims.map_err(|error| {
        RunError::Missing(format!(
            "this system has no files in memory, which faults on clocks and disks need: {error}"
        ))
    })?;
    Ok(Some(Arc::new(shims)))
}

/// Completes when the run is to end early; never if nobody can say so any more.
pub(crate) async fn cancelled(cancel: &mut watch::Receiver<bool>) {
    if cancel.wait_for(|cancel| *cancel).await.is_err() {
        std::future::pending::<()>().await;
    }
}
