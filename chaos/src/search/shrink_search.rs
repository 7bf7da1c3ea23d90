//! Looks for the smallest plan that still convicts: runs what [`Shrinker`] proposes, and writes what was
//! found.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use results::store::RunStore;
use results::verdict::State;
use serde::Serialize;
use tokio::sync::watch;

use crate::batch::{BatchOptions, PlannedRun, run_options};
use crate::planning::kept_plan::{KeptPlan, of_run, seal};
use crate::planning::plan::Plan;
use crate::run::{RunError, run_scenario};
use crate::scenario::scenario_text;
use crate::search::shrink::Shrinker;

/// The verdicts that a plan is shrunk for if nothing else is said, the gravest first.
pub const GRAVEST_FIRST: [&str; 5] = ["contract", "confirmed", "effect", "liveness", "belief"];

/// Runs smaller and smaller plans, each in a directory below `dir` that is removed after it.
pub struct SmallestPlanSearch {
    /// Where the runs are made.
    pub dir: PathBuf,
    /// The verdict that must go on being violated.
    pub class: String,
    /// True ends the search with what was found.
    pub cancel: watch::Receiver<bool>,
}

impl SmallestPlanSearch {
    /// The search at its end, after so many tries at most, or then; `None`: the plan itself did not convict
    /// this time. `tell` hears a line of each try.
    pub async fn run(
        &self,
        plan: &Plan,
        tries: u32,
        until: Option<Instant>,
        mut tell: impl FnMut(&str),
    ) -> Result<Option<Shrinker>, RunError> {
        if !self.convicts(plan).await? {
            return Ok(None);
        }
        let mut shrinker = Shrinker::new(plan.clone(), tries);
        while until.is_none_or(|until| Instant::now() < until)
            && let Some(reduction) = shrinker.next()
        {
            let convicts = self.convicts(&reduction.plan).await?;
            if *self.cancel.borrow() {
                break;
            }
            let word = if convicts { "convicts" } else { "does not convict" };
            let (number, what) = (shrinker.tries(), &reduction.what);
            tell(&format!("  {number:>3}  {what}: {word}"));
            shrinker.tell(convicts);
        }
        Ok(Some(shrinker))
    }

    async fn convicts(&self, plan: &Plan) -> Result<bool, RunError> {
        let dir = self.dir.join("run");
        // What an earlier run left, as when its disk was busy: a history is never added to.
        let _ = std::fs::remove_dir_all(&dir);
        let planned = PlannedRun::of_plan(plan.clone())?;
        let options = BatchOptions::new(1, self.cancel.clone());
        let options = run_options(dir.clone(), &planned, &options)?;
        let run = run_scenario(plan, &options).await;
        // A long search must not fill the disk.
        let _ = std::fs::remove_dir_all(&dir);
        let run = run.map_err(|error| error.of_plan(plan))?;
        let verdict = run.result.verdicts.get(&self.class);
        Ok(verdict.is_some_and(|verdict| verdict.state == State::Violated))
    }
}

/// Writes a plan and its scenario, as `NAME-small.plan.json` and `NAME-small.toml`; gives the scenario's path
/// and the plan's.
pub fn write(dir: &Path, plan: &Plan) -> std::io::Result<(PathBuf, PathBuf)> {
    let named = |error: std::io::Error, what: &str, path: &Path| {
        let why = format!("cannot {what} {}: {error}", path.display());
        std::io::Error::new(error.kind(), why)
    };
    std::fs::create_dir_all(dir).map_err(|error| named(error, "make", dir))?;
    let put = |end: &str, text: &str| {
        let path = dir.join(format!("{}-small.{end}", plan.name));
        results::store::write_whole(&path, text.as_bytes()).map_err(|error| named(error, "write", &path))?;
        Ok::<_, std::io::Error>(path)
    };
    let scenario = put("toml", &scenario_text(plan))?;
    let text = plan.to_json();
    let file = put("plan.json", &text)?;
    seal(&file, &text);
    Ok((scenario, file))
}

/// The plan of a run that is to be shrunk, by its scenario where one is named, and the verdict that must stay
/// violated: the one that is named, or the gravest.
///
/// # Errors
/// No plan of it is known to violate that.
pub fn plan_to_shrink(
    run: &str,
    store: &RunStore,
    scenario: Option<&str>,
    verdict: Option<&str>,
) -> Result<(KeptPlan, String), RunError> {
    let class_of = |kept: &KeptPlan| {
        let violated = kept.violated();
        match verdict {
            // A plan without a result may convict: running it shows.
            Some(class) => (kept.result.is_none() || violated.contains(&class)).then_some(class),
            None => GRAVEST_FIRST.into_iter().find(|class| violated.contains(class)),
        }
        .map(str::to_owned)
    };
    let plans = of_run(run, store)?.into_iter();
    let mut named = plans.filter(|kept| scenario.is_none_or(|name| kept.plan.name == name));
    named.find_map(|kept| class_of(&kept).map(|class| (kept, class))).ok_or_else(|| {
        RunError::Input(format!(
            "no plan of {run} is known to violate {}, so there is nothing to shrink{}",
            verdict.unwrap_or("anything"),
            if verdict.is_none() { "; a plan.json by itself needs --verdict" } else { "" }
        ))
    })
}

/// How much a plan has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct PlanSize {
    faults: usize,
    clients: usize,
    /// Of each client.
    tasks: usize,
    locks: usize,
    duration_ns: u64,
}

impl PlanSize {
    /// The size of this plan.
    pub fn of(plan: &Plan) -> Self {
        Self {
            faults: plan.faults.len(),
            clients: plan.load.clients.len(),
            tasks: plan.load.clients.first().map_or(0, |client| client.task_seeds.len()),
            locks: plan.load.locks.len(),
            duration_ns: plan.load.does.duration.ns(),
        }
    }
}

impl fmt::Display for PlanSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { faults, clients, tasks, locks, duration_ns } = *self;
        let duration = results::units::duration(duration_ns);
        write!(f, "{faults} faults, {clients} clients × {tasks} tasks, {locks} locks, {duration}")
    }
}
