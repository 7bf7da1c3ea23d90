//! The running part of a run: clients are connected, the load and the faults go on side by side, and
//! everything is recorded.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bench::recorded::{Load, LoadRun, Protects};
use bench::sink::{HistorySink, Sink};
use bench::subject::SubjectError;
use cluster_config::Deployment;
use results::history_writer::HistoryWriter;
use results::open_loop::OpenLoopCall;
use results::run::FaultSpan;
use results::store::HISTORY_FILE;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::Instant;

use super::stalls::Stalls;
use super::{RunError, RunOptions, cancelled, shared_clients};
use crate::faults::FaultWorld;
use crate::planning::plan::Plan;
use crate::run::client_sizes;
use crate::run::clients::Clients;
use crate::run::nemesis::{Nemesis, NemesisContext};
use crate::run::probe;
use crate::run::tracker::Tracker;
use crate::scenario::{self, Length};
use crate::servers::names::Names;
use crate::servers::replica_lag::ReplicaLagSampler;
use crate::servers::shim::Shims;

/// After the heal, servers have so long to take writes again before the run goes on without them.
const SETTLE_WITHIN: Duration = Duration::from_secs(5);

/// Where the harnesses of one plan meet: before the first call, and after the last heal.
const BEGIN: u64 = 1;
const END: u64 = 2;

#[derive(Default, Serialize, Deserialize)]
pub(super) struct Recorded {
    pub(super) faults: Vec<FaultSpan>,
    pub(super) load: Duration,
    /// Which server it was, by its own word; empty where it says nothing.
    pub(super) server: String,
    pub(super) grants: u64,
    pub(super) notes: Vec<String>,
    pub(super) unanswered: Vec<String>,
    /// How long callers waited from the moment at which they were due, where cycles begin on a schedule.
    #[serde(skip)]
    pub(super) waits: Vec<OpenLoopCall>,
    /// What was measured of the clients, where bounds of it are expected.
    pub(super) figures: BTreeMap<String, f64>,
    /// When a replica was found so many seconds behind.
    pub(super) lags: Vec<(u64, f64)>,
    pub(super) given_up: u64,
    pub(super) incomplete: Vec<String>,
    pub(super) partial: bool,
    /// Several harnesses had a share of the clients.
    #[serde(skip)]
    pub(super) shared: bool,
    #[serde(skip)]
    pub(super) unheard: Vec<String>,
}

pub(super) async fn record(
    plan: &Plan,
    options: &RunOptions,
    deployment: &Arc<Deployment>,
    shims: Option<Arc<Shims>>,
    cancel: &mut watch::Receiver<bool>,
) -> Result<Recorded, RunError> {
    let path = options.dir.join(HISTORY_FILE);
    let writer = HistoryWriter::create(&path).map_err(|error| RunError::io("begin", &path, &error))?;
    let tracker = Arc::new(Tracker::new(HistorySink::new(writer)));
    let sink: Arc<dyn Sink> = tracker.clone();
    if let (true, Ok(links)) = (plan.needs_roles(), deployment.links()) {
        links.label_by(tracker.clone());
    }
    let share = options.share();
    let mut load = load(plan);
    load.share = share;
    if share.of > 1 {
        // What a harness keeps in its memory protects nothing from the clients of another.
        load.protects = Protects::None;
    }
    let load = LoadRun::new(load, sink.clone());
    let clock_end = watch::Sender::new(false);
    let clock = options.together.as_ref().map(|together| {
        let (reference, tracker) = (together.reference.clone(), tracker.clone());
        tokio::spawn(shared_clients::watch_clock(reference, tracker, clock_end.subscribe()))
    });
    let names = names(plan, options, deployment).await?;
    let clients = Arc::new(Clients::new(
        plan,
        options.subject.clone(),
        deployment.clone(),
        load.clone(),
        tracker.clone(),
        options.dir.join("logs"),
        shims.clone(),
        names.clone(),
        share,
    ));
    let connected = tokio::select! {
        () = cancelled(cancel) => return Ok(Recorded {
            partial: true,
            ..Recorded::default()
        }),
        connected = clients.connect() => connected.map_err(why_unconnected)?,
    };
    let lock = plan.load.locks.first().cloned().unwrap_or_default();
    let mut notes = Vec::new();
    if let (true, Some(first)) = (options.subject.program().is_some(), connected.first()) {
        let cost = bench::exec::pipe_cost(first.client.as_ref(), &format!("{lock}:pipe")).await;
        notes.extend(cost.map(|cost| cost.to_string()));
    }

    let world = Arc::new(FaultWorld {
        deployment: deployment.clone(),
        clients: clients.clone(),
        locks: plan.load.locks.clone(),
        shims,
        names,
    });
    let end = watch::Sender::new(false);
    let over = watch::Sender::new(0);
    let scene = NemesisContext {
        world,
        sink: sink.clone(),
        grants: load.grants(),
        end: end.subscribe(),
        lock: lock.clone(),
        over: over.clone(),
        engine: options.engine.clone(),
        hooks: Arc::new(plan.hooks.clone()),
        share,
        harmed: watch::Sender::default(),
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
    if let Some(together) = &options.together {
        tokio::select! {
            met = together.barrier.meet(BEGIN) => {
                met.map_err(|error| RunError::Missing(error.to_string()))?;
            }
            () = cancelled(cancel) => {}
        }
    }
    let began = Instant::now();
    let duration = plan.load.does.duration.0;
    let stalls = Stalls::watch(sink.clone(), clients.clone());
    clients.start(connected);
    nemesis.start(began);
    let sizes_end = watch::Sender::new(false);
    let sizes = client_sizes::are_expected(plan).then(|| {
        let (deployment, end) = (deployment.clone(), sizes_end.subscribe());
        tokio::spawn(client_sizes::watch(deployment, clients.clone(), end))
    });
    // One harness asks for all.
    let lag = (share.index == 0).then(|| ReplicaLagSampler::of_deployment(deployment));
    let mut lag = lag.unwrap_or_default();
    let partial = tokio::select! {
        () = tokio::time::sleep_until(began + duration) => false,
        () = enough(plan, over.subscribe(), load.grants()) => false,
        () = cancelled(cancel) => true,
        never = lag.sample() => never,
    };
    let lasted = began.elapsed();

    let figures = match sizes {
        Some(sizes) => {
            sizes_end.send_replace(true);
            sizes.await.unwrap_or_default()
        }
        None => BTreeMap::new(),
    };
    load.stop();
    end.send_replace(true);
    let faults = nemesis.finish().await;
    // Who was killed for good may leave nobody to take a write: that is not waited for.
    let for_good = faults.iter().any(|fault| fault.healed_ns.is_none());
    if !partial && !for_good && !probe::settled(deployment, &lock, SETTLE_WITHIN).await {
        notes.push(format!("the servers took no write within {SETTLE_WITHIN:?} after everything was healed"));
    }
    let mut incomplete = Vec::new();
    if let Some(together) = &options.together
        && !partial
    {
        // Who waits gets its answer from servers that are healed, by whichever part.
        incomplete.extend(together.barrier.meet(END).await.err().map(|why| why.to_string()));
    }
    let finished = clients.finish().await;
    probe_end.send_replace(true);
    let _ = probe.await;
    notes.extend(finished.unanswered.iter().cloned());
    notes.extend(stalls.finish());
    notes.extend(finished.strays);
    incomplete.extend(finished.incomplete);
    clock_end.send_replace(true);
    if let Some(clock) = clock {
        let _ = clock.await;
    }
    if let Err(why) = super::blocking(|| tracker.history.finish()) {
        incomplete.push(why);
    }
    Ok(Recorded {
        faults,
        load: lasted,
        grants: *load.grants().borrow(),
        notes,
        unanswered: finished.unanswered,
        waits: load.waits(),
        lags: lag.lags.into_iter().map(|(at, lag_s)| (sink.ns(at), lag_s)).collect(),
        given_up: load.given_up(),
        figures,
        incomplete,
        partial,
        ..Recorded::default()
    })
}

fn why_unconnected(error: SubjectError) -> RunError {
    match error {
        SubjectError::Unreachable(why) => RunError::Missing(why),
        SubjectError::Usage(why) | SubjectError::Refused(why) => RunError::Input(why),
        SubjectError::NotApplicable(why) => RunError::NotApplicable(why),
    }
}

/// Names for all servers, if a fault of the plan needs them.
async fn names(
    plan: &Plan,
    options: &RunOptions,
    deployment: &Deployment,
) -> Result<Option<Arc<Names>>, RunError> {
    if !plan.needs_names() {
        return Ok(None);
    }
    let made = match options.provisioner.name() {
        "process" => Names::new(deployment, &options.dir).await,
        other => Err(format!(
            "faults on names need servers that run as local processes, and these run as `{other}`"
        )),
    };
    made.map(|names| Some(Arc::new(names))).map_err(RunError::NotApplicable)
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

/// What the clients of a plan do.
pub fn load(plan: &Plan) -> Load {
    let does = &plan.load.does;
    let range = |range: scenario::Range| [range.min_ns, range.max_ns].map(Duration::from_nanos).into();
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
        cancel: (does.cancel, does.duration.0 / 2),
        owner_moves: does.owner_moves,
        short_leases: does.short_leases,
        release_again: does.release_again,
        owners: does.owners,
        downgrade: length(does.downgrade),
        protects: does.protects,
        permits: plan.lock.permits,
        workload: does.workload(),
        tasks: plan.load.tasks() as u32,
        share: bench::parts::GeneratorShare::WHOLE,
        together: does.workload().asks.fewest_locks().max(2),
        pace: plan.load.pace(),
        seed: plan.seed,
        by_name: false,
    }
}
