//! Runs planned scenarios for a command that keeps a run: progress, results in order, and the exit code of
//! all.

use chaos::batch::{BatchOptions, PlanOutcome, PlannedRun, run_each};
use chaos::plan::Plan;
use chaos::run::{RunError, ScenarioRun};
use chaos::target_servers::TargetServers;
use futures_util::StreamExt as _;
use results::run::{NotApplicable, ScenarioResult};

use crate::exit;
use crate::run::{Keeper, NOTHING_TRIED};

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
    let widest = |of: fn(&Plan) -> &str| {
        let lengths = planned.iter().map(|planned| of(&planned.plan).len());
        lengths.max().unwrap_or(0)
    };
    let widths = (widest(|plan| &plan.name), widest(|plan| plan.topology.kind.name()));
    let numbered = (1..).zip(planned).map(|(number, planned)| {
        let plan = &planned.plan;
        let dir = match several {
            true => format!("{number:02}-{}-{}", plan.name, plan.seed),
            false => String::new(),
        };
        (dir, planned)
    });
    let mut running = run_each(numbered.collect(), batch, &keeper.path())?;
    let mut code = exit::AS_EXPECTED;
    let mut kept: Vec<(usize, ScenarioResult)> = Vec::new();
    while let Some(ended) = running.next().await {
        let PlanOutcome { index, dir, plan, result } = ended;
        match result {
            Ok(ScenarioRun { mut result, warnings, .. }) => {
                for warning in warnings {
                    terminal.warn(&format!("{} (seed {}): {warning}", plan.name, plan.seed));
                }
                result.dir = dir;
                if own_lock {
                    result.exit_code = chaos::outcome::judge_lock(&result);
                }
                code = exit::worse(code, result.exit_code);
                let line = progress_line(&result, widths);
                bar.set_message(crate::terminal::message(&line));
                terminal.detail(&line);
                kept.push((index, result));
                kept.sort_by_key(|(index, _)| *index);
                keeper.run.scenarios = kept.iter().map(|(_, result)| result.clone()).collect();
                keeper.save()?;
            }
            Err(RunError::NotApplicable(why)) => {
                let skipped = NotApplicable {
                    name: plan.name,
                    topology: plan.topology.kind.to_string(),
                    subject: plan.lock.subject,
                    why,
                };
                terminal.detail(&skipped.to_string());
                keeper.run.not_applicable.push(skipped);
                keeper.save()?;
            }
            // What was measured before an error is kept; the others go on.
            Err(error) => {
                let failure = exit::of_run(&error);
                code = exit::worse(code, failure);
                let message = format!("{} (seed {}): {error}", plan.name, plan.seed);
                terminal.warn(&message);
                keeper.run.warnings.push(message);
                keeper.save()?;
            }
        }
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

/// A line of progress, its first two columns so wide.
fn progress_line(result: &ScenarioResult, (name, topology): (usize, usize)) -> String {
    format!("{:<name$}  {:<topology$}  {}", result.name, result.topology, result.said())
}
