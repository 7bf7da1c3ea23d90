//! Runs planned scenarios for a command that keeps a run: progress, results in order, and the exit code of
//! all.

use std::collections::BTreeMap;
use std::fmt::Display;

use chaos::batch::{BatchOptions, PlanOutcome, PlannedRun, run_each};
use chaos::plan::Plan;
use chaos::run::{RunError, ScenarioRun};
use chaos::target_servers::TargetServers;
use futures_util::StreamExt as _;
use results::run::{NotApplicable, ScenarioResult};

use crate::exit;
use crate::run::{Keeper, NOTHING_TRIED};

/// Scenarios wait for elections and leases most of the time, so a few share two cores without harm.
pub(super) const JOBS: usize = 4;

/// How a command's batch is run: so many at a time, each on servers of its own or on somebody's own.
pub(super) fn batch_options(jobs: usize, servers: Option<&TargetServers>, keeper: &Keeper) -> BatchOptions {
    BatchOptions {
        external: servers.and_then(|servers| servers.for_run(&keeper.key_prefix())),
        engine: servers.and_then(|servers| servers.engine.clone()),
        ..BatchOptions::new(jobs, keeper.cancel.flag())
    }
}

/// Runs all and keeps each as it ends. Gives the worst exit code; of a lock of the user's own it says whether
/// the lock was lost, whatever files expect.
pub(crate) async fn run_all(
    planned: Vec<PlannedRun>,
    batch: &BatchOptions,
    own_lock: bool,
    keeper: &mut Keeper,
) -> anyhow::Result<u8> {
    let terminal = keeper.terminal.clone();
    // Of a part also a single one: `merge` puts the parts side by side.
    let several = planned.len() > 1 || keeper.run.part.is_some();
    let bar = terminal.bar(planned.len() as u64, "scenarios");
    let widest = |of: fn(&Plan) -> &str| planned.iter().map(|one| of(&one.plan).len()).max().unwrap_or(0);
    let (name_width, shape_width) = (widest(|plan| &plan.name), widest(|plan| plan.topology.kind.name()));
    let numbered = (1..).zip(planned).map(|(number, planned)| {
        let plan = &planned.plan;
        let dir = if several { format!("{number:02}-{}-{}", plan.name, plan.seed) } else { String::new() };
        (dir, planned)
    });
    let mut running = run_each(numbered.collect(), batch, &keeper.path())?;
    let mut code = exit::AS_EXPECTED;
    let mut kept: BTreeMap<usize, ScenarioResult> = BTreeMap::new();
    while let Some(ended) = running.next().await {
        let PlanOutcome { index, dir, plan, result } = ended;
        let named = |said: &dyn Display| format!("{} (seed {}): {said}", plan.name, plan.seed);
        match result {
            Ok(ScenarioRun { mut result, warnings, .. }) => {
                warnings.iter().for_each(|warning| terminal.warn(&named(warning)));
                result.dir = dir;
                if own_lock {
                    result.exit_code = chaos::outcome::judge_lock(&result);
                }
                code = exit::worse(code, result.exit_code);
                let (name, topology) = (&result.name, &result.topology);
                let line = format!("{name:<name_width$}  {topology:<shape_width$}  {}", result.said());
                bar.set_message(crate::terminal::message(&line));
                terminal.detail(&line);
                kept.insert(index, result);
                keeper.run.scenarios = kept.values().cloned().collect();
            }
            Err(RunError::NotApplicable(why)) => {
                let topology = plan.topology.kind.to_string();
                let skipped = NotApplicable { name: plan.name, topology, subject: plan.lock.subject, why };
                terminal.detail(&skipped.to_string());
                keeper.run.not_applicable.push(skipped);
            }
            // What was measured before an error is kept; the others go on.
            Err(error) => {
                code = exit::worse(code, exit::of_run(&error));
                let message = named(&error);
                terminal.warn(&message);
                keeper.run.warnings.push(message);
            }
        }
        keeper.save()?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    // A run that tried nothing must not pass. Of a part, `merge` says whether the whole did.
    if keeper.run.part.is_none()
        && kept.is_empty()
        && code == exit::AS_EXPECTED
        && !keeper.run.not_applicable.is_empty()
    {
        terminal.warn(NOTHING_TRIED);
        code = exit::INPUT;
    }
    if keeper.cancel.is_wanted() {
        code = exit::INTERRUPTED;
    }
    Ok(code)
}
