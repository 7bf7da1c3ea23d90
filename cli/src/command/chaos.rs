//! Runs scenarios side by side, planned first, and keeps each as soon as it is done.

use std::collections::BTreeMap;
use std::net::{SocketAddr, ToSocketAddrs as _};
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
use clap::Args;
use cluster_config::{External, Provisioner, TopologyKind};
use futures_util::{Stream, StreamExt as _};
use results::run::{NotApplicable, ScenarioResult};
use results::verdict::State;

use super::abilities::ask;
use super::chaos_part::ShareArgs;
use super::part::PartArgs;
use super::provisioner::{self, ProvisionerArgs};
use super::run::Keeper;
use super::target::{OwnServers, Servers, on_target};
use crate::args::Common;
use crate::cancel::Cancel;
use crate::exit;
use crate::files;
use crate::terminal::Terminal;

/// Flags of `chaos`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Scenario files, or names of built-in ones (`locklab list scenarios`)
    #[arg(required_unless_present = "all", value_name = "SCENARIO")]
    scenarios: Vec<String>,
    /// Every built-in scenario, controls included
    #[arg(long, conflicts_with = "scenarios")]
    all: bool,
    /// Another lock in the scenarios' place, e.g. baseline:set-nx-px or 'exec:PROGRAM ARG…'
    #[arg(long, value_name = "S")]
    subject: Option<String>,
    #[command(flatten)]
    own: OwnServers,
    /// Enter a network of its own first, where the kernel allows it: no port collides, and links between servers are cut by dropping packets
    #[arg(long, conflicts_with = "target")]
    pub(crate) isolate: bool,
    /// Let a Toxiproxy server do the harm to links, by the address of its API: faults that it cannot do are refused
    #[arg(long, conflicts_with = "isolate", value_name = "HOST:PORT", value_parser = toxiproxy)]
    toxiproxy: Option<SocketAddr>,
    /// Let Chaos Mesh in this namespace do the harm to the target's pods, from within one of them; what it has no word for stays the harness's
    #[cfg(feature = "kube")]
    #[arg(long, requires = "target", value_name = "NAMESPACE")]
    chaos_mesh: Option<String>,
    /// Run each scenario with seeds N … N+K−1
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..), value_name = "K")]
    repeat: u32,
    #[command(flatten)]
    part: PartArgs,
    #[command(flatten)]
    share: ShareArgs,
    /// Scenarios at a time
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..), value_name = "N")]
    jobs: u32,
    /// Also write a JUnit file
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Keep a history of more than this as history.jsonl.zst, once it was judged; 0: every one
    #[arg(long, value_name = "SIZE", value_parser = crate::args::bytes)]
    compress_above: Option<u64>,
    /// Print the plan and start nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    provisioner: ProvisionerArgs,
}

/// A plan and the lock that it is for.
pub(crate) struct Planned {
    pub(crate) plan: Plan,
    pub(crate) subject: Arc<dyn Subject>,
}

pub(crate) async fn run(
    options: Options,
    common: &Common,
    terminal: &Terminal,
) -> anyhow::Result<u8> {
    options.own.one_by_one(options.jobs)?;
    let seed = options.part.seed(common)?;
    let slice = options.part.slice()?;
    let sources = sources(&options, terminal)?;
    // What can be said without the servers is said before they are asked.
    let mut servers = match &options.own.target {
        Some(url) => Some(Servers::unasked(url, options.own.yes_this_is_mine)?),
        None => None,
    };
    #[cfg(feature = "kube")]
    let engine = super::kube::engine(options.chaos_mesh.as_deref(), servers.as_ref()).await?;
    #[cfg(not(feature = "kube"))]
    let engine: Option<Arc<dyn Engine>> = None;
    servers = servers.map(|servers| servers.with_engine(engine.clone()));
    if let Some(servers) = &servers {
        check_allowed(&sources, servers, &options.own.allow)?;
    }
    let external = match &options.own.target {
        Some(url) if !options.dry_run => {
            Some(super::target::external(url, options.own.yes_this_is_mine).await?)
        }
        _ => None,
    };
    if let Some(external) = &external {
        servers = Some(Servers::of(external).with_engine(engine.clone()));
    }
    let (mut planned, mut not_applicable) =
        plans(&options, sources, servers.as_ref(), seed, terminal).await?;
    let mut part = None;
    if let Some(slice) = slice.filter(|_| !options.share.by_client()) {
        let all = planned
            .iter()
            .map(|planned| (planned.plan.name.clone(), planned.plan.seed));
        part = Some(slice.record(all));
        planned.retain(|planned| slice.has(&planned.plan.name, planned.plan.seed));
        not_applicable.retain(|skipped| slice.has(&skipped.name, seed));
    }
    if options.dry_run {
        return dry_run(&planned, common, terminal);
    }
    if let (true, Some(external)) = (options.share.by_client(), &external) {
        let own = &options.own;
        return (options.share)
            .run(slice, planned, external, own, engine, terminal)
            .await;
    }
    let name = match planned.as_slice() {
        [one] => format!("chaos-{}", one.plan.name),
        _ => "chaos".to_owned(),
    };
    let mut keeper = Keeper::begin(terminal, "chaos", &name, seed)?;
    terminal.note(&format!("seed {seed}"));
    keeper.run.not_applicable = not_applicable;
    keeper.run.part = part;
    if slice.is_some() {
        // From now on it says so, also if it is killed.
        keeper.save()?;
    }
    let prefix = keeper.key_prefix();
    if external.is_some() {
        // Fresh by name: what an earlier scenario left on these servers is no business of the next.
        for (number, planned) in (1..).zip(&mut planned) {
            planned.plan.prefix_locks(&format!("{prefix}{number}:"));
        }
    }
    let for_run = |external: &External| Arc::new(external.for_run(&prefix)) as Arc<dyn Provisioner>;
    let how = How {
        external: external.as_ref().map(for_run),
        toxiproxy: options.toxiproxy,
        engine,
        compress_above: options.compress_above,
        ..How::side_by_side(options.jobs as usize)
    };
    let ended = run_all(planned, how, &mut keeper).await;
    if let Some(external) = &external {
        super::target::remove_keys(external, &prefix, terminal).await;
    }
    let code = ended?;
    if let Some(part) = &mut keeper.run.part {
        part.exit_code = Some(code);
    } else if keeper.is_empty() {
        keeper.discard();
        return Ok(code);
    }
    keeper.run.as_expected = Some(code == exit::AS_EXPECTED);
    keeper.finish(code > exit::UNKNOWN)?;
    if options.repeat > 1 && !common.json {
        terminal.result(&format!("\n{}", super::tally::table(&keeper.run.scenarios)));
    }
    if let Some(path) = &options.junit {
        write_junit(&keeper, path)?;
    }
    Ok(code)
}

/// A scenario that was asked for, read once.
pub(crate) struct Source {
    pub(crate) file: String,
    pub(crate) text: String,
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
}

/// The scenario of a file, or the built-in one of that name.
pub(crate) fn source(name: &str) -> anyhow::Result<Source> {
    if Path::new(name).is_file() {
        let text = files::read(name).map_err(exit::input)?;
        return Ok(Source::new(name.to_owned(), text));
    }
    builtin::find(name).map(Source::of).ok_or_else(|| {
        exit::input(format!(
            "`{name}` is neither a file nor a built-in scenario{}; `locklab list scenarios` shows those",
            results::nearest::nearest(name, BUILTINS.iter().map(|builtin| builtin.name))
        ))
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

/// Faults on servers beyond this machine need their owner's word, whatever the servers are.
pub(crate) fn check_allowed(
    sources: &[Source],
    servers: &Servers,
    allowed: &[String],
) -> anyhow::Result<()> {
    let wrong = sources.iter().filter_map(|source| {
        // What cannot be read is said with everything else that is wrong.
        let scenario = source.scenario.as_ref().ok()?;
        servers.not_allowed((&source.file, &source.text), scenario, allowed)
    });
    let wrong: Vec<String> = wrong.collect();
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(exit::usage(wrong.join("\n"))),
    }
}

/// Everything is planned before anything starts; all that is wrong is said together.
async fn plans(
    options: &Options,
    sources: Vec<Source>,
    servers: Option<&Servers>,
    seed: u64,
    terminal: &Terminal,
) -> anyhow::Result<(Vec<Planned>, Vec<NotApplicable>)> {
    let mut asked = Asked {
        options,
        known: BTreeMap::new(),
    };
    let mut planned = Vec::new();
    let mut not_applicable = Vec::new();
    let mut wrong = Vec::new();
    let matrix = options.own.matrix()?;
    for Source {
        file,
        text,
        scenario,
    } in sources
    {
        let source = (file.as_str(), text.as_str());
        let fitting = scenario.and_then(|scenario| match servers {
            None => Ok(scenario),
            Some(servers) => on_target(source, scenario, servers, &options.own.allow),
        });
        let fitting = fitting.and_then(|scenario| match options.toxiproxy {
            None => Ok(scenario),
            Some(_) => super::target::over_toxiproxy(source, scenario),
        });
        if let (Ok(scenario), None, true) = (&fitting, servers, options.all)
            && let Some(why) = missing_server(&scenario.topology, &scenario.faults)
        {
            let subject = options.subject.as_deref();
            let subject = subject.unwrap_or(&scenario.lock.subject);
            let skipped = skipped(&scenario.name, scenario.topology.kind, subject, why);
            terminal.note(&skipped.to_string());
            not_applicable.push(skipped);
            continue;
        }
        match fitting {
            // The suite goes on with what such a server can do.
            Err(why) if options.all && options.toxiproxy.is_some() => {
                terminal.warn(&format!("left out: {why}"));
            }
            Ok(scenario) => match asked.fitting(scenario).await? {
                Ok(mut scenario) => {
                    if servers.is_none() {
                        options.provisioner.apply(&mut scenario.topology);
                    }
                    for server in &matrix {
                        if let Some(server) = server {
                            scenario.topology.server.clone_from(&server.asked);
                        }
                        for offset in 0..u64::from(options.repeat) {
                            planned.push(planned_one(&scenario, seed.wrapping_add(offset))?);
                        }
                    }
                }
                Err(skipped) => {
                    terminal.note(&skipped.to_string());
                    not_applicable.push(skipped);
                }
            },
            Err(errors) => wrong.push(errors),
        }
    }
    match wrong.is_empty() {
        true => Ok((planned, not_applicable)),
        false => Err(exit::input(wrong.join("\n"))),
    }
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

/// What locks said of themselves, on servers of each shape.
struct Asked<'a> {
    options: &'a Options,
    known: BTreeMap<(String, String), Result<Abilities, SubjectError>>,
}

impl Asked<'_> {
    /// The scenario with the lock in it that is asked for, or why it is not for that lock. Servers of another shape are wrong usage where the
    /// scenario was named, and the suite goes on with those that fit.
    async fn fitting(
        &mut self,
        scenario: Scenario,
    ) -> anyhow::Result<Result<Scenario, NotApplicable>> {
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
        // What a file says of a lock of ours was looked at when it was read.
        if given.is_none() && found.program().is_none() && found.parts().is_empty() {
            return Ok(Ok(scenario));
        }
        let assumed = Abilities::assumed(found.kinds());
        if let (Err(why), false) = (place(scenario.topology.kind, &name, &assumed), all) {
            return Err(exit::usage(format!("{}: {why}", scenario.name)));
        }
        let has = match self.options.dry_run {
            true => assumed,
            false => match self.ask(&name, found, scenario.topology.kind).await? {
                Ok(has) => has,
                Err(SubjectError::NotApplicable(why)) => return Ok(Err(not(why))),
                // The run says what is wrong, and goes on with the next.
                Err(_) => assumed,
            },
        };
        Ok(fitted(&scenario, &name, &has).map_err(not))
    }

    async fn ask(
        &mut self,
        name: &str,
        found: Arc<dyn Subject>,
        shape: TopologyKind,
    ) -> anyhow::Result<Result<Abilities, SubjectError>> {
        let key = (name.to_owned(), shape.to_string());
        if let Some(known) = self.known.get(&key) {
            return Ok(known.clone());
        }
        let subject = in_processes(found)?;
        let logs = tempfile::tempdir()?;
        let (log, target) = (logs.path().join("hello.log"), &self.options.own.target);
        let answer = async |answer, _: &str| answer;
        let (has, _) = ask(subject.as_ref(), shape, target.as_deref(), log, answer).await?;
        self.known.insert(key, has.clone());
        Ok(has)
    }
}

/// Where a Toxiproxy server's API is.
fn toxiproxy(text: &str) -> Result<SocketAddr, String> {
    let addresses = text.to_socket_addrs().map_err(|error| {
        format!("`{text}` is no address of an API ({error}); write it as 127.0.0.1:8474")
    })?;
    addresses
        .into_iter()
        .find(|address| address.ip().is_loopback())
        .ok_or_else(|| {
            format!("`{text}` is not on this machine: the links of its servers pass here only, so Toxiproxy must run here too")
        })
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
    let program = std::env::current_exe()?.to_string_lossy().into_owned();
    let command = vec![program, "driver".to_owned(), subject.name().to_owned()];
    Ok(Arc::new(ExecSubject::for_subject(
        subject.as_ref(),
        command,
    )))
}

fn dry_run(planned: &[Planned], common: &Common, terminal: &Terminal) -> anyhow::Result<u8> {
    if common.json {
        let plans: Vec<&Plan> = planned.iter().map(|planned| &planned.plan).collect();
        let scenarios = plans
            .iter()
            .map(|plan| serde_json::json!({"name": plan.name, "seed": plan.seed}));
        terminal.result(&serde_json::to_string(
            &serde_json::json!({"schema": 1, "scenarios": scenarios.collect::<Vec<_>>(), "plans": plans}),
        )?);
    } else {
        for planned in planned {
            terminal.result(&planned.plan.to_text());
        }
    }
    Ok(exit::AS_EXPECTED)
}

/// How scenarios are run.
pub(crate) struct How {
    /// How many at a time.
    jobs: usize,
    /// Somebody's own servers; `None`: each scenario starts its own.
    pub(crate) external: Option<Arc<dyn Provisioner>>,
    /// The API of the Toxiproxy server that harms links.
    toxiproxy: Option<SocketAddr>,
    /// Who carries faults out besides the harness.
    engine: Option<Arc<dyn Engine>>,
    /// A history of more bytes is kept compressed; `None`: the default.
    compress_above: Option<u64>,
}

impl How {
    /// So many at a time, each on servers of its own.
    pub(crate) fn side_by_side(jobs: usize) -> Self {
        Self {
            jobs,
            external: None,
            toxiproxy: None,
            engine: None,
            compress_above: None,
        }
    }
}

/// A plan that was run: its number, its directory below the run's, and how it ended.
pub(crate) struct Ended {
    pub(crate) index: usize,
    pub(crate) dir: String,
    pub(crate) plan: Plan,
    pub(crate) result: Result<ScenarioRun, RunError>,
}

/// Runs plans side by side, each in its directory below `root`, and gives each as it ends.
pub(crate) fn run_each(
    planned: Vec<(String, Planned)>,
    how: &How,
    root: &Path,
    cancel: &Cancel,
) -> anyhow::Result<impl Stream<Item = Ended> + use<>> {
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
            let run = async move { run_scenario(&planned.plan, &options).await };
            // A task of its own: judging one history must not stop the clock of the scenarios that run beside it.
            Ok(async move {
                let result = tokio::spawn(run).await.unwrap_or_else(|error| {
                    Err(RunError::Other(format!("it ended in a panic: {error}")))
                });
                Ended {
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
    how: How,
    keeper: &mut Keeper,
) -> anyhow::Result<u8> {
    let terminal = keeper.terminal.clone();
    // Of a part also a single one: `merge` puts the parts side by side.
    let several = planned.len() > 1 || keeper.run.part.is_some();
    let bar = terminal.bar(planned.len() as u64, "scenarios");
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
        let Ended {
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
                code = exit::worse(code, result.exit_code);
                terminal.note(&line(&result));
                kept.push((index, result));
                kept.sort_by_key(|(index, _)| *index);
                keeper.run.scenarios = kept.iter().map(|(_, result)| result.clone()).collect();
                keeper.save()?;
            }
            Err(RunError::NotApplicable(why)) => {
                let skipped = skipped(&plan.name, plan.topology.kind, &plan.lock.subject, why);
                terminal.note(&skipped.to_string());
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
        terminal.warn("nothing was tried: no scenario is applicable to this lock");
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
        RunError::Input(_) | RunError::NotApplicable(_) => exit::INPUT,
        RunError::Other(_) => exit::DEFECT,
    }
}

fn line(result: &ScenarioResult) -> String {
    let verdict = match (result.as_expected, result.exit_code) {
        (true, _) => "as expected",
        (false, exit::UNKNOWN) => "unknown",
        (false, _) => "NOT as expected",
    };
    let states: Vec<String> = result
        .verdicts
        .iter()
        .filter(|(_, verdict)| verdict.state != State::Clean)
        .map(|(class, verdict)| match verdict.state {
            State::Violated => format!("{class} violated"),
            _ => format!("{class} unknown"),
        })
        .collect();
    let states = match states.as_slice() {
        [] => "all clean".to_owned(),
        some => some.join(", "),
    };
    format!(
        "{:<28} {:<9} {verdict}: {states}",
        result.name, result.topology
    )
}

pub(crate) fn write_junit(keeper: &Keeper, path: &Path) -> anyhow::Result<()> {
    let Some(junit) = results::report::by_name("junit") else {
        anyhow::bail!("the junit format is not registered");
    };
    let text = junit.render(&keeper.run)?;
    files::write(path, text).map_err(exit::input)
}
