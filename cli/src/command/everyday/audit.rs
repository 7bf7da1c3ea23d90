//! `locklab audit`: every scenario that fits a lock, a sound lock beside each conviction, a short bench; a
//! scorecard.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bench::subjects::startable;
use chaos::audit::probe::ProbedLock;
use chaos::audit::runs::{AuditObserver, AuditPlan, AuditRuns, AuditScenario, meet_all};
use chaos::plan::Plan;
use chaos::plan_parts;
use chaos::run::RunError;
use chaos::scenario::{Scenario, Suite};
use chaos::scenario_source::{ScenarioSource, seeds};
use clap::Args;
use clap::builder::PossibleValuesParser;
use cluster_config::{Links, Topology, TopologyKind};
use indicatif::ProgressBar;
use results::audit::{Audit, AuditOutcome, AuditedSubject};
use results::report;
use results::run::ScenarioResult;

use crate::args::ResultArgs;
use crate::bench_run::{measure, record_server, short_plan, start_servers};
use crate::exit;
use crate::parts::PartArgs;
use crate::project::Project;
use crate::run::{Keeper, NOTHING_TRIED};
use crate::scenario_batch::{JOBS, batch_options};
use crate::target::{OwnServers, remove_keys};
use crate::terminal::Terminal;

#[derive(Debug, Args)]
#[command(after_help = include_str!("../../../help/audit.txt").trim_end())]
pub(crate) struct Options {
    /// Locks under test (`locklab list subjects`), or 'exec:PROGRAM ARG…' for a driver [default: the subject
    /// of locklab.toml]
    #[arg(value_name = "SUBJECT")]
    subjects: Vec<String>,
    /// How much is tried: quick, standard or full [default: the suite of locklab.toml, else standard]
    #[arg(long, value_name = "SUITE", value_parser = PossibleValuesParser::new(Suite::NAMES))]
    suite: Option<String>,
    /// Only these scenarios, by file or by built-in name, of whatever suite
    #[arg(
        long = "scenario",
        value_delimiter = ',',
        conflicts_with = "suite",
        value_name = "SCENARIO[,SCENARIO]"
    )]
    scenarios: Vec<String>,
    /// Run each scenario with seeds N … N+K−1; the worst run decides
    #[arg(long, default_value_t = 1, value_parser = crate::args::count, value_name = "K")]
    repeat: u32,
    #[command(flatten)]
    part: PartArgs,
    /// Scenarios at a time [default: 4; 1 with --target]
    #[arg(long, value_parser = crate::args::count, value_name = "N")]
    jobs: Option<u32>,
    #[command(flatten)]
    own: OwnServers,
    /// An earlier audit (its audit.json or run.json): names what was kept there and is broken now
    #[arg(long, value_name = "FILE")]
    against: Option<PathBuf>,
    /// Also write a JUnit file
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Look so long for the smallest scenario of each conviction [default: 60s with --suite full, else 0s,
    /// and 20s of the first one by drawn faults]
    #[arg(long, value_parser = crate::args::duration, value_name = "DURATION")]
    shrink: Option<Duration>,
    /// Draw faults on the messages of each lock for so long [default: 30s with --suite quick, else 3m; 0s
    /// with --scenario and --target]
    #[arg(long, value_parser = crate::args::duration, value_name = "DURATION")]
    draw: Option<Duration>,
    /// Measure nothing at the end
    #[arg(long)]
    no_bench: bool,
    #[command(flatten)]
    shown: ResultArgs,
}

/// How long the smallest scenario of a conviction is looked for, and of one by drawn faults.
const SHRINK: Duration = Duration::from_secs(60);
const SHRINK_DRAWN: Duration = Duration::from_secs(20);

impl Options {
    /// What the command line does not say, as the project's file says it.
    fn with_project(mut self) -> anyhow::Result<Self> {
        if self.subjects.is_empty() {
            let project = Project::here()?;
            self.subjects = project.lock()?;
            self.suite = self.suite.or(project.suite);
            self.own.target = self.own.target.or(project.target);
        }
        Ok(self)
    }

    /// How long faults are drawn on messages.
    fn draw_duration(&self) -> Duration {
        let usual = match self.suite() {
            _ if !self.scenarios.is_empty() => Duration::ZERO,
            "quick" => Duration::from_secs(30),
            _ => Duration::from_secs(180),
        };
        self.draw.unwrap_or(usual)
    }

    fn suite(&self) -> &str {
        self.suite.as_deref().unwrap_or("standard")
    }
}

pub(crate) async fn run(options: Options, terminal: &Terminal) -> anyhow::Result<u8> {
    let options = options.with_project()?;
    options.own.check_jobs(options.jobs.unwrap_or(1))?;
    let usual = options.own.target.as_ref().map_or(JOBS, |_| 1);
    let jobs = options.jobs.map_or(usual, |jobs| jobs as usize);
    let seed = options.part.seed(&terminal.common)?;
    let share = options.part.share()?;
    let base = options.against.as_deref().map(read_base).transpose()?;
    let names = bench::subjects::by_comma(&options.subjects);
    let mut systems = BTreeSet::new();
    for name in &names {
        let subject = startable(name)?;
        systems.insert(subject.system().map(str::to_owned));
    }
    let target = options.own.target.as_deref();
    if let Some(system) = target.and_then(bench::subjects::system_of) {
        systems = BTreeSet::from([Some(system.to_owned())]);
    }
    let (suite, sources) = suite_sources(&options, &systems)?;
    let mut servers = options.own.servers()?;
    if let Some(servers) = &mut servers {
        servers.check_allowed(&sources)?;
        servers.ask().await?;
    }
    let fit = |source: &ScenarioSource, scenario: Scenario| match &servers {
        Some(servers) => servers.fit_scenario(source, scenario),
        None => Ok(scenario),
    };
    let matrix = options.own.matrix()?;
    let scenarios = AuditScenario::all(sources, &names.join(", "), &matrix, &fit)?;
    let mut keeper = Keeper::begin(terminal, "audit", "audit", seed)?;
    keeper.shown = options.shown;
    let cancel = keeper.cancel.clone();
    terminal.note(&format!("seed {seed}, kept in {}", keeper.path().display()));
    keeper.run.audit = Some(Box::new(Audit { suite, ..Audit::default() }));
    let part = share.map(|share| {
        let seeds = seeds(seed, options.repeat);
        plan_parts::record(
            share,
            scenarios.iter().flat_map(|asked| {
                let share = |seed| (asked.scenario.name.clone(), seed, asked.digest.clone());
                seeds.clone().map(share)
            }),
        )
    });
    keeper.set_part(part)?;
    let plan = AuditPlan {
        scenarios,
        seeds: seeds(seed, options.repeat).collect(),
        share,
        batch: batch_options(jobs, servers.as_ref(), &keeper),
        key_prefix: servers.as_ref().map(|_| keeper.key_prefix()),
        root: keeper.path(),
    };
    let work = AuditRun { options: &options, names, plan, terminal };
    let done = work.run(&mut keeper).await;
    if let Some(servers) = &mut servers {
        remove_keys(servers, &keeper.key_prefix(), terminal).await;
    }
    if let Err(error) = &done {
        keeper.run.warnings.push(format!("ended early: {error:#}"));
    }
    let ended_early = cancel.is_wanted() || done.is_err();
    if keeper.is_empty() && share.is_none() && ended_early {
        keeper.discard();
        return if cancel.is_wanted() { Ok(exit::INTERRUPTED) } else { done.map(|()| exit::UNKNOWN) };
    }
    finish(keeper, &options, base.as_deref(), done)
}

fn finish(
    mut keeper: Keeper,
    options: &Options,
    base: Option<&[AuditedSubject]>,
    done: anyhow::Result<()>,
) -> anyhow::Result<u8> {
    let mut worst = None;
    if let Some(audit) = &mut keeper.run.audit {
        if let Some(base) = base {
            audit.regressions = results::audit::regressions(base, audit);
        }
        worst = audit.worst();
        for lost in &audit.regressions {
            keeper
                .terminal
                .warn(&format!("kept before and broken now: {} by {}", lost.scenario, lost.subject));
        }
    }
    let partial = keeper.cancel.is_wanted() || done.is_err();
    let code = match worst {
        Some(AuditOutcome::Broken) => exit::NOT_AS_EXPECTED,
        Some(AuditOutcome::Unknown) => exit::UNKNOWN,
        // A part may have nothing to run; `merge` says whether the whole had.
        None if keeper.run.part.is_none() && !partial => {
            keeper.terminal.warn(NOTHING_TRIED);
            exit::INPUT
        }
        _ => exit::AS_EXPECTED,
    };
    if let Some(part) = &mut keeper.run.part {
        part.exit_code = (!partial).then_some(code);
    }
    // Too few rounds for comparisons.
    keeper.run.comparisons.clear();
    keeper.run.as_expected = Some(!partial && code == exit::AS_EXPECTED);
    keeper.finish(partial)?;
    for (name, format) in [("audit.json", "json"), ("report.md", "markdown"), ("badge.svg", "svg")] {
        if let Some(format) = report::by_name(format) {
            keeper.write(name, &format.render(&keeper.run)?)?;
        }
    }
    if let Some(path) = &options.junit {
        keeper.write_junit(path)?;
    }
    match done {
        _ if keeper.cancel.is_wanted() => Ok(exit::INTERRUPTED),
        Err(error) => Err(error),
        Ok(()) => Ok(code),
    }
}

fn read_base(path: &Path) -> anyhow::Result<Vec<AuditedSubject>> {
    let text = results::limits::read_text(path).map_err(exit::input)?;
    let subjects = results::audit::subjects_of(&text);
    subjects.map_err(|why| exit::input(format!("{}: {why}", path.display())))
}

/// The name of the suite, and what it is made of: scenarios on the servers of these systems. Controls are no
/// part of one: they say nothing of a lock but their own.
fn suite_sources(
    options: &Options,
    systems: &BTreeSet<Option<String>>,
) -> anyhow::Result<(String, Vec<ScenarioSource>)> {
    if !options.scenarios.is_empty() {
        return Ok(("chosen".to_owned(), ScenarioSource::find_all(&options.scenarios)?));
    }
    let suite = Suite::of(options.suite()).map_err(exit::usage)?;
    let sources = ScenarioSource::suite(|one, scenario| {
        let system = scenario.topology.kind.system_name().map(str::to_owned);
        !one.control && scenario.audit.suite <= suite && systems.contains(&system)
    });
    Ok((options.suite().to_owned(), sources))
}

struct AuditRun<'a> {
    options: &'a Options,
    names: Vec<String>,
    plan: AuditPlan,
    terminal: &'a Terminal,
}

/// `run.json` grows with every run, so it is not written after each.
const SAVED_EVERY: Duration = Duration::from_secs(3);

/// Shows an audit as it goes on, and keeps what comes of it.
struct AuditKeeper<'a> {
    keeper: &'a mut Keeper,
    bar: ProgressBar,
    what: String,
    saved: Option<Instant>,
}

impl AuditObserver for AuditKeeper<'_> {
    fn begins(&mut self, steps: usize, what: &str) {
        self.bar = self.keeper.terminal.bar(steps as u64, what);
        what.clone_into(&mut self.what);
    }

    fn ended(&mut self, run: &Plan, warnings: &[String], result: Result<&ScenarioResult, &str>) {
        let terminal = &self.keeper.terminal;
        let (name, lock) = (&run.name, &run.lock.subject);
        let why = result.as_ref().err().copied();
        for said in warnings.iter().map(String::as_str).chain(why) {
            terminal.detail(&format!("{name} by {lock} (seed {}): {said}", run.seed));
        }
        let last = format!("{}, {name} was the last", self.what);
        self.bar.set_message(crate::terminal::message(&last));
        let result = result.ok().filter(|result| !result.operations.is_empty());
        self.keeper.run.scenarios.extend(result.cloned());
    }

    fn scored(
        &mut self,
        done: bool,
        scorecard: &mut dyn FnMut() -> Vec<AuditedSubject>,
    ) -> Result<(), RunError> {
        if done {
            self.bar.finish_and_clear()
        } else {
            self.bar.inc(1)
        }
        if done || self.saved.is_none_or(|at| at.elapsed() > SAVED_EVERY) {
            if let Some(audit) = &mut self.keeper.run.audit {
                audit.subjects = scorecard();
            }
            let saved = self.keeper.save();
            saved.map_err(|error| RunError::Other(format!("{error:#}")))?;
            self.saved = Some(Instant::now());
        }
        Ok(())
    }
}

impl AuditRun<'_> {
    async fn run(&self, keeper: &mut Keeper) -> anyhow::Result<()> {
        let met = self.meet_all(keeper).await?;
        let cancel = keeper.cancel.clone();
        if cancel.is_wanted() {
            return Ok(());
        }
        if let Some(version) = met.iter().find_map(|met| met.server.as_ref()) {
            record_server(keeper, &Topology::of(TopologyKind::Single), version);
        }
        let mut runs = AuditRuns::new(&self.plan, &met);
        let mut kept = AuditKeeper {
            bar: ProgressBar::hidden(),
            what: String::new(),
            saved: None,
            keeper: &mut *keeper,
        };
        runs.run(&mut kept).await?;
        let is_first = self.plan.share.is_none_or(|share| share.index == 0);
        let draw_duration = self.options.draw_duration();
        if is_first && !draw_duration.is_zero() && self.plan.key_prefix.is_none() {
            runs.draw(draw_duration, &mut kept).await?;
        }
        runs.settle(&mut kept).await?;
        let full = self.options.suite() == "full" && self.options.scenarios.is_empty();
        let usual = if full { (SHRINK, SHRINK) } else { (Duration::ZERO, SHRINK_DRAWN) };
        let (each, each_drawn) = self.options.shrink.map_or(usual, |limit| (limit, limit));
        if self.plan.key_prefix.is_none() {
            runs.shrink(each, each_drawn, &mut kept).await?;
        }
        if is_first && !self.options.no_bench && !cancel.is_wanted() {
            self.bench(&met, keeper).await?;
        }
        Ok(())
    }

    /// Learns what each lock has, and tries each driver against the protocol.
    async fn meet_all(&self, keeper: &Keeper) -> anyhow::Result<Vec<ProbedLock>> {
        let bar = self.terminal.bar(self.names.len() as u64, "locks, step by step");
        let target = self.options.own.target.as_deref();
        let prefix = keeper.key_prefix();
        let met = meet_all(&self.names, &self.plan, target, &prefix, &|| bar.inc(1)).await?;
        bar.finish_and_clear();
        for ProbedLock { audited, .. } in &met {
            for finding in audited.findings() {
                let line = format!("{}: {}: {}", audited.name, finding.name, finding.found);
                self.terminal.note(&line);
            }
        }
        Ok(met)
    }

    /// Measures those that said hello, in turns with each other; where that fails, each by itself.
    async fn bench(&self, met: &[ProbedLock], keeper: &mut Keeper) -> anyhow::Result<()> {
        for kind in TopologyKind::ALL {
            let measured = |met: &&ProbedLock| met.met_on == Some(kind) && met.is_measurable();
            let of_kind = met.iter().filter(measured);
            let names: Vec<String> = of_kind.map(|met| met.audited.name.clone()).collect();
            if names.is_empty() {
                continue;
            }
            if let Some(url) = &self.options.own.target {
                self.measure("external", url, &names, keeper).await?;
                continue;
            }
            let topology = Topology::of(kind);
            let deployment = start_servers(&topology, Links::Direct, kind.name(), &keeper.path()).await?;
            record_server(keeper, &topology, deployment.server_version());
            let ended = self.measure(kind.name(), &deployment.url(), &names, keeper).await;
            deployment.down().await?;
            ended?;
        }
        Ok(())
    }

    async fn measure(
        &self,
        topology: &str,
        url: &str,
        names: &[String],
        keeper: &mut Keeper,
    ) -> anyhow::Result<()> {
        let plan = short_plan(url, topology, names, keeper);
        let before = keeper.run.rows.len();
        let why = match measure(&plan, keeper).await {
            Ok(None) => return Ok(()),
            Ok(Some((_, why))) => why,
            Err(error) => format!("{error:#}"),
        };
        if names.len() == 1 || keeper.cancel.is_wanted() {
            let message = format!("{} was not measured: {why}", names.join(", "));
            self.terminal.warn(&message);
            keeper.run.warnings.push(message);
            return keeper.save();
        }
        keeper.run.rows.truncate(before);
        for name in names {
            let alone = std::slice::from_ref(name);
            Box::pin(self.measure(topology, url, alone, keeper)).await?;
        }
        Ok(())
    }
}
