//! `locklab quickstart`: four topologies, a load and a failover on each, a lock that is known to be broken; a
//! report.

use std::time::Duration;

use bench::driver::{BenchPlan, Placement};
use chaos::batch::PlannedRun;
use chaos::bench_servers::sync_every_write;
use chaos::scenario_source::ScenarioSource;
use clap::Args;
use cluster_config::{Deployment, Links, Server, Topology, TopologyKind};
use futures_util::future::join_all;

use crate::args::ResultArgs;
use crate::bench_run::{code_of_rows, measure_at, record_server, short_plan, start_servers};
use crate::exit;
use crate::provisioner::{ProvisionerArgs, engine_here};
use crate::run::{Keeper, seed};
use crate::scenario_batch::{JOBS, batch_options, run_all};
use crate::terminal::Terminal;

/// A master is killed on each topology: each dangerous configuration and its safe twin, and a broken lock.
const SCENARIOS: &[&str] = &[
    "failover-async",
    "failover-wait-all",
    "failover-async-cluster",
    "failover-wait-all-cluster",
    "crash-single-no-persistence",
    "crash-single-aof",
    "masters-minority",
    "release-without-owner-check",
];

#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    shown: ResultArgs,
    #[command(flatten)]
    provisioner: ProvisionerArgs,
}

pub(crate) async fn run(options: &Options, terminal: &Terminal) -> anyhow::Result<u8> {
    let seed = seed(&terminal.common);
    let mut keeper = Keeper::begin(terminal, "quickstart", "quickstart", seed)?;
    if options.provisioner.wants_processes()
        && let Err(error) = Server::find("redis")
    {
        keeper.discard();
        let containers = engine_here().await.map_or(String::new(), |version| {
            format!("; or let them run in containers of the engine {version}: locklab quickstart --provisioner container")
        });
        return Err(exit::missing(format!("{error}{containers}")));
    }
    keeper.shown = options.shown;
    terminal.note(&format!("quickstart: seed {seed}, kept in {}", keeper.path().display()));

    let done = work(seed, &options.provisioner, &mut keeper).await;
    let interrupted = keeper.cancel.is_wanted();
    let code = match &done {
        Ok(code) => *code,
        Err(error) => {
            keeper.run.warnings.push(format!("ended early: {error:#}"));
            exit::code_of(error)
        }
    };
    if keeper.is_empty() {
        keeper.discard();
        return if interrupted { Ok(exit::INTERRUPTED) } else { done };
    }
    let partial = interrupted || done.is_err();
    keeper.run.as_expected = Some(!partial && code == exit::AS_EXPECTED);
    keeper.finish(partial)?;
    if interrupted {
        return Ok(exit::INTERRUPTED);
    }
    done
}

async fn work(seed: u64, provisioner: &ProvisionerArgs, keeper: &mut Keeper) -> anyhow::Result<u8> {
    let planned = SCENARIOS
        .iter()
        .map(|name| {
            let mut scenario = ScenarioSource::find(name)?.scenario.map_err(exit::input)?;
            provisioner.apply(&mut scenario.topology);
            Ok(PlannedRun::of_scenario(&scenario, seed)?)
        })
        .collect::<anyhow::Result<Vec<_>>>()?;

    let measured = measure_all(provisioner, keeper).await?;
    if keeper.cancel.is_wanted() {
        return Ok(exit::INTERRUPTED);
    }
    let batch = batch_options(JOBS, None, keeper);
    let judged = run_all(planned, &batch, false, keeper).await?;
    Ok(exit::worse(measured, judged))
}

/// Starts all topologies side by side and measures one after the other, so that no load disturbs another.
async fn measure_all(provisioner: &ProvisionerArgs, keeper: &mut Keeper) -> anyhow::Result<u8> {
    let bar = keeper.terminal.bar(0, "starting single, sentinel, cluster and 5 masters");
    let root = keeper.path();
    let starting = TopologyKind::REDIS.iter().map(|kind| {
        let mut topology = safe(*kind);
        provisioner.apply(&mut topology);
        let root = &root;
        async move { start_servers(&topology, Links::Direct, kind.name(), root).await }
    });
    let started = tokio::select! {
        started = join_all(starting) => started,
        () = keeper.cancel.wanted() => return Ok(exit::INTERRUPTED),
    };
    bar.finish_and_clear();
    let deployments = started.into_iter().collect::<anyhow::Result<Vec<Deployment>>>()?;

    let mut code = exit::AS_EXPECTED;
    for deployment in deployments {
        record_server(keeper, deployment.topology(), deployment.server_version());
        let (plan, place) = plan(&deployment, keeper);
        // An error of one topology must not leave the others' servers to the safety net.
        let ended = measure_at(&plan, Some(vec![place]), None, keeper).await;
        deployment.down().await?;
        if let Some((failure, why)) = ended? {
            keeper.terminal.warn(&why);
            keeper.run.warnings.push(why);
            code = exit::worse(code, failure);
        }
        if keeper.cancel.is_wanted() {
            return Ok(exit::INTERRUPTED);
        }
    }
    Ok(match code_of_rows(&keeper.run.rows) {
        exit::NOT_AS_EXPECTED => exit::worse(code, exit::NOT_AS_EXPECTED),
        _ => code,
    })
}

/// Servers on which a lock is kept, as the scenarios show: what is measured is what safety costs.
fn safe(kind: TopologyKind) -> Topology {
    let mut topology = Topology::of(kind);
    if kind == TopologyKind::Single {
        sync_every_write(&mut topology);
    }
    topology
}

/// The same load for each, and what its grants wait for.
fn plan(deployment: &Deployment, keeper: &Keeper) -> (BenchPlan, Placement) {
    let kind = deployment.topology().kind;
    let (subject, durability, waits_for) = match kind {
        TopologyKind::Masters => ("lock-core:redlock", "none", "none"),
        TopologyKind::Single => ("lock-core:reentrant", "none", "fsync"),
        _ => ("lock-core:reentrant", "wait:all", "wait:all"),
    };
    let (url, topology) = (deployment.url(), kind.to_string());
    let mut plan = short_plan(&url, &topology, &[subject.to_owned()], keeper);
    plan.durability = durability.to_owned();
    // Three windows of each of two workloads: five seconds for each.
    plan.duration = Duration::from_millis(850);
    let place = Placement {
        target: url,
        topology,
        replicas: deployment.topology().replicas,
        durability: waits_for.to_owned(),
        processes: Vec::new(),
    };
    (plan, place)
}
