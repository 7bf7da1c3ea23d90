//! The plans that a kept run was made from, with what came out.

use std::path::{Path, PathBuf};

use chaos::plan::Plan;
use results::run::ScenarioResult;
use results::store::RUN_FILE;
use results::verdict::State;

use super::run::dir_of;
use crate::exit;
use crate::files;

/// The file of a plan, beside the history that was made from it.
pub(super) const PLAN_FILE: &str = "plan.json";

/// A plan as it was kept.
pub(crate) struct KeptPlan {
    pub(crate) plan: Plan,
    /// What came out; `None` where the run was ended before that was known.
    pub(crate) result: Option<ScenarioResult>,
}

impl KeptPlan {
    /// The classes that were violated.
    pub(crate) fn violated(&self) -> Vec<&'static str> {
        self.result.as_ref().map(violated).unwrap_or_default()
    }
}

/// The classes that a result has violated, in their order.
pub(crate) fn violated(result: &ScenarioResult) -> Vec<&'static str> {
    let verdicts = result.verdicts.iter();
    verdicts
        .filter(|(_, verdict)| verdict.state == State::Violated)
        .map(|(class, _)| class)
        .collect()
}

/// The plans of a run: a directory, its name under `runs/`, `latest`, or a `plan.json` itself.
pub(crate) fn of_run(run: &str) -> anyhow::Result<Vec<KeptPlan>> {
    let path = Path::new(run);
    if path.is_file() && path.file_name().is_some_and(|name| name != RUN_FILE) {
        return Ok(vec![kept(path, None)?]);
    }
    // A run that was ended early: the plan was saved before anything started.
    if path.is_dir() && !path.join(RUN_FILE).is_file() && path.join(PLAN_FILE).is_file() {
        return Ok(vec![kept(&path.join(PLAN_FILE), None)?]);
    }
    let dir = dir_of(run)?;
    let whole = results::store::load_dir(&dir).map_err(exit::input)?;
    let mut plans = Vec::new();
    for result in whole.scenarios {
        plans.push(kept(&dir.join(&result.dir).join(PLAN_FILE), Some(result))?);
    }
    if plans.is_empty() {
        for path in plans_below(&dir) {
            plans.push(kept(&path, None)?);
        }
    }
    if plans.is_empty() {
        return Err(exit::input(format!(
            "{} has no scenario, so there is no plan to run again",
            dir.display()
        )));
    }
    Ok(plans)
}

fn plans_below(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = std::iter::once(dir.join(PLAN_FILE))
        .chain(entries.map(|entry| entry.path().join(PLAN_FILE)))
        .filter(|path| path.is_file())
        .collect();
    paths.sort();
    paths
}

fn kept(path: &Path, result: Option<ScenarioResult>) -> anyhow::Result<KeptPlan> {
    let text = files::read(path).map_err(exit::input)?;
    let plan = Plan::from_json(&text)
        .map_err(|error| exit::input(format!("{}: {error}", path.display())))?;
    Ok(KeptPlan { plan, result })
}
