//! `locklab bench --sweep`: rows at rising levels, one curve per subject and topology, with its knee.

use bench::sweep::curve::{over_rates, over_tasks};
use bench::workload;
use clap::ValueEnum;
use cluster_config::{Links, Topology};

use super::bench::{Options, plan, up};
use super::bench_run::{Ended, measure};
use super::run::Keeper;
use crate::exit;

/// What is raised from level to level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Over {
    /// Tasks, up to --tasks (256)
    Tasks,
    /// Cycles offered per second, from --rate (1000/s) on, until they are not kept: the knee; a window lasts for 120 cycles at least
    Rate,
}

/// Refuses workloads that a level would not raise.
pub(super) fn check(over: Over, workloads: &[String]) -> anyhow::Result<()> {
    let [wished] = workloads else {
        return Err(exit::usage(
            "--sweep: a curve is about one workload; name one with --workload",
        ));
    };
    let paced = workload::find(wished).map_err(exit::usage)?.paced;
    match over {
        Over::Rate if !paced => Err(exit::usage(format!(
            "--sweep rate: `{wished}` sets its own pace; choose another workload, or leave it out for `uncontended`"
        ))),
        _ => Ok(()),
    }
}

/// Measures all levels.
pub(crate) async fn run(
    over: Over,
    options: &Options,
    keeper: &mut Keeper,
) -> anyhow::Result<Option<Ended>> {
    if let Some(url) = &options.target {
        return levels_at(over, options, url, "external", keeper).await;
    }
    for kind in &options.topology {
        let (topology, name) = (Topology::of(*kind), kind.name());
        let deployment = up(options, topology, Links::Direct, name, keeper).await?;
        let ended = levels_at(over, options, &deployment.url(), name, keeper).await;
        deployment.down().await?;
        if let Some(ended) = ended? {
            return Ok(Some(ended));
        }
    }
    Ok(None)
}

async fn levels_at(
    over: Over,
    options: &Options,
    url: &str,
    topology: &str,
    keeper: &mut Keeper,
) -> anyhow::Result<Option<Ended>> {
    let base = plan(options, url, topology, keeper);
    let mut sweeps = Vec::new();
    let measured = async |plan: &_| {
        let begin = keeper.run.rows.len();
        let ended = measure(plan, keeper).await.transpose();
        (keeper.run.rows[begin..].to_vec(), ended)
    };
    let ended = match over {
        Over::Tasks => {
            let most = options.tasks.iter().max().copied().unwrap_or(256);
            over_tasks(&base, most, &mut sweeps, measured).await
        }
        Over::Rate => {
            let tasks = options.tasks.first().copied().unwrap_or(256);
            let first_per_s = options.rate.unwrap_or(1_000.0);
            over_rates(&base, (first_per_s, tasks), &mut sweeps, measured).await
        }
    };
    keeper.run.sweeps.extend(sweeps);
    ended.transpose()
}
