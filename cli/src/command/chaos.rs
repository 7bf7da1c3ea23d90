//! Runs scenarios side by side, planned first, and keeps each as soon as it is done.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use bench::abilities::Abilities;
use bench::subject::{Subject, SubjectError};
use chaos::audit::probe::ask;
use chaos::audit::{fitted, place};
use chaos::batch::{PlannedRun, in_processes};
use chaos::builtin::{self, BUILTINS};
use chaos::plan::Plan;
use chaos::plan_parts::{self, Digest, digest_of_plan};
use chaos::run::missing_server;
use chaos::scenario::Scenario;
use clap::Args;
use cluster_config::TopologyKind;
use results::run::NotApplicable;

use super::abilities::startable;
use super::chaos_part::ShareArgs;
use super::part_number::PartArgs;
use super::provisioner::ProvisionerArgs;
use super::run::Keeper;
use super::scenario_batch::{batch_options, run_all, skipped};
use super::scenario_source::{Source, seeds, source};
use super::target::{OnServer, OwnServers, Servers};
use crate::args::ResultArgs;
use crate::exit;
use crate::project::Project;
use crate::terminal::Terminal;

const EXAMPLES: &str = "\
Examples:
  locklab chaos failover-async failover-wait-all --jobs 2     two built-in scenarios side by side
  locklab chaos my-scenario.toml --repeat 20                  how often which verdict comes out
  locklab chaos --all --jobs 4 --subject 'exec:python3 driver.py'       your lock on all of them
  locklab chaos my-scenario.toml --dry-run                    the plan; nothing is started
  locklab chaos client-pause --target redis://staging:6379 --yes-this-is-mine

`locklab list scenarios`, `list subjects` and `list faults` show the names.";

/// Flags of `chaos`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// Scenario files, or names of built-in ones (`locklab list scenarios`) [default: those of locklab.toml, with its lock]
    #[arg(value_name = "SCENARIO")]
    scenarios: Vec<String>,
    /// Every built-in scenario, controls included; with --target or --server those that judge safety on any server
    #[arg(long, conflicts_with = "scenarios")]
    all: bool,
    /// Another lock in the scenarios' place, e.g. baseline:set-nx-px or 'exec:PROGRAM ARG…'
    #[arg(long, value_name = "SUBJECT")]
    subject: Option<String>,
    /// Exit by what the files expect, also with a lock of your own: without it 1 when that was lost, whatever a file expects
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
    /// Let Chaos Mesh in this namespace do the harm to the target's pods, from within one of them; faults that it does not have stay
    /// the harness's
    #[cfg(feature = "kube")]
    #[arg(help_heading = super::target::SERVERS, long, requires = "target", value_name = "NAMESPACE")]
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
    options.own.one_by_one(options.jobs)?;
    if let Some(name) = &mut options.subject {
        *name = bench::subjects::typed(name);
        // The parts of a plan are carried out elsewhere, where other programs are.
        if !options.dry_run {
            startable(name)?;
        }
    }
    let seed = options.part.seed(&terminal.common)?;
    let slice = options.part.slice()?;
    let sources = sources(&options, terminal)?;
    let mut servers = options.own.servers()?;
    if let Some(servers) = &mut servers {
        #[cfg(feature = "kube")]
        if let Some(namespace) = &options.chaos_mesh {
            servers.engine = Some(super::chaos_mesh::engine(namespace, servers.kind()).await?);
        }
        // What can be said without the servers is said before they are asked.
        servers.check_allowed(&sources)?;
        if !options.dry_run {
            servers.ask().await?;
        }
    }
    let (planned, mut not_applicable) = Planner {
        options: &options,
        servers: servers.as_ref(),
        seed,
        matrix: options.own.matrix()?,
        terminal,
        known: BTreeMap::new(),
    }
    .all(sources)
    .await?;
    let (mut planned, digests): (Vec<PlannedRun>, Vec<Digest>) = planned.into_iter().unzip();
    let mut part = None;
    if let Some(slice) = slice.filter(|_| !options.share.by_client()) {
        let all = planned.iter().zip(digests);
        let all =
            all.map(|(PlannedRun { plan, .. }, digest)| (plan.name.clone(), plan.seed, digest));
        part = Some(plan_parts::record(slice, all));
        planned.retain(|planned| plan_parts::has(slice, &planned.plan.name, planned.plan.seed));
        not_applicable.retain(|skipped| plan_parts::has(slice, &skipped.name, seed));
    }
    if options.dry_run {
        let plans: Vec<&Plan> = planned.iter().map(|planned| &planned.plan).collect();
        let scenarios = plans
            .iter()
            .map(|plan| serde_json::json!({"name": plan.name, "seed": plan.seed}));
        let scenarios: Vec<_> = scenarios.collect();
        let document = serde_json::json!({"schema": 1, "scenarios": scenarios, "plans": plans});
        let text = || plans.iter().map(|plan| plan.to_text()).collect();
        terminal.answer(&document, text)?;
        return Ok(exit::AS_EXPECTED);
    }
    if let (true, Some(servers)) = (options.share.by_client(), &mut servers) {
        return options.share.run(slice, planned, servers, terminal).await;
    }
    let name = match planned.as_slice() {
        [one] => format!("chaos-{}", one.plan.name),
        _ => "chaos".to_owned(),
    };
    let mut keeper = Keeper::begin(terminal, "chaos", &name, seed)?;
    keeper.shown = options.shown;
    terminal.note(&format!("seed {seed}"));
    keeper.run.not_applicable = not_applicable;
    keeper.is_part(part)?;
    let prefix = keeper.key_prefix();
    if servers.is_some() {
        // Fresh by name: what an earlier scenario left on these servers is no business of the next.
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
        servers.remove_keys(&prefix, terminal).await;
    }
    let repeats = options.repeat > 1 && !terminal.common.json;
    keeper.judged(ended?, |keeper| {
        if repeats {
            terminal.result(&format!("\n{}", super::tally::table(&keeper.run.scenarios)));
        }
        options
            .junit
            .iter()
            .try_for_each(|path| keeper.write_junit(path))
    })
}

/// The files and built-in scenarios that were asked for.
fn sources(options: &Options, terminal: &Terminal) -> anyhow::Result<Vec<Source>> {
    if !options.all {
        return options.scenarios.iter().map(|name| source(name)).collect();
    }
    if !options.own.names_servers() {
        return Ok(builtin::suite().into_iter().map(Source::of).collect());
    }
    // A control says nothing of a server.
    let all = BUILTINS.iter().filter(|one| !one.control).map(Source::of);
    let mut all: Vec<Source> = all.collect();
    all.retain(|source| {
        let scenario = source.scenario.as_ref();
        scenario.map_or(true, Scenario::is_for_any_server)
    });
    terminal.note(&format!(
        "on each server the {} of {} scenarios that judge safety and are about no server of their own",
        all.len(),
        BUILTINS.len()
    ));
    Ok(all)
}

enum SkippedScenario {
    Wrong(String),
    /// It is not for this lock, or its server is not here; the others are run.
    Out(NotApplicable),
}

struct Planner<'a> {
    options: &'a Options,
    servers: Option<&'a Servers>,
    seed: u64,
    matrix: Vec<Option<OnServer>>,
    terminal: &'a Terminal,
    /// What locks said of themselves, on servers of each shape.
    known: BTreeMap<(String, TopologyKind), Result<Abilities, SubjectError>>,
}

impl Planner<'_> {
    /// All that is wrong is said together.
    async fn all(
        mut self,
        sources: Vec<Source>,
    ) -> anyhow::Result<(Vec<(PlannedRun, Digest)>, Vec<NotApplicable>)> {
        let (mut planned, mut not_applicable, mut wrong) = (Vec::new(), Vec::new(), Vec::new());
        for source in &sources {
            match self.one(source).await? {
                Ok(plans) => planned.extend(plans),
                Err(SkippedScenario::Wrong(why)) => wrong.push(why),
                Err(SkippedScenario::Out(skipped)) => {
                    self.terminal.detail(&skipped.to_string());
                    not_applicable.push(skipped);
                }
            }
        }
        match wrong.is_empty() {
            true => Ok((planned, not_applicable)),
            false => Err(exit::input(wrong.join("\n"))),
        }
    }

    /// The way of one scenario: onto the servers, with the lock in it, on each server of the matrix, with each seed.
    async fn one(
        &mut self,
        source: &Source,
    ) -> anyhow::Result<Result<Vec<(PlannedRun, Digest)>, SkippedScenario>> {
        let scenario = match self.on_servers(source) {
            Ok(scenario) => scenario,
            Err(left) => return Ok(Err(left)),
        };
        // Parts may each have servers of their own, and what is found there is no part of what was asked for.
        let asked = match (&source.scenario, self.servers) {
            (Ok(asked), Some(_)) => asked.clone(),
            _ => scenario.clone(),
        };
        let lock = self.options.subject.as_ref();
        let lock = lock.unwrap_or(&asked.lock.subject).clone();
        let (scenario, subject) = match self.with_lock(scenario).await? {
            Ok(fitting) => fitting,
            Err(skipped) => return Ok(Err(SkippedScenario::Out(skipped))),
        };
        let mut planned = Vec::new();
        for server in &self.matrix {
            let (mut scenario, mut asked) = (scenario.clone(), asked.clone());
            if let Some(server) = server {
                for topology in [&mut scenario.topology, &mut asked.topology] {
                    topology.server.clone_from(&server.asked);
                }
            }
            for seed in seeds(self.seed, self.options.repeat) {
                let digest = digest_of_plan(&Plan::new(&asked, seed), &lock)?;
                let plan = Plan::new(&scenario, seed);
                let subject = subject.clone();
                planned.push((PlannedRun { plan, subject }, digest));
            }
        }
        Ok(Ok(planned))
    }

    fn on_servers(&self, source: &Source) -> Result<Scenario, SkippedScenario> {
        let mut scenario = source.scenario.clone().map_err(SkippedScenario::Wrong)?;
        match self.servers {
            Some(servers) => {
                scenario = servers
                    .fitted(source, scenario)
                    .map_err(SkippedScenario::Wrong)?;
            }
            None => self.options.provisioner.apply(&mut scenario.topology),
        }
        let missing = || missing_server(&scenario.topology, &scenario.faults);
        if let (true, None) = (self.options.all, self.servers)
            && let Some(why) = missing()
        {
            let subject = self.options.subject.as_ref();
            let subject = subject.unwrap_or(&scenario.lock.subject);
            let kind = scenario.topology.kind;
            return Err(SkippedScenario::Out(skipped(
                &scenario.name,
                kind,
                subject,
                why,
            )));
        }
        Ok(scenario)
    }

    /// The scenario with the lock in it that is asked for, and that lock; or why it is not for that lock. Servers of another shape are wrong
    /// usage where the scenario was named, and the suite goes on with those that fit.
    async fn with_lock(
        &mut self,
        scenario: Scenario,
    ) -> anyhow::Result<Result<(Scenario, Arc<dyn Subject>), NotApplicable>> {
        let all = self.options.all;
        let given = self.options.subject.as_deref();
        let name = given.unwrap_or(&scenario.lock.subject).to_owned();
        let found = match self.options.dry_run {
            true => bench::subjects::find(&name).map_err(exit::usage)?,
            false => startable(&name)?,
        };
        let not = |why| skipped(&scenario.name, scenario.topology.kind, &name, why);
        let control = builtin::find(&scenario.name).is_some_and(|builtin| builtin.control);
        if all && control && scenario.lock.subject != name {
            return Ok(Err(not(format!(
                "it is a control, which shows that `{}` is convicted",
                scenario.lock.subject
            ))));
        }
        let assumed = Abilities::assumed(found.kinds());
        // What a file says of a lock of ours was looked at when it was read.
        let read = given.is_none() && found.program().is_none() && found.parts().is_empty();
        if let (Err(why), false, false) =
            (place(scenario.topology.kind, &name, &assumed), all, read)
        {
            return Err(exit::usage(format!("{}: {why}", scenario.name)));
        }
        let subject = in_processes(found)?;
        let has = match read || self.options.dry_run {
            true => assumed,
            false => match self.ask(&name, &subject, scenario.topology.kind).await? {
                Ok(has) => has,
                Err(SubjectError::NotApplicable(why)) => return Ok(Err(not(why))),
                // The run says what is wrong, and goes on with the next.
                Err(_) => assumed,
            },
        };
        match fitted(&scenario, &name, &has) {
            Ok(fitting) => Ok(Ok((fitting, subject))),
            Err(why) if read => Err(exit::input(format!("{}: {why}", scenario.name))),
            Err(why) => Ok(Err(not(why))),
        }
    }

    async fn ask(
        &mut self,
        name: &str,
        subject: &Arc<dyn Subject>,
        shape: TopologyKind,
    ) -> anyhow::Result<Result<Abilities, SubjectError>> {
        let key = (name.to_owned(), shape);
        if let Some(known) = self.known.get(&key) {
            return Ok(known.clone());
        }
        let logs = crate::files::work_dir()?;
        let (log, target) = (logs.path().join("hello.log"), &self.options.own.target);
        let answer = async |answer, _: &str| answer;
        let (has, _) = ask(subject.as_ref(), shape, target.as_deref(), log, answer).await?;
        self.known.insert(key, has.clone());
        Ok(has)
    }
}
