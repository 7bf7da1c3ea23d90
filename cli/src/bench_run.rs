//! Measures a plan for a command that keeps a run: progress, rows, comparisons and warnings, also when it
//! ends early.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bench::client_cores;
use bench::driver::{self, BenchOutcome, BenchPlan, Hooks, OnRound, Placement};
use bench::parts::Barrier;
use cluster_config::{Deployment, Links, Topology, UpOptions, provisioner_of};
use results::run::{BenchRow, ServerInfo};
use results::verdict::State;

use crate::exit;
use crate::run::Keeper;

/// What ended a run early: the exit code and the reason.
pub(super) type EarlyEnd = (u8, String);

/// A bench for the order of magnitude, beside scenarios: few rounds, free and contended.
pub(crate) fn short_plan(url: &str, topology: &str, subjects: &[String], keeper: &Keeper) -> BenchPlan {
    let mut plan = BenchPlan::new(url);
    plan.topology = topology.to_owned();
    plan.subjects = subjects.to_vec();
    plan.workloads = vec!["uncontended".to_owned(), "contended".to_owned()];
    plan.tasks = vec![16];
    plan.warmup = Duration::from_millis(200);
    plan.duration = Duration::from_millis(700);
    plan.rounds = 3;
    plan.seed = keeper.run.meta.seed;
    plan.key_prefix = keeper.key_prefix();
    plan
}

/// Measures one target and keeps what was measured, also where it ends early.
pub(crate) async fn measure(plan: &BenchPlan, keeper: &mut Keeper) -> anyhow::Result<Option<EarlyEnd>> {
    measure_at(plan, None, None, keeper).await
}

/// As [`measure`], with each subject on servers of its own, or in step with other generators: by their
/// barrier, with a record of each round.
pub(super) async fn measure_at(
    plan: &BenchPlan,
    places: Option<Vec<Placement>>,
    together: Option<(Arc<Barrier>, OnRound)>,
    keeper: &mut Keeper,
) -> anyhow::Result<Option<EarlyEnd>> {
    let bar = keeper.terminal.bar(1, &plan.topology);
    let shown = bar.clone();
    let topology = plan.topology.clone();
    let (barrier, record) = together.unzip();
    let hooks = Hooks {
        barrier,
        record,
        cancel: Some(keeper.cancel.flag()),
        progress: Some(Box::new(move |progress| {
            shown.set_length(progress.total as u64);
            shown.set_position(progress.done as u64);
            shown.set_message(format!("{topology} {}", progress.now));
        })),
    };
    let program = std::env::current_exe()?.display().to_string();
    let subjects = client_cores::subjects(plan, &program)?;
    let outcome = match places {
        None => driver::run_subjects(plan, subjects, &hooks).await,
        Some(places) => driver::run_at(plan, subjects.into_iter().zip(places).collect(), &hooks).await,
    };
    bar.finish_and_clear();
    keep_rows(outcome?, keeper)
}

fn keep_rows(outcome: BenchOutcome, keeper: &mut Keeper) -> anyhow::Result<Option<EarlyEnd>> {
    keeper.run.rows.extend(outcome.rows);
    keeper.run.comparisons.extend(outcome.comparisons);
    // All comparisons of the run together may be wrong no more often than one.
    results::decide::decide(&mut keeper.run.comparisons);
    for warning in outcome.warnings {
        if !keeper.run.warnings.contains(&warning) {
            keeper.run.warnings.push(warning);
        }
    }
    keeper.save()?;
    Ok(outcome.cut_short.map(|why| match keeper.cancel.is_wanted() {
        true => (exit::INTERRUPTED, "interrupted".to_owned()),
        false => (exit::MISSING, why),
    }))
}

/// Starts servers, with their files among the run's logs; `name` tells deployments of one run apart.
pub(super) async fn start_servers(
    topology: &Topology,
    links: Links,
    name: &str,
    root: &Path,
) -> anyhow::Result<Deployment> {
    let mut how = UpOptions::new(root.join("logs").join(format!("bench-{name}")));
    how.links = links;
    provisioner_of(topology)?.up(topology, &how).await.map_err(exit::missing)
}

/// The exit code of measured rows.
pub(super) fn code_of_rows(rows: &[BenchRow]) -> u8 {
    if rows.iter().any(|row| row.safety.state == State::Violated) {
        exit::NOT_AS_EXPECTED
    } else if rows.iter().any(|row| row.valid) {
        exit::AS_EXPECTED
    } else {
        exit::UNKNOWN
    }
}

pub(crate) fn record_server(keeper: &mut Keeper, topology: &Topology, version: &str) {
    let config = topology.config.iter().map(|(key, value)| format!("{key} {value}")).collect();
    let name = match topology.config.is_empty() {
        true => topology.server.clone(),
        false => format!("{} ({})", topology.server, topology.kind),
    };
    keeper.run.meta.environment.servers.insert(name, ServerInfo { version: version.to_owned(), config });
}
