//! Runs a plan: servers, clients, load and faults, and then judges what was recorded.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bench::recorded::{Load, LoadRun, Protects};
use bench::sink::{HistorySink, Sink};
use bench::subject::{Subject, SubjectError};
use cluster_config::{ClusterError, Deployment, Links, Provisioner, UpOptions, isolation};
use results::history_file::{self, HistoryFileError};
use results::history_writer::HistoryWriter;
use results::intervals::Intervals;
use results::over_time::OverTime;
use results::run::{FaultSpan, ScenarioResult};
use results::store::HISTORY_FILE;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::checkers::{CheckOptions, Floors, check};
use crate::clients::Clients;
use crate::faults::{self, World};
use crate::nemesis::{Nemesis, Scene};
use crate::outcome::{UNKNOWN, judge};
use crate::plan::Plan;
use crate::scenario::{self, Length, On, When, Who};
use crate::shim::Shims;
use crate::tracker::Tracker;
use crate::{probe, proof};

/// After the heal, servers have so long to take writes again before the run goes on without them.
const SETTLE_WITHIN: Duration = Duration::from_secs(5);

/// What a run needs besides its plan.
pub struct RunOptions {
    /// Directory for the plan, the history, logs and the servers' data; made if missing, and without an earlier history in it.
    pub dir: PathBuf,
    /// The lock under test; each of its clients must be a process of its own, or faults on clients have nothing to stop.
    pub subject: Arc<dyn Subject>,
    /// How servers are started.
    pub provisioner: Arc<dyn Provisioner>,
    /// The API of a Toxiproxy server that does the harm to links; `None`: the embedded proxies do. A plan whose faults it cannot do
    /// ([`beyond_toxiproxy`](crate::toxiproxy::beyond_toxiproxy)) comes out unknown.
    pub toxiproxy: Option<SocketAddr>,
    /// Told what happens while it happens.
    pub progress: Arc<dyn Fn(Progress<'_>) + Send + Sync>,
    /// True ends the run in good order: faults are healed, servers stopped, and what was recorded is kept and judged.
    pub cancel: watch::Receiver<bool>,
    /// Share of a lease that is left to clock drift, 0.0 to 1.0.
    pub drift: f64,
    /// A history of more bytes is compressed once it was judged.
    pub plain_history_max_bytes: u64,
}

impl RunOptions {
    /// Silent, not to be cancelled, and with the default drift of 1 %.
    pub fn new(
        dir: impl Into<PathBuf>,
        subject: Arc<dyn Subject>,
        provisioner: Arc<dyn Provisioner>,
    ) -> Self {
        Self {
            dir: dir.into(),
            subject,
            provisioner,
            toxiproxy: None,
            progress: Arc::new(|_| {}),
            // A receiver outlives its sender, and then never changes.
            cancel: watch::channel(false).1,
            drift: CheckOptions::default().drift,
            plain_history_max_bytes: history_file::PLAIN_MAX_BYTES,
        }
    }
}

impl std::fmt::Debug for RunOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunOptions")
            .field("dir", &self.dir)
            .field("subject", &self.subject.name())
            .finish_non_exhaustive()
    }
}

/// What is going on.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Progress<'a> {
    /// Servers are being started.
    Starting,
    /// Clients are being connected.
    Connecting,
    /// The load has begun.
    Load {
        /// How long it will last.
        duration: Duration,
    },
    /// A fault is being injected.
    Injected {
        /// Its kind.
        fault: &'a str,
        /// On whom.
        targets: &'a [String],
    },
    /// A fault was healed.
    Healed {
        /// Its kind.
        fault: &'a str,
        /// On whom.
        targets: &'a [String],
    },
    /// The load has ended: everything is healed, clients and servers are stopped.
    Ending,
    /// The history is being judged.
    Judging,
}

/// Why a run came to nothing. What was recorded until then stays in its directory.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RunError {
    /// A server, a package or an engine is missing, or no server answered (exit 69).
    #[error("{0}")]
    Missing(String),
    /// The user has to change an input (exit 65).
    #[error("{0}")]
    Input(String),
    /// Something else, which the user cannot change (exit 70).
    #[error("{0}")]
    Other(String),
}

impl RunError {
    fn io(what: &str, path: &Path, error: &std::io::Error) -> Self {
        Self::Other(format!("cannot {what} {}: {error}", path.display()))
    }
}

/// How a run came out.
#[derive(Debug, Clone)]
pub struct ScenarioRun {
    /// What is kept of it.
    pub result: ScenarioResult,
    /// It was cancelled: the result is what was recorded until then, and unknown.
    pub partial: bool,
    /// What is to be said at once and not only in a report: clients that ended by themselves or did not answer.
    pub warnings: Vec<String>,
}

/// Runs a plan and judges what it recorded.
///
/// `plan.json` is written before anything starts. Whatever happens later, servers and clients are ended, and nothing that was
/// recorded is lost. A cancelled run is judged too, and is unknown.
///
/// # Errors
/// Servers or clients that could not be started, and files that could not be written.
pub async fn run_scenario(plan: &Plan, options: &RunOptions) -> Result<ScenarioRun, RunError> {
    let dir = &options.dir;
    fs::create_dir_all(dir).map_err(|error| RunError::io("make", dir, &error))?;
    let plan_path = dir.join("plan.json");
    fs::write(&plan_path, plan.to_json())
        .map_err(|error| RunError::io("write", &plan_path, &error))?;
    let mut cancel = options.cancel.clone();

    (options.progress)(Progress::Starting);
    let mut up = UpOptions::new(dir);
    up.in_memory = true;
    up.toxiproxy = options.toxiproxy;
    if plan.needs_proxies() && !by_packets_alone(plan) {
        up.links = Links::Proxied;
    }
    let shims = shims(plan, options)?;
    if let Some(shims) = &shims {
        up.env = nodes(plan)
            .map(|node| (node.clone(), shims.env(&node)))
            .collect();
    }
    let deployment = tokio::select! {
        // Dropping a start under way ends the servers that it has started.
        () = cancelled(&mut cancel) => return Ok(nothing(plan)),
        deployment = options.provisioner.up(&plan.topology, &up) => deployment.map_err(|error| match error {
            ClusterError::Missing(why) => RunError::Missing(why),
            other => RunError::Other(other.to_string()),
        })?,
    };
    let deployment = Arc::new(deployment);
    let recorded = record(plan, options, &deployment, shims, &mut cancel).await;
    let stopped = match Arc::into_inner(deployment) {
        Some(deployment) => deployment.down().await.map_err(|error| error.to_string()),
        // Its drop ends the servers as soon as the last user is gone.
        None => Err("the servers were still in use at the end".to_owned()),
    };
    let mut recorded = recorded?;
    if let Err(why) = stopped {
        recorded
            .notes
            .push(format!("servers were not stopped in order: {why}"));
    }
    (options.progress)(Progress::Judging);
    judged(plan, options, recorded)
}

/// Whether every harm to links is a cut between servers, in a network of its own: then no proxy is needed.
fn by_packets_alone(plan: &Plan) -> bool {
    let on_links = plan
        .faults
        .iter()
        .filter_map(|fault| Some((fault, faults::find(&fault.fault)?)))
        .filter(|(_, kind)| kind.hits.link());
    let is_client = Who::is_client;
    let watched = |when: &When| matches!(when, When::OnMessage(_));
    let servers = |on: &On| match on {
        On::Parties(_) => false,
        On::Link { from, to, .. } => !from.iter().chain(to).any(is_client),
        On::Groups(groups) => !groups.iter().flatten().any(is_client),
    };
    isolation().is_some_and(|isolation| isolation.cuts_packets)
        && !plan.faults.iter().any(|fault| watched(&fault.when))
        && on_links
            .into_iter()
            .all(|(fault, kind)| kind.by_packets && servers(&fault.on))
}

fn nodes(plan: &Plan) -> impl Iterator<Item = String> {
    let topology = &plan.topology;
    scenario::data_nodes(topology)
        .into_iter()
        .chain(scenario::sentinels(topology))
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
    let clients = plan.load.clients.iter().map(|client| client.name.clone());
    match Shims::new(nodes(plan).chain(clients)) {
        Ok(shims) => Ok(Some(Arc::new(shims))),
        Err(error) => Err(RunError::Missing(format!(
            "this system has no files in memory, which faults on clocks and disks need: {error}"
        ))),
    }
}

/// What a run leaves behind for the judges.
struct Recorded {
    faults: Vec<FaultSpan>,
    load: Duration,
    notes: Vec<String>,
    unanswered: Vec<String>,
    /// How long grants took from the moment at which they were due, where cycles begin on a schedule.
    responses: Vec<(u64, u64, u64)>,
    /// Why the history may be incomplete.
    incomplete: Vec<String>,
    partial: bool,
}

async fn record(
    plan: &Plan,
    options: &RunOptions,
    deployment: &Arc<Deployment>,
    shims: Option<Arc<Shims>>,
    cancel: &mut watch::Receiver<bool>,
) -> Result<Recorded, RunError> {
    let path = options.dir.join(HISTORY_FILE);
    let writer =
        HistoryWriter::create(&path).map_err(|error| RunError::io("begin", &path, &error))?;
    let tracker = Arc::new(Tracker::new(HistorySink::new(writer)));
    let sink: Arc<dyn Sink> = tracker.clone();
    let load = LoadRun::new(load(plan), sink.clone());
    let clients = Arc::new(Clients::new(
        plan,
        options.subject.clone(),
        deployment.clone(),
        load.clone(),
        tracker.clone(),
        options.dir.join("logs"),
        shims.clone(),
    ));
    (options.progress)(Progress::Connecting);
    let connected = tokio::select! {
        () = cancelled(cancel) => None,
        connected = clients.connect() => Some(connected.map_err(|error| match error {
            SubjectError::Unreachable(why) => RunError::Missing(why),
            SubjectError::Usage(why) => RunError::Input(why),
        })?),
    };
    let Some(connected) = connected else {
        return Ok(Recorded {
            faults: Vec::new(),
            load: Duration::ZERO,
            notes: Vec::new(),
            unanswered: Vec::new(),
            responses: Vec::new(),
            incomplete: Vec::new(),
            partial: true,
        });
    };

    let mut notes = Vec::new();
    if let (true, Some(first)) = (
        options.subject.name().starts_with("exec:"),
        connected.first(),
    ) {
        let own = format!(
            "{}:pipe",
            plan.load.locks.first().map_or("", String::as_str)
        );
        let cost = bench::exec::pipe_cost(first.client.as_ref(), &own).await;
        notes.extend(cost.map(|cost| cost.to_string()));
    }

    let world = Arc::new(World {
        deployment: deployment.clone(),
        clients: clients.clone(),
        locks: plan.load.locks.clone(),
        shims,
    });
    let end = watch::Sender::new(false);
    let over = watch::Sender::new(0);
    let lock = plan.load.locks.first().cloned().unwrap_or_default();
    let scene = Scene {
        world,
        sink: sink.clone(),
        grants: load.grants(),
        end: end.subscribe(),
        lock: lock.clone(),
        over: over.clone(),
        hooks: Arc::new(plan.hooks.clone()),
        healing: watch::Sender::default(),
        progress: options.progress.clone(),
    };
    let mut nemesis = Nemesis::new(&plan.faults, scene);
    let probe_end = watch::Sender::new(false);
    let probe = tokio::spawn(probe::watch(
        deployment.clone(),
        sink.clone(),
        plan.load.locks.clone(),
        probe_end.subscribe(),
    ));

    tokio::select! {
        () = nemesis.before_load() => {}
        // What was injected by then is undone like any other.
        () = cancelled(cancel) => {}
    }
    let began = Instant::now();
    let duration = plan.load.does.duration.0;
    (options.progress)(Progress::Load { duration });
    clients.start(connected);
    nemesis.start(began);
    let partial = tokio::select! {
        () = tokio::time::sleep_until(began + duration) => false,
        () = enough(plan, over.subscribe(), load.grants()) => false,
        () = cancelled(cancel) => true,
    };
    let lasted = began.elapsed();

    (options.progress)(Progress::Ending);
    load.stop();
    end.send_replace(true);
    let faults = nemesis.finish().await;
    // Who was killed for good may leave nobody to take a write: that is not waited for.
    let for_good = faults.iter().any(|fault| fault.healed_ns.is_none());
    if let Some(isolation) = isolation() {
        notes.push(format!("in a network of its own: {}", isolation.note));
    }
    if let Some(toxiproxy) = deployment.toxiproxy() {
        notes.push(format!("links pass Toxiproxy {toxiproxy}"));
    }
    if !partial && !for_good && !probe::settled(deployment, &lock, SETTLE_WITHIN).await {
        notes.push(format!(
            "the servers took no write within {SETTLE_WITHIN:?} after everything was healed"
        ));
    }
    let finished = clients.finish().await;
    probe_end.send_replace(true);
    let _ = probe.await;
    notes.extend(finished.unanswered.iter().cloned());
    let mut incomplete = finished.incomplete;
    if let Err(why) = tracker.finish() {
        incomplete.push(why);
    }
    Ok(Recorded {
        faults,
        load: lasted,
        notes,
        unanswered: finished.unanswered,
        responses: load.responses(),
        incomplete,
        partial,
    })
}

/// Completes when the load may end before its time: see [`scenario::Load::enough`].
async fn enough(plan: &Plan, mut over: watch::Receiver<usize>, mut grants: watch::Receiver<u64>) {
    /// What was granted last is held for a while, so that an overlap has a length.
    const AFTERMATH: Duration = Duration::from_millis(500);
    if let Some(wanted) = plan.load.does.enough {
        let faults = plan.faults.len();
        if over.wait_for(|over| *over >= faults).await.is_ok() {
            let enough = *grants.borrow() + u64::from(wanted);
            if grants.wait_for(|grants| *grants >= enough).await.is_ok() {
                return tokio::time::sleep(AFTERMATH).await;
            }
        }
    }
    std::future::pending().await
}

/// Completes when the run is to end early; never if nobody can say so any more.
async fn cancelled(cancel: &mut watch::Receiver<bool>) {
    if cancel.wait_for(|cancel| *cancel).await.is_err() {
        std::future::pending::<()>().await;
    }
}

fn load(plan: &Plan) -> Load {
    let does = &plan.load.does;
    let range = |range: scenario::Range| {
        let bounds = (range.min_ns, range.max_ns);
        (
            Duration::from_nanos(bounds.0),
            Duration::from_nanos(bounds.1),
        )
    };
    let length = |length: Option<Length>| length.map(|length| length.0);
    Load {
        locks: plan.load.locks.clone(),
        mix: does.mix.clone().into_iter().collect(),
        lease: length(plan.lock.lease),
        wait: Some(plan.lock.wait.0),
        hold: range(does.hold),
        think: range(does.think),
        extend: length(does.extend),
        reenter: does.reenter,
        downgrade: length(does.downgrade),
        protects: match does.protects {
            scenario::Protects::None => Protects::None,
            scenario::Protects::Counter => Protects::Counter,
            scenario::Protects::Register => Protects::Register,
        },
        permits: plan.lock.permits,
        workload: does.workload(),
        tasks: plan
            .load
            .clients
            .iter()
            .map(|client| client.task_seeds.len() as u32)
            .sum(),
        together: does.workload().asks.fewest_locks().max(2),
        pace: does.rate.as_ref().and_then(|rate| rate.parse().ok()),
        seed: plan.seed,
    }
}

/// The result of a plan before anything was recorded.
fn empty(plan: &Plan) -> ScenarioResult {
    ScenarioResult {
        name: plan.name.clone(),
        topology: plan.topology.kind.name().to_owned(),
        subject: plan.lock.subject.clone(),
        kind: plan
            .load
            .does
            .mix
            .keys()
            .map(String::as_str)
            .collect::<Vec<_>>()
            .join(", "),
        seed: plan.seed,
        expected: plan.expect.clone(),
        exit_code: UNKNOWN,
        about: plan.about.clone(),
        claim: plan.claim.clone(),
        durability: plan.lock.durability.clone(),
        ..ScenarioResult::default()
    }
}

fn nothing(plan: &Plan) -> ScenarioRun {
    let mut result = empty(plan);
    result
        .notes
        .push("interrupted before anything was recorded".to_owned());
    ScenarioRun {
        result,
        partial: true,
        warnings: Vec::new(),
    }
}

fn judged(plan: &Plan, options: &RunOptions, recorded: Recorded) -> Result<ScenarioRun, RunError> {
    let path = options.dir.join(HISTORY_FILE);
    let mut result = empty(plan);
    result.faults = recorded.faults;
    result.load_ns = scenario::nanoseconds(recorded.load);
    result.notes = recorded.notes;
    let history = match history_file::read(&path) {
        Ok(kept) => kept.history,
        Err(HistoryFileError::Io { source, .. }) => {
            return Err(RunError::io("read", &path, &source));
        }
        // No line at all: interrupted, or nothing could be written.
        Err(error) => {
            result
                .notes
                .push(format!("the history is of no use: {error}"));
            let mut warnings = recorded.unanswered;
            warnings.extend(recorded.incomplete.iter().cloned());
            result.notes.extend(recorded.incomplete);
            return Ok(ScenarioRun {
                result,
                partial: recorded.partial,
                warnings,
            });
        }
    };
    let mut warnings = recorded.unanswered;
    warnings.extend(recorded.incomplete.iter().cloned());
    let mut doubts = recorded.incomplete;
    if recorded.partial {
        doubts.push("interrupted: what was recorded until then".to_owned());
    }
    result.incomplete = doubts.clone();
    let how = CheckOptions {
        floors: Some(floors(plan)),
        clients: client_names(plan),
        doubts,
        drift: options.drift,
        kinds: plan
            .load
            .does
            .mix
            .keys()
            .filter(|kind| !kind.is_empty())
            .cloned()
            .collect(),
        load: (recorded.load > Duration::ZERO).then_some(recorded.load),
        proofs: Some(&result.faults),
        ..CheckOptions::default()
    };
    let mut report = check(&history, &how);
    proof::attach(&mut report, &history, &how);
    let proofs = options.dir.join(proof::PROOF_DIR);
    proof::write(&report.verdicts, &proofs)
        .map_err(|error| RunError::io("write the proofs in", &proofs, &error))?;
    let recoveries = report.record.faults.iter().zip(&report.faults);
    let recoveries: Vec<_> = recoveries
        .map(|(fault, row)| (fault.fault.clone(), fault.injected_ns, *row))
        .collect();
    for fault in &mut result.faults {
        let own = recoveries
            .iter()
            .find(|(name, at_ns, _)| *name == fault.fault && *at_ns == fault.injected_ns);
        fault.recovery = own.map(|(_, _, row)| *row);
        fault.first_grant_after_ns = report.record.first_grant_after_ns(fault.injected_ns);
    }
    result.timeline = proof::gravest_picture(&report.verdicts);
    result.over_time = OverTime::of(&history);
    if let (Some(over), Some(last)) = (&mut result.over_time, history.lines.last())
        && let Some(responses) = Intervals::of(last.t_ns, recorded.responses)
    {
        // From when the call was due and not from when it was made: a lock that stalls keeps calls from being made.
        over.acquire = Some(responses);
    }
    result.verdicts = report.verdicts;
    result.operations = report.operations;
    result.recovery = report.recovery;
    result.notes.extend(report.notes);
    let seconds = recorded.load.as_secs_f64();
    if seconds > 0.0 {
        result.grants_per_s = report.grants as f64 / seconds;
    }
    result.exit_code = judge(&result.verdicts, &result.expected, result.load_ns);
    // A history with a hole, or one that was cut short, convicts but does not acquit, also where nothing is expected.
    if !result.incomplete.is_empty() && result.exit_code == crate::outcome::AS_EXPECTED {
        result.exit_code = UNKNOWN;
    }
    result.notes.extend(result.incomplete.iter().cloned());
    // What cannot be compressed stays as it is: it was judged, and can be judged again.
    if let Err(error) = history_file::compress_above(&path, options.plain_history_max_bytes) {
        let note = format!("{} was not compressed: {error}", path.display());
        result.notes.push(note);
    }
    result.as_expected = result.exit_code == crate::outcome::AS_EXPECTED;
    Ok(ScenarioRun {
        result,
        partial: recorded.partial,
        warnings,
    })
}

/// How much must have happened in a run of a plan: where more tasks than locks are at work, some must have met.
fn floors(plan: &Plan) -> Floors {
    let tasks: usize = plan
        .load
        .clients
        .iter()
        .map(|client| client.task_seeds.len())
        .sum();
    Floors {
        contended: u64::from(tasks > plan.load.locks.len()),
        ..Floors::default()
    }
}

fn client_names(plan: &Plan) -> Vec<String> {
    plan.load
        .clients
        .iter()
        .map(|client| client.name.clone())
        .collect()
}
