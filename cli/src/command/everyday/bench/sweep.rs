//! `locklab bench --sweep`: rows at rising levels, one curve per subject and topology, with its knee.

use bench::driver::BenchPlan;
use bench::sweep::client_cost::client_cost;
use bench::sweep::curve::{over_levels, over_rates};
use bench::workload;
use clap::ValueEnum;
use cluster_config::{Links, Topology, TopologyKind};
use results::run::BenchRow;

use super::{Options, plan, start_servers};
use crate::bench_run::{EarlyEnd, measure};
use crate::exit;
use crate::run::Keeper;

/// What is raised from level to level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Axis {
    /// Tasks, up to --tasks (256)
    Tasks,
    /// Shards of a cluster, up to --shards: with the connections and the memory of a client, and the time
    /// until it has its first lock
    Shards,
    /// Cycles offered per second, from --rate (1000/s) on, until they are not kept: the knee; a window lasts
    /// for 120 cycles at least
    Rate,
}

/// Refuses workloads that a level would not raise.
pub(super) fn check(axis: Axis, options: &Options, workloads: &[String]) -> anyhow::Result<()> {
    let is_usual = matches!(*options.topology, [TopologyKind::Single | TopologyKind::Cluster]);
    if axis == Axis::Shards && (options.target.is_some() || !is_usual) {
        return Err(exit::usage(
            "--sweep shards starts a cluster for each level; leave out --target and --topology",
        ));
    }
    let [wished] = workloads else {
        return Err(exit::usage("--sweep: a curve is about one workload; name one with --workload"));
    };
    let paced = workload::find(wished).map_err(exit::usage)?.paced;
    match axis {
        Axis::Rate if !paced => Err(exit::usage(format!(
            "--sweep rate: `{wished}` sets its own pace; choose another workload, or leave it out for `uncontended`"
        ))),
        _ => Ok(()),
    }
}

/// Measures all levels.
pub(crate) async fn run(
    axis: Axis,
    options: &Options,
    keeper: &mut Keeper,
) -> anyhow::Result<Option<EarlyEnd>> {
    if axis == Axis::Shards {
        return shards(options, keeper).await;
    }
    if let Some(url) = &options.target {
        return levels_at(axis, options, url, "external", keeper).await;
    }
    for kind in &options.topology {
        let (topology, name) = (Topology::of(*kind), kind.name());
        let deployment = start_servers(options, topology, Links::Direct, name, keeper).await?;
        let ended = levels_at(axis, options, &deployment.url(), name, keeper).await;
        deployment.down().await?;
        if let Some(ended) = ended? {
            return Ok(Some(ended));
        }
    }
    Ok(None)
}

async fn levels_at(
    axis: Axis,
    options: &Options,
    url: &str,
    topology: &str,
    keeper: &mut Keeper,
) -> anyhow::Result<Option<EarlyEnd>> {
    let base = plan(options, url, topology, keeper);
    let mut sweeps = Vec::new();
    let mut measured = async |plan: &_| rows(plan, keeper).await;
    let ended = if axis == Axis::Rate {
        let tasks = options.tasks.first().copied().unwrap_or(256);
        let first_per_s = options.rate.unwrap_or(1_000.0);
        over_rates(&base, (first_per_s, tasks), &mut sweeps, measured).await
    } else {
        let most = options.tasks.iter().max().copied().unwrap_or(256);
        let level = async |tasks| {
            let mut plan = base.clone();
            plan.tasks = vec![tasks];
            measured(&plan).await
        };
        over_levels("tasks", most, &mut sweeps, level).await
    };
    keeper.run.sweeps.extend(sweeps);
    ended.transpose()
}

/// The rows of a plan, and what ends the sweep with them.
async fn rows(plan: &BenchPlan, keeper: &mut Keeper) -> (Vec<BenchRow>, Option<anyhow::Result<EarlyEnd>>) {
    let begin = keeper.run.rows.len();
    let ended = measure(plan, keeper).await.transpose();
    (keeper.run.rows[begin..].to_vec(), ended)
}

/// A cluster for each number of shards.
async fn shards(options: &Options, keeper: &mut Keeper) -> anyhow::Result<Option<EarlyEnd>> {
    let mut sweeps = Vec::new();
    let level = async |shards| match at_shards(options, shards, keeper).await {
        Ok(measured) => measured,
        Err(error) => (Vec::new(), Some(Err(error))),
    };
    let ended = over_levels("shards", options.shards, &mut sweeps, level).await;
    keeper.run.sweeps.extend(sweeps);
    ended.transpose()
}

async fn at_shards(
    options: &Options,
    shards: u32,
    keeper: &mut Keeper,
) -> anyhow::Result<(Vec<BenchRow>, Option<anyhow::Result<EarlyEnd>>)> {
    let topology = Topology { shards, replicas: 0, ..Topology::of(TopologyKind::Cluster) };
    let name = format!("{shards}-shards");
    let deployment = start_servers(options, topology, Links::Direct, &name, keeper).await?;
    let plan = plan(options, &deployment.url(), "cluster", keeper);
    let (mut measured, ended) = rows(&plan, keeper).await;
    for row in &mut measured {
        row.measures.client_cost = Some(client_cost(&plan, &row.subject).await?);
    }
    let begin = keeper.run.rows.len() - measured.len();
    keeper.run.rows[begin..].clone_from_slice(&measured);
    deployment.down().await?;
    Ok((measured, ended))
}
