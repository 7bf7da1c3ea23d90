//! Turns subjects, topologies and workloads into measured rows, without faults.

use std::time::Duration;

use bench::driver::{self, BenchOutcome, BenchPlan, Hooks};
use bench::subject::SubjectError;
use clap::Args;
use cluster_config::{Topology, TopologyKind, UpOptions};
use lock_core::Target;
use results::run::ServerInfo;
use results::verdict::State;

use super::provisioner::{self, ProvisionerArgs};
use super::run::{Keeper, seed};
use crate::args::{Common, durability, duration};
use crate::cancel::Cancel;
use crate::exit;
use crate::terminal::Terminal;

/// Flags of `bench`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Somebody's own servers by URL; nothing there is flushed, restarted or configured
    #[arg(long, conflicts_with = "topology", value_name = "URL")]
    target: Option<String>,
    /// Topologies to start: single, sentinel, cluster, masters [default: single]
    #[arg(long, value_delimiter = ',', value_parser = super::topology_kind, value_name = "T[,T]")]
    topology: Vec<TopologyKind>,
    /// Locks under test; one named twice is an A/A pair [default: our lock and SET NX PX, or redlock on independent masters]
    #[arg(long, value_name = "S[,S]")]
    subject: Vec<String>,
    /// What clients do
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "uncontended,contended",
        value_name = "W[,W]"
    )]
    workload: Vec<String>,
    /// Concurrent tasks
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "16",
        value_name = "N[,N]"
    )]
    tasks: Vec<u32>,
    /// Lock names [default: as many as tasks]
    #[arg(long, value_name = "N")]
    locks: Option<u32>,
    /// Clients of their own identity and connections that share the tasks
    #[arg(long, default_value_t = 1, value_name = "N")]
    clients: u32,
    /// Replicas that must have the lock: none, wait:K or wait:all
    #[arg(long, value_parser = durability, default_value = "none", value_name = "HOW")]
    durability: String,
    /// Time before each measured window, which is dropped
    #[arg(long, value_parser = duration, default_value = "500ms", value_name = "DURATION")]
    warmup: Duration,
    /// Each measured window
    #[arg(long, value_parser = duration, default_value = "1500ms", value_name = "DURATION")]
    duration: Duration,
    /// Windows per row; with one there is no interval
    #[arg(long, default_value_t = 3, value_name = "N")]
    rounds: u32,
    /// Enter a network of its own first, where the kernel allows it: no port collides
    #[arg(long, conflicts_with = "target")]
    pub(crate) isolate: bool,
    /// The target is not on this machine and may be loaded all the same
    #[arg(long)]
    yes_this_is_mine: bool,
    #[command(flatten)]
    provisioner: ProvisionerArgs,
}

pub(crate) async fn run(
    options: Options,
    common: &Common,
    terminal: &Terminal,
) -> anyhow::Result<u8> {
    check(&options)?;
    let seed = seed(common);
    let cancel = Cancel::listen()?;
    if let Some(url) = &options.target {
        let target: Target = url.parse().map_err(exit::usage)?;
        allow(&target, options.yes_this_is_mine)?;
    }
    let mut keeper = Keeper::begin(common, "bench", "bench", seed)?;
    terminal.note(&format!("seed {seed}"));

    let ended = match measure_all(&options, seed, &mut keeper, &cancel, terminal).await {
        Ok(ended) => ended,
        Err(error) if keeper.is_empty() => {
            keeper.discard();
            return Err(error);
        }
        Err(error) => Some((exit::code_of(&error), format!("{error:#}"))),
    };
    let code = ended
        .as_ref()
        .map_or_else(|| judge(&keeper), |(code, _)| *code);
    if let Some((_, why)) = &ended {
        keeper.run.warnings.push(format!("ended early: {why}"));
        terminal.warn(why);
    }
    keeper.finish(ended.is_some(), common, terminal)?;
    Ok(code)
}

/// Measures the target, or one started topology after the other; what ends it early is given with its exit code.
async fn measure_all(
    options: &Options,
    seed: u64,
    keeper: &mut Keeper,
    cancel: &Cancel,
    terminal: &Terminal,
) -> anyhow::Result<Option<(u8, String)>> {
    if let Some(url) = &options.target {
        let plan = plan(options, url, "external", seed, keeper);
        return measure(&plan, keeper, cancel, terminal).await;
    }
    let kinds = if options.topology.is_empty() {
        vec![TopologyKind::Single]
    } else {
        options.topology.clone()
    };
    for kind in kinds {
        let dir = keeper.path().join("logs").join(format!("bench-{kind}"));
        let mut topology = Topology::of(kind);
        options.provisioner.apply(&mut topology);
        let deployment = provisioner::of(&topology)?
            .up(&topology, &UpOptions::new(&dir))
            .await
            .map_err(exit::missing)?;
        keep_server(keeper, &topology, deployment.server_version());
        let plan = plan(options, &deployment.url(), &kind.to_string(), seed, keeper);
        let ended = measure(&plan, keeper, cancel, terminal).await;
        deployment.down().await?;
        if let Some(ended) = ended? {
            return Ok(Some(ended));
        }
    }
    Ok(None)
}

fn check(options: &Options) -> anyhow::Result<()> {
    if options.rounds == 0
        || options.clients == 0
        || options.tasks.contains(&0)
        || options.locks == Some(0)
    {
        return Err(exit::usage(
            "--rounds, --clients, --tasks and --locks count from 1",
        ));
    }
    if options.duration < Duration::from_millis(50) {
        return Err(exit::usage(
            "--duration: a window under 50ms measures nothing",
        ));
    }
    for workload in &options.workload {
        bench::workload::find(workload).map_err(exit::usage)?;
    }
    for subject in subjects(&options.subject) {
        bench::subjects::find(&subject).map_err(exit::usage)?;
    }
    Ok(())
}

/// Load on somebody's servers needs their word.
pub(crate) fn allow(target: &Target, mine: bool) -> anyhow::Result<()> {
    if target.is_loopback() || mine {
        Ok(())
    } else {
        Err(exit::usage(format!(
            "{target} is not on this machine: say --yes-this-is-mine if you may put load on it"
        )))
    }
}

/// Subjects by comma; a driver's command line may hold commas itself and stays whole.
pub(crate) fn subjects(given: &[String]) -> Vec<String> {
    given
        .iter()
        .flat_map(|given| match given.starts_with("exec:") {
            true => vec![given.clone()],
            false => given
                .split(',')
                .map(|name| name.trim().to_owned())
                .collect(),
        })
        .collect()
}

fn plan(options: &Options, url: &str, topology: &str, seed: u64, keeper: &Keeper) -> BenchPlan {
    let mut plan = BenchPlan::new(url);
    plan.topology = topology.to_owned();
    plan.subjects = subjects(&options.subject);
    if plan.subjects.is_empty() {
        plan.subjects = usual_subjects(url);
    }
    plan.workloads = options.workload.clone();
    plan.tasks = options.tasks.clone();
    plan.locks = options.locks;
    plan.clients = options.clients;
    plan.durability = options.durability.clone();
    plan.warmup = options.warmup;
    plan.duration = options.duration;
    plan.rounds = options.rounds;
    plan.seed = seed;
    plan.key_prefix = keeper.key_prefix();
    plan
}

fn usual_subjects(url: &str) -> Vec<String> {
    if url.starts_with("redlock") {
        vec!["lock-core:redlock".to_owned()]
    } else {
        vec![
            "baseline:set-nx-px".to_owned(),
            "lock-core:reentrant".to_owned(),
        ]
    }
}

/// Measures one target and keeps what was measured, also when it ends early: then the exit code and the reason are given.
pub(crate) async fn measure(
    plan: &BenchPlan,
    keeper: &mut Keeper,
    cancel: &Cancel,
    terminal: &Terminal,
) -> anyhow::Result<Option<(u8, String)>> {
    let bar = terminal.bar(1, &plan.topology);
    let shown = bar.clone();
    let topology = plan.topology.clone();
    let hooks = Hooks {
        cancel: Some(cancel.flag()),
        progress: Some(Box::new(move |progress| {
            shown.set_length(progress.total as u64);
            shown.set_position(progress.done as u64);
            shown.set_message(format!("{topology} {}", progress.now));
        })),
    };
    let outcome = driver::run(plan, &hooks).await;
    bar.finish_and_clear();
    match outcome {
        Ok(outcome) => Ok(keep(outcome, keeper, cancel)?),
        Err(error) => Err(subject_error(&error)),
    }
}

fn keep(
    outcome: BenchOutcome,
    keeper: &mut Keeper,
    cancel: &Cancel,
) -> anyhow::Result<Option<(u8, String)>> {
    keeper.run.rows.extend(outcome.rows);
    keeper.run.comparisons.extend(outcome.comparisons);
    for warning in outcome.warnings {
        if !keeper.run.warnings.contains(&warning) {
            keeper.run.warnings.push(warning);
        }
    }
    keeper.save()?;
    Ok(outcome.cut_short.map(|why| {
        if cancel.is_wanted() {
            (exit::INTERRUPTED, "interrupted".to_owned())
        } else {
            (exit::MISSING, why)
        }
    }))
}

/// The exit code of a subject that could not be had.
pub(crate) fn subject_error(error: &SubjectError) -> anyhow::Error {
    if error.unreachable {
        exit::missing(error)
    } else {
        exit::usage(error)
    }
}

/// Which server a topology ran on, and with which lines of configuration.
pub(crate) fn keep_server(keeper: &mut Keeper, topology: &Topology, version: &str) {
    let config = topology
        .config
        .iter()
        .map(|(key, value)| format!("{key} {value}"))
        .collect();
    let name = match topology.config.is_empty() {
        true => topology.server.clone(),
        false => format!("{} ({})", topology.server, topology.kind),
    };
    keeper.run.meta.environment.servers.insert(
        name,
        ServerInfo {
            version: version.to_owned(),
            config,
        },
    );
}

fn judge(keeper: &Keeper) -> u8 {
    let rows = &keeper.run.rows;
    if rows.iter().any(|row| row.safety.state == State::Violated) {
        exit::NOT_AS_EXPECTED
    } else if rows.iter().any(|row| row.valid) {
        exit::AS_EXPECTED
    } else {
        exit::UNKNOWN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_are_split_at_commas_but_drivers_are_not() {
        let given = [
            "lock-core:reentrant,baseline:set-nx-px".to_owned(),
            "exec:driver --kinds a,b".to_owned(),
        ];
        assert_eq!(
            subjects(&given),
            [
                "lock-core:reentrant",
                "baseline:set-nx-px",
                "exec:driver --kinds a,b"
            ]
        );
    }

    #[test]
    fn servers_elsewhere_need_their_owners_word() {
        let elsewhere: Target = "redis://192.0.2.1:6379".parse().unwrap();
        assert!(allow(&elsewhere, false).is_err());
        assert!(allow(&elsewhere, true).is_ok());
        let here: Target = "redis://127.0.0.1:6379".parse().unwrap();
        assert!(allow(&here, false).is_ok());
    }
}
