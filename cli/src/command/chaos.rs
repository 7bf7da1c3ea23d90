//! Runs scenarios side by side, planned first, and keeps each as soon as it is done.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bench::abilities::Abilities;
use bench::exec::ExecSubject;
use bench::subject::{Subject, SubjectError};
use bench::subjects::Mixed;
use chaos::audit::{fitted, place};
use chaos::builtin::{self, BUILTINS, Builtin};
use chaos::faults::engine::Engine;
use chaos::plan::Plan;
use chaos::run::{RunError, RunOptions, ScenarioRun, missing_server, run_scenario};
use chaos::scenario::Scenario;
use chaos::toxiproxy::beyond_toxiproxy;
use clap::Args;
use cluster_config::{Provisioner, TopologyKind};
use futures_util::{Stream, StreamExt as _};
use results::run::{NotApplicable, ScenarioResult};

use super::abilities::ask;
use super::chaos_part::ShareArgs;
use super::part_number::{Digest, PartArgs, digest_of_plan};
use super::plans::{self, PLAN_FILE};
use super::provisioner::{self, ProvisionerArgs};
use super::run::{Keeper, NOTHING_TRIED};
use super::target::{OnServer, OwnServers, SERVERS, Servers};
use crate::args::ResultArgs;
use crate::cancel::Cancel;
use crate::exit;
use crate::files;
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
    /// Scenario files, or names of built-in ones (`locklab list scenarios`)
    #[arg(required_unless_present = "all", value_name = "SCENARIO")]
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
    /// Let the Toxiproxy server with this API do the harm to links, which pass this machine only: faults that it cannot do are refused
    #[arg(help_heading = SERVERS, long, value_name = "HOST:PORT", value_parser = crate::args::loopback)]
    toxiproxy: Option<SocketAddr>,
    /// Let Chaos Mesh in this namespace do the harm to the target's pods, from within one of them; faults that it does not have stay
    /// the harness's
    #[cfg(feature = "kube")]
    #[arg(help_heading = SERVERS, long, requires = "target", value_name = "NAMESPACE")]
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

/// A plan and the lock that it is for.
pub(crate) struct Planned {
    pub(crate) plan: Plan,
    pub(crate) subject: Arc<dyn Subject>,
}

impl Options {
    /// Whether the exit code says what became of the lock, rather than whether files were met.
    fn own_lock(&self) -> bool {
        let subject = self.subject.as_ref().filter(|_| !self.expect_file);
        let found = subject.and_then(|name| bench::subjects::find(name).ok());
        found.is_some_and(|subject| subject.program().is_some())
    }
}

pub(crate) async fn run(options: Options, terminal: &Terminal) -> anyhow::Result<u8> {
    options.own.one_by_one(options.jobs)?;
    let seed = options.part.seed(&terminal.common)?;
    let slice = options.part.slice()?;
    let sources = sources(&options, terminal)?;
    let mut servers = options.own.servers()?;
    if let Some(servers) = &mut servers {
        #[cfg(feature = "kube")]
        if let Some(namespace) = &options.chaos_mesh {
            servers.engine = Some(super::kube::engine(namespace, servers.kind()).await?);
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
    let (mut planned, digests): (Vec<Planned>, Vec<Digest>) = planned.into_iter().unzip();
    let mut part = None;
    if let Some(slice) = slice.filter(|_| !options.share.by_client()) {
        let all = planned.iter().zip(digests);
        let all = all.map(|(Planned { plan, .. }, digest)| (plan.name.clone(), plan.seed, digest));
        part = Some(slice.record(all));
        planned.retain(|planned| slice.has(&planned.plan.name, planned.plan.seed));
        not_applicable.retain(|skipped| slice.has(&skipped.name, seed));
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
    let how = ScenarioRunOptions {
        own_lock: options.own_lock(),
        toxiproxy: options.toxiproxy,
        compress_above: options.compress_above,
        ..ScenarioRunOptions::new(options.jobs as usize, servers.as_ref(), &prefix)
    };
    let ended = run_all(planned, how, &mut keeper).await;
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

/// A scenario that was asked for, read once.
pub(crate) struct Source {
    pub(crate) file: String,
    text: String,
    /// Or everything that is wrong with it.
    pub(crate) scenario: Result<Scenario, String>,
}

impl Source {
    pub(crate) fn of(one: &Builtin) -> Self {
        Self::new(one.path.to_owned(), one.text.to_owned())
    }

    fn new(file: String, text: String) -> Self {
        let scenario = Scenario::parse(&file, &text).map_err(|errors| errors.to_string());
        Self {
            file,
            text,
            scenario,
        }
    }

    #[cfg(feature = "kube")]
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// What is wrong with faults, with their lines; without a number with all that are drawn.
    pub(crate) fn complaints(
        &self,
        wrong: impl IntoIterator<Item = (impl Into<Option<usize>>, String)>,
    ) -> String {
        let complaints = wrong.into_iter().map(|(index, why)| {
            let (heading, index) = match index.into() {
                Some(index) => ("[[faults]]", index),
                None => ("[random]", 0),
            };
            let lines = (1..).zip(self.text.lines());
            let mut begins = lines.filter(|(_, line)| line.trim_start().starts_with(heading));
            let line = begins.nth(index).map_or(1, |(line, _)| line);
            format!("{}:{line}:1: {why}", self.file)
        });
        complaints.collect::<Vec<_>>().join("\n")
    }
}

/// The scenario of a file, or the built-in one of that name.
pub(crate) fn source(name: &str) -> anyhow::Result<Source> {
    if let Some(builtin) = builtin::find(name).filter(|_| !Path::new(name).is_file()) {
        return Ok(Source::of(builtin));
    }
    if Path::new(name).is_file() || name.ends_with(".toml") || name.contains('/') {
        let text = files::read(name).map_err(exit::input)?;
        return Ok(Source::new(name.to_owned(), text));
    }
    Err(exit::input(format!(
        "`{name}` is neither a file nor a built-in scenario{} (`locklab list scenarios` shows all)",
        results::spelling::nearest(name, BUILTINS.iter().map(|builtin| builtin.name))
    )))
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

/// The seeds of each scenario.
pub(crate) fn seeds(first: u64, repeat: u32) -> impl Iterator<Item = u64> + Clone {
    (0..u64::from(repeat)).map(move |offset| first.wrapping_add(offset))
}

/// A scenario that was not tried with a lock, and why.
fn skipped(name: &str, topology: TopologyKind, subject: &str, why: String) -> NotApplicable {
    NotApplicable {
        name: name.to_owned(),
        topology: topology.to_string(),
        subject: subject.to_owned(),
        why,
    }
}

/// A scenario that is not run, and why.
enum SkippedScenario {
    /// It is wrong, or wrong for these servers.
    Wrong(String),
    /// It is not for this lock, or its server is not here; the others are run.
    Out(NotApplicable),
}

/// Plans everything before anything starts.
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
    ) -> anyhow::Result<(Vec<(Planned, Digest)>, Vec<NotApplicable>)> {
        let (mut planned, mut not_applicable, mut wrong) = (Vec::new(), Vec::new(), Vec::new());
        for source in &sources {
            match self.one(source).await? {
                Ok(plans) => planned.extend(plans),
                // The suite goes on with what such a server can do.
                Err(SkippedScenario::Wrong(why))
                    if self.options.all && self.options.toxiproxy.is_some() =>
                {
                    self.terminal.warn(&format!("left out: {why}"));
                }
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
    ) -> anyhow::Result<Result<Vec<(Planned, Digest)>, SkippedScenario>> {
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
                planned.push((Planned { plan, subject }, digest));
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
        let beyond = self.options.toxiproxy.map(|_| beyond_toxiproxy(&scenario));
        if let Some(wrong) = beyond.filter(|wrong| !wrong.is_empty()) {
            return Err(SkippedScenario::Wrong(source.complaints(wrong)));
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
        let found = bench::subjects::find(&name).map_err(exit::usage)?;
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

/// Plans one scenario for one seed, for its own lock.
pub(crate) fn planned_one(scenario: &Scenario, seed: u64) -> anyhow::Result<Planned> {
    let wrong = |why: String| exit::input(format!("{}: {why}", scenario.name));
    let name = &scenario.lock.subject;
    let found = bench::subjects::find(name).map_err(|error| wrong(error.to_string()))?;
    let fitting = fitted(scenario, name, &Abilities::assumed(found.kinds())).map_err(wrong)?;
    Ok(Planned {
        subject: in_processes(found)?,
        plan: Plan::new(&fitting, seed),
    })
}

/// The lock that a plan is for, each of its clients a process.
pub(crate) fn subject_of(plan: &Plan) -> anyhow::Result<Arc<dyn Subject>> {
    let found = bench::subjects::find(&plan.lock.subject)
        .map_err(|error| exit::input(format!("{}: {error}", plan.name)))?;
    in_processes(found)
}

/// Every client of a scenario is a process of its own, so that it can be stopped and killed like anybody's.
pub(crate) fn in_processes(subject: Arc<dyn Subject>) -> anyhow::Result<Arc<dyn Subject>> {
    if let Some(why) = subject.missing() {
        return Err(exit::missing(why));
    }
    if subject.program().is_some() {
        return Ok(subject);
    }
    if !subject.parts().is_empty() {
        let parts = subject.parts().iter().cloned().map(in_processes);
        return match Mixed::new(parts.collect::<Result<_, _>>()?) {
            Ok(mixed) => Ok(Arc::new(mixed)),
            Err(error) => Err(exit::input(error.to_string())),
        };
    }
    let program = std::env::current_exe().map_err(|error| {
        exit::missing(format!(
            "{error} It says where this program is, which each client runs"
        ))
    })?;
    let program = program.to_string_lossy().into_owned();
    let command = vec![program, "driver".to_owned(), subject.name().to_owned()];
    Ok(Arc::new(ExecSubject::for_subject(
        subject.as_ref(),
        command,
    )))
}

/// How scenarios are run.
pub(crate) struct ScenarioRunOptions {
    /// How many at a time.
    jobs: usize,
    /// The lock is the user's own: its exit code says whether it was lost, whatever files expect.
    own_lock: bool,
    /// Somebody's own servers; `None`: each scenario starts its own.
    external: Option<Arc<dyn Provisioner>>,
    /// The API of the Toxiproxy server that harms links.
    toxiproxy: Option<SocketAddr>,
    /// Who carries faults out besides the harness.
    engine: Option<Arc<dyn Engine>>,
    /// A history of more bytes is kept compressed; `None`: the default.
    compress_above: Option<u64>,
}

impl ScenarioRunOptions {
    /// So many at a time, each on servers of its own, or on somebody's own for the run whose keys begin so.
    pub(crate) fn new(jobs: usize, servers: Option<&Servers>, prefix: &str) -> Self {
        Self {
            jobs,
            own_lock: false,
            external: servers.and_then(|servers| servers.for_run(prefix)),
            toxiproxy: None,
            engine: servers.and_then(|servers| servers.engine.clone()),
            compress_above: None,
        }
    }

    /// So many at a time, each on servers of its own.
    pub(crate) fn side_by_side(jobs: usize) -> Self {
        Self::new(jobs, None, "")
    }
}

/// A plan that was run: its number, its directory below the run's, and how it ended.
pub(crate) struct PlanOutcome {
    pub(crate) index: usize,
    pub(crate) dir: String,
    pub(crate) plan: Plan,
    pub(crate) result: Result<ScenarioRun, RunError>,
}

/// Runs plans side by side, each in its directory below `root`, and gives each as it ends.
pub(crate) fn run_each(
    planned: Vec<(String, Planned)>,
    how: &ScenarioRunOptions,
    root: &Path,
    cancel: &Cancel,
) -> anyhow::Result<impl Stream<Item = PlanOutcome> + use<>> {
    let runs = planned
        .into_iter()
        .enumerate()
        .map(|(index, (dir, planned))| {
            let provisioner = match &how.external {
                Some(external) => external.clone(),
                None => provisioner::of(&planned.plan.topology)?,
            };
            let mut options = RunOptions::new(root.join(&dir), planned.subject, provisioner);
            options.cancel = cancel.flag();
            options.toxiproxy = how.toxiproxy;
            options.engine = how.engine.clone();
            if let Some(bytes) = how.compress_above {
                options.plain_history_max_bytes = bytes;
            }
            let plan = planned.plan.clone();
            plans::seal(&options.dir.join(PLAN_FILE), &plan.to_json());
            let run = async move { run_scenario(&planned.plan, &options).await };
            // A task of its own: judging one history must not stop the clock of the scenarios that run beside it.
            Ok(async move {
                let result = tokio::spawn(run).await.unwrap_or_else(|error| {
                    let words = error.try_into_panic().ok();
                    let words = words.and_then(|words| words.downcast::<String>().ok());
                    let words = words.map_or_else(String::new, |words| format!(": {words}"));
                    Err(RunError::Other(format!("it ended in a panic{words}")))
                });
                PlanOutcome {
                    index,
                    dir,
                    plan,
                    result,
                }
            })
        });
    let runs = runs.collect::<anyhow::Result<Vec<_>>>()?;
    Ok(futures_util::stream::iter(runs).buffer_unordered(how.jobs))
}

/// Runs all and keeps each as it ends. Gives the worst exit code.
pub(crate) async fn run_all(
    planned: Vec<Planned>,
    how: ScenarioRunOptions,
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
    let widths = (
        widest(|plan| &plan.name),
        widest(|plan| plan.topology.kind.name()),
    );
    let numbered = (1..).zip(planned).map(|(number, planned)| {
        let plan = &planned.plan;
        let dir = match several {
            true => format!("{number:02}-{}-{}", plan.name, plan.seed),
            false => String::new(),
        };
        (dir, planned)
    });
    let mut running = run_each(numbered.collect(), &how, &keeper.path(), &keeper.cancel)?;
    let mut code = exit::AS_EXPECTED;
    let mut kept: Vec<(usize, ScenarioResult)> = Vec::new();
    while let Some(ended) = running.next().await {
        let PlanOutcome {
            index,
            dir,
            plan,
            result,
        } = ended;
        match result {
            Ok(ScenarioRun {
                mut result,
                warnings,
                ..
            }) => {
                for warning in warnings {
                    terminal.warn(&format!("{} (seed {}): {warning}", plan.name, plan.seed));
                }
                result.dir = dir;
                if how.own_lock {
                    result.exit_code = chaos::outcome::judge_lock(&result);
                }
                code = exit::worse(code, result.exit_code);
                let line = line(&result, widths);
                bar.set_message(crate::terminal::message(&line));
                terminal.detail(&line);
                kept.push((index, result));
                kept.sort_by_key(|(index, _)| *index);
                keeper.run.scenarios = kept.iter().map(|(_, result)| result.clone()).collect();
                keeper.save()?;
            }
            Err(RunError::NotApplicable(why)) => {
                let skipped = skipped(&plan.name, plan.topology.kind, &plan.lock.subject, why);
                terminal.detail(&skipped.to_string());
                keeper.run.not_applicable.push(skipped);
                keeper.save()?;
            }
            // What was measured before an error is kept; the others go on.
            Err(error) => {
                let failure = code_of(&error);
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

pub(crate) fn code_of(error: &RunError) -> u8 {
    match error {
        RunError::Missing(_) => exit::MISSING,
        RunError::Input(why) | RunError::NotApplicable(why) => exit::of_text(exit::INPUT, why),
        RunError::Other(why) => exit::of_text(exit::DEFECT, why),
    }
}

/// A line of progress, its first two columns so wide.
fn line(result: &ScenarioResult, (name, topology): (usize, usize)) -> String {
    format!(
        "{:<name$}  {:<topology$}  {}",
        result.name,
        result.topology,
        result.said()
    )
}
