//! Runs many plans, several at a time: each in a directory of its own, each client of its lock a process of
//! its own.
//!
//! One scenario that is judged is a batch of one. What is done with the outcomes, which arrive as the runs
//! end, is up to the caller.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use bench::abilities::Abilities;
use bench::exec::ExecSubject;
use bench::live::Running;
use bench::subject::Subject;
use bench::subjects::Mixed;
use cluster_config::{Provisioner, provisioner_of};
use futures_util::{Stream, StreamExt as _};
use results::history_file;
use tokio::sync::watch;

use crate::audit::fitted;
use crate::faults::engine::Engine;
use crate::planning::kept_plan::{self, PLAN_FILE};
use crate::planning::plan::Plan;
use crate::run::{RunError, RunOptions, ScenarioRun, run_scenario};
use crate::scenario::Scenario;

/// A plan and the lock that it is for.
#[derive(Clone)]
pub struct PlannedRun {
    /// What is run.
    pub plan: Plan,
    /// The lock, each of whose clients is a process.
    pub subject: Arc<dyn Subject>,
}

impl PlannedRun {
    /// Plans a scenario for one seed, for the lock that it names.
    pub fn of_scenario(scenario: &Scenario, seed: u64) -> Result<Self, RunError> {
        let wrong = |why: String| RunError::Input(format!("{}: {why}", scenario.name));
        let name = &scenario.lock.subject;
        let found = bench::subjects::find(name).map_err(|error| wrong(error.to_string()))?;
        let fitting = fitted(scenario, name, &Abilities::assumed(found.kinds())).map_err(wrong)?;
        Ok(Self { subject: in_processes(found)?, plan: Plan::new(&fitting, seed) })
    }

    /// A plan as it was kept, for the lock that it names.
    pub fn of_plan(plan: Plan) -> Result<Self, RunError> {
        let found = bench::subjects::find(&plan.lock.subject)
            .map_err(|error| RunError::Input(format!("{}: {error}", plan.name)))?;
        Ok(Self { subject: in_processes(found)?, plan })
    }
}

/// The same lock with each client a process of its own, which a fault can stop and kill as anybody's. A lock
/// of this program is served by this program: it is started again as `PROGRAM driver NAME`.
pub fn in_processes(subject: Arc<dyn Subject>) -> Result<Arc<dyn Subject>, RunError> {
    if let Some(why) = subject.missing() {
        return Err(RunError::Missing(why.to_owned()));
    }
    if subject.program().is_some() {
        return Ok(subject);
    }
    if !subject.parts().is_empty() {
        let parts = subject.parts().iter().cloned().map(in_processes);
        let mixed = Mixed::new(parts.collect::<Result<_, _>>()?);
        return Ok(Arc::new(mixed.map_err(|error| RunError::Input(error.to_string()))?));
    }
    let command = vec![this_program()?, "driver".to_owned(), subject.name().to_owned()];
    Ok(Arc::new(ExecSubject::for_subject(subject.as_ref(), command)))
}

pub(crate) fn this_program() -> Result<String, RunError> {
    let program = std::env::current_exe().map_err(|error| {
        RunError::Missing(format!("{error} It says where this program is, which each client runs"))
    })?;
    Ok(program.to_string_lossy().into_owned())
}

/// How the runs of a batch are made.
#[derive(Clone)]
pub struct BatchOptions {
    /// How many run at a time.
    pub jobs: usize,
    /// Somebody's own servers; `None`: each run starts its own.
    pub external: Option<Arc<dyn Provisioner>>,
    /// Who carries faults out besides the harness.
    pub engine: Option<Arc<dyn Engine>>,
    /// What could not end by then is not begun; `None`: everything is run.
    pub until: Option<Instant>,
    /// A history of more bytes is kept compressed.
    pub plain_history_max_bytes: u64,
    /// True ends all runs in good order.
    pub cancel: watch::Receiver<bool>,
}

impl BatchOptions {
    /// So many at a time, each on servers of its own.
    pub fn new(jobs: usize, cancel: watch::Receiver<bool>) -> Self {
        Self {
            jobs,
            external: None,
            engine: None,
            until: None,
            plain_history_max_bytes: history_file::PLAIN_MAX_BYTES,
            cancel,
        }
    }
}

/// How one plan of a batch ended.
#[derive(Debug)]
pub struct PlanOutcome {
    /// Its place in the batch.
    pub index: usize,
    /// Its directory, below the batch's.
    pub dir: String,
    /// What was run.
    pub plan: Plan,
    /// What came of it.
    pub result: Result<ScenarioRun, RunError>,
}

/// Runs plans, each in its directory below `root`, and gives each outcome when it is known.
///
/// # Errors
/// A plan whose servers cannot be started by this build; then nothing was started.
pub fn run_each(
    planned: Vec<(String, PlannedRun)>,
    options: &BatchOptions,
    root: &Path,
) -> Result<impl Stream<Item = PlanOutcome> + use<>, RunError> {
    let (runs, until) = (planned.into_iter().enumerate(), options.until);
    let runs = runs.map(|(index, (dir, planned))| {
        let options = run_options(root.join(&dir), &planned, options)?;
        let plan = planned.plan.clone();
        let run = async move {
            kept_plan::seal(&options.dir.join(PLAN_FILE), &planned.plan.to_json());
            let _running = Running::new(&planned.plan.name);
            run_scenario(&planned.plan, &options).await
        };
        // A task of its own: judging one history must not stop the clock of the scenarios that run beside it.
        Ok(async move {
            let lasts = plan.load.does.duration.0;
            if until.is_some_and(|until| Instant::now() + lasts >= until) {
                return None;
            }
            let result = tokio::spawn(run).await.unwrap_or_else(|error| {
                let words = error.try_into_panic().ok();
                let words = words.and_then(|words| words.downcast::<String>().ok());
                let words = words.map_or_else(String::new, |words| format!(": {words}"));
                Err(RunError::Other(format!("it ended in a panic{words}")))
            });
            Some(PlanOutcome { index, dir, plan, result })
        })
    });
    let runs = runs.collect::<Result<Vec<_>, RunError>>()?;
    let running = futures_util::stream::iter(runs).buffer_unordered(options.jobs);
    Ok(running.filter_map(std::future::ready))
}

pub(crate) fn run_options(
    dir: PathBuf,
    planned: &PlannedRun,
    options: &BatchOptions,
) -> Result<RunOptions, RunError> {
    let provisioner = match &options.external {
        Some(external) => external.clone(),
        None => {
            provisioner_of(&planned.plan.topology).map_err(|error| RunError::Missing(error.to_string()))?
        }
    };
    Ok(RunOptions {
        engine: options.engine.clone(),
        cancel: options.cancel.clone(),
        plain_history_max_bytes: options.plain_history_max_bytes,
        ..RunOptions::new(dir, planned.subject.clone(), provisioner)
    })
}
