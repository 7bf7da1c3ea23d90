//! Runs scenarios side by side, planned first, and keeps each as soon as it is done.

use std::path::PathBuf;

use bench::subjects::startable;
use chaos::batch::PlannedRun;
use chaos::builtin::BUILTINS;
use chaos::plan::Plan;
use chaos::plan_parts::{self, Digest};
use chaos::planner::{PlannedScenarios, Planner};
use chaos::scenario::Scenario;
use chaos::scenario_source::{ScenarioSource, seeds};
use clap::Args;

use super::chaos_part::ShareArgs;
use crate::args::ResultArgs;
use crate::parts::PartArgs;
use crate::project::Project;
use crate::provisioner::ProvisionerArgs;
use crate::run::Keeper;
use crate::scenario_batch::{batch_options, run_all};
use crate::target::{OwnServers, remove_keys};
use crate::terminal::Terminal;

#[derive(Debug, Args)]
#[command(after_help = include_str!("../../../help/chaos.txt").trim_end())]
pub(crate) struct Options {
    /// Scenario files, or names of built-in ones (`locklab list scenarios`) [default: those of locklab.toml,
    /// with its lock]
    #[arg(value_name = "SCENARIO")]
    scenarios: Vec<String>,
    /// Every built-in scenario, controls included; with --target or --server those that judge safety on any
    /// server
    #[arg(long, conflicts_with = "scenarios")]
    all: bool,
    /// Another lock in the scenarios' place, e.g. baseline:set-nx-px or 'exec:PROGRAM ARG…'
    #[arg(long, value_name = "SUBJECT")]
    subject: Option<String>,
    /// Exit by what the files expect, also with a lock of your own: without it 1 when that was lost, whatever
    /// a file expects
    #[arg(long)]
    expect_file: bool,
    /// Run each scenario with seeds N … N+K−1
    #[arg(long, default_value_t = 1, value_parser = crate::args::count, value_name = "K")]
    repeat: u32,
    /// Scenarios at a time
    #[arg(long, default_value_t = 1, value_parser = crate::args::count, value_name = "N")]
    jobs: u32,
    /// Print the plan and start nothing
    #[arg(long)]
    dry_run: bool,
    /// Also write a JUnit file
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Keep a history of more than this as history.jsonl.zst, once it was judged; 0: every one
    #[arg(long, value_name = "SIZE", value_parser = crate::args::bytes)]
    compress_above: Option<u64>,
    #[command(flatten)]
    own: OwnServers,
    /// Let Chaos Mesh in this namespace do the harm to the target's pods, from within one of them; faults
    /// that it does not have stay the harness's
    #[cfg(feature = "kube")]
    #[arg(help_heading = crate::target::SERVERS, long, requires = "target", value_name = "NAMESPACE")]
    chaos_mesh: Option<String>,
    #[command(flatten)]
    provisioner: ProvisionerArgs,
    #[command(flatten)]
    part: PartArgs,
    #[command(flatten)]
    share: ShareArgs,
    #[command(flatten)]
    shown: ResultArgs,
}

impl Options {
    /// Whether the exit code says what became of the lock, rather than whether files were met.
    fn own_lock(&self) -> bool {
        let subject = self.subject.as_ref().filter(|_| !self.expect_file);
        let found = subject.and_then(|name| bench::subjects::find(name).ok());
        found.is_some_and(|subject| subject.program().is_some())
    }
}

pub(crate) async fn run(mut options: Options, terminal: &Terminal) -> anyhow::Result<u8> {
    if options.scenarios.is_empty() && !options.all {
        let project = Project::here()?;
        options.scenarios = project.scenarios()?;
        options.subject = options.subject.or(project.subject);
        options.own.target = options.own.target.or(project.target);
    }
    options.own.check_jobs(options.jobs)?;
    if let Some(name) = &mut options.subject {
        *name = bench::subjects::typed(name);
        // The parts of a plan are carried out elsewhere, where other programs are.
        if !options.dry_run {
            startable(name)?;
        }
    }
    let seed = options.part.seed(&terminal.common)?;
    let share = options.part.share()?;
    let sources = match options.all {
        false => ScenarioSource::find_all(&options.scenarios)?,
        true if options.own.server.is_empty() => ScenarioSource::suite(|_, _| true),
        // A control says nothing of a server.
        true => {
            let all = ScenarioSource::suite(|one, scenario| {
                !one.control && scenario.topology.kind.is_redis() && scenario.is_for_any_server()
            });
            terminal.note(&format!(
                "on each server the {} of {} scenarios that judge safety and are about no server of their own",
                all.len(),
                BUILTINS.len()
            ));
            all
        }
    };
    let mut servers = options.own.servers()?;
    if let Some(servers) = &mut servers {
        #[cfg(feature = "kube")]
        if let Some(namespace) = &options.chaos_mesh {
            let engine = kubernetes::engine::ChaosMesh::here(namespace, servers.kind()).await?;
            let engine = engine.ok_or_else(|| {
                crate::exit::usage("--chaos-mesh is for a pod, which has its name in POD_NAME or HOSTNAME")
            })?;
            servers.engine = Some(std::sync::Arc::new(engine));
        }
        // What can be said without the servers is said before they are asked.
        servers.check_allowed(&sources)?;
        if !options.dry_run {
            servers.ask().await?;
        }
    }
    let fit = |source: &ScenarioSource, mut scenario: Scenario| match &servers {
        Some(servers) => servers.fit_scenario(source, scenario),
        None => {
            options.provisioner.apply(&mut scenario.topology);
            Ok(scenario)
        }
    };
    let planner = Planner {
        subject: options.subject.as_deref(),
        all: options.all,
        dry_run: options.dry_run,
        target: options.own.target.as_deref(),
        seeds: seeds(seed, options.repeat).collect(),
        matrix: options.own.matrix()?,
        fit: &fit,
    };
    let PlannedScenarios { runs, mut not_applicable } = planner.plan(&sources).await?;
    for skipped in &not_applicable {
        terminal.detail(&skipped.to_string());
    }
    let (mut planned, digests): (Vec<PlannedRun>, Vec<Digest>) = runs.into_iter().unzip();
    let mut part = None;
    if let Some(share) = share.filter(|_| !options.share.by_client()) {
        let all = planned.iter().zip(digests);
        let all = all.map(|(PlannedRun { plan, .. }, digest)| (plan.name.clone(), plan.seed, digest));
        part = Some(plan_parts::record(share, all));
        planned.retain(|planned| plan_parts::has(share, &planned.plan.name, planned.plan.seed));
        not_applicable.retain(|skipped| plan_parts::has(share, &skipped.name, seed));
    }
    if options.dry_run {
        let plans: Vec<&Plan> = planned.iter().map(|planned| &planned.plan).collect();
        let scenarios = plans.iter().map(|plan| serde_json::json!({"name": plan.name, "seed": plan.seed}));
        let scenarios: Vec<_> = scenarios.collect();
        let document = serde_json::json!({"schema": 1, "scenarios": scenarios, "plans": plans});
        let text = || plans.iter().map(|plan| plan.to_text()).collect();
        return terminal.answer(&document, text);
    }
    if let (true, Some(servers)) = (options.share.by_client(), &mut servers) {
        return options.share.run(share, planned, servers, terminal).await;
    }
    let name = match planned.as_slice() {
        [one] => format!("chaos-{}", one.plan.name),
        _ => "chaos".to_owned(),
    };
    let mut keeper = Keeper::begin(terminal, "chaos", &name, seed)?;
    keeper.shown = options.shown;
    terminal.note(&format!("seed {seed}"));
    keeper.run.not_applicable = not_applicable;
    keeper.set_part(part)?;
    let prefix = keeper.key_prefix();
    if servers.is_some() {
        // A prefix for each scenario: keys of an earlier one must not disturb the next.
        for (number, planned) in (1..).zip(&mut planned) {
            planned.plan.prefix_locks(&format!("{prefix}{number}:"));
        }
    }
    let mut batch = batch_options(options.jobs as usize, servers.as_ref(), &keeper);
    if let Some(bytes) = options.compress_above {
        batch.plain_history_max_bytes = bytes;
    }
    let ended = run_all(planned, &batch, options.own_lock(), &mut keeper).await;
    if let Some(servers) = &mut servers {
        remove_keys(servers, &prefix, terminal).await;
    }
    let repeats = options.repeat > 1 && !terminal.common.json;
    keeper.finish_scenarios(ended?, |keeper| {
        if repeats {
            terminal.result(&format!("\n{}", results::report::text::tally_results(&keeper.run.scenarios)));
        }
        options.junit.iter().try_for_each(|path| keeper.write_junit(path))
    })
}
