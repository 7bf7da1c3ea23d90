//! The runs of an audit: each lock on each scenario that fits it, and a sound lock beside each suspicion.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bench::parts::GeneratorShare;
use cluster_config::TopologyKind;
use futures_util::StreamExt as _;
use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;
use results::audit::{
    AuditOutcome, AuditedRun, AuditedScenario, AuditedSubject, DrawnFaults, JudgedRun, ShrunkScenario,
    SoundTwin,
};
use results::command_line::shell_line;
use results::run::ScenarioResult;
use results::verdict::State;

use super::drawn_faults::{Point, least_tried_first};
use super::probe::{ProbedLock, meet};
use super::{OpenQuestion, beside, doubt, fitted, place};
use crate::batch::{BatchOptions, PlanOutcome, PlannedRun, run_each};
use crate::planning::plan::Plan;
use crate::planning::plan_parts::{self, Digest};
use crate::run::{RunError, ScenarioRun, missing_server};
use crate::scenario::scenario_source::{FitServers, MatrixServer, ScenarioSource, digest, on_server};
use crate::scenario::{Scenario, scenario_text};
use crate::search::shrink_search::{GRAVEST_FIRST, SmallestPlanSearch};

/// A scenario of an audit.
pub struct AuditScenario {
    /// By which words it is found.
    pub file: String,
    /// What it says.
    pub scenario: Scenario,
    /// The server of a matrix that it runs on; empty where none was named.
    pub server: String,
    /// Why it cannot be carried out on the target, if so.
    pub refused: Option<String>,
    /// What parts must have in common of it; nothing in it is drawn.
    pub digest: Digest,
}

impl AuditScenario {
    /// Scenarios as they were asked for, each on each server of a matrix; one about a server of its own stays
    /// on it.
    ///
    /// # Errors
    /// One that cannot be read.
    pub fn all(
        sources: Vec<ScenarioSource>,
        locks: &str,
        matrix: &[Option<MatrixServer>],
        fit: &FitServers<'_>,
    ) -> Result<Vec<Arc<Self>>, RunError> {
        let mut all = Vec::new();
        for source in sources {
            let given = source.scenario.clone().map_err(RunError::Input)?;
            let (scenario, refused) = match fit(&source, given.clone()) {
                Ok(fitted) => (fitted, None),
                Err(why) => (given.clone(), Some(why)),
            };
            let servers = if scenario.is_for_any_server() { matrix } else { &[None] };
            for server in servers.iter().map(Option::as_ref) {
                let mut scenario = scenario.clone();
                on_server(&mut scenario.topology, server);
                all.push(Arc::new(Self {
                    file: source.file.clone(),
                    scenario,
                    server: server.map_or_else(String::new, |server| server.name.clone()),
                    refused: refused.clone(),
                    digest: digest(&given, server, 0, locks)?,
                }));
            }
        }
        Ok(all)
    }
}

/// What an audit tries, and how.
pub struct AuditPlan {
    /// The scenarios.
    pub scenarios: Vec<Arc<AuditScenario>>,
    /// The seeds of each.
    pub seeds: Vec<u64>,
    /// The part of the plan that is run here; `None`: all of it.
    pub share: Option<GeneratorShare>,
    /// How its runs are made.
    pub batch: BatchOptions,
    /// What lock names begin with on somebody's own servers; `None`: each run starts its own.
    pub key_prefix: Option<String>,
    /// The directory below which each run has one.
    pub root: PathBuf,
}

impl AuditPlan {
    fn has(&self, asked: &AuditScenario, seed: u64) -> bool {
        self.share.is_none_or(|share| plan_parts::has(share, &asked.scenario.name, seed))
    }
}

/// Meets all locks of an audit, several at a time; `met` hears of each. None, where the audit is cancelled.
///
/// # Errors
/// What each lock needs to be met is missing.
pub async fn meet_all(
    names: &[String],
    plan: &AuditPlan,
    target: Option<&str>,
    prefix: &str,
    met: &(dyn Fn() + Sync),
) -> Result<Vec<ProbedLock>, RunError> {
    let asks = |shape: &TopologyKind| {
        let mut scenarios = plan.scenarios.iter();
        scenarios.any(|asked| asked.scenario.topology.kind == *shape)
    };
    let shapes: Vec<_> = TopologyKind::ALL.into_iter().filter(asks).collect();
    let meeting = (1..).zip(names).map(|(number, name)| {
        let logs = plan.root.join("logs").join(format!("subject-{number}"));
        let (prefix, shapes) = (format!("{prefix}meet-{number}:"), &shapes);
        async move {
            let probed = meet(name, shapes, target, &prefix, &logs).await;
            met();
            probed
        }
    });
    let meeting: Vec<_> = meeting.collect();
    let meeting = futures_util::stream::iter(meeting).buffered(plan.batch.jobs);
    let mut cancel = plan.batch.cancel.clone();
    tokio::select! {
        met = meeting.collect::<Vec<_>>() => met.into_iter().collect(),
        Ok(_) = cancel.wait_for(|is| *is) => Ok(Vec::new()),
    }
}

/// Hears what an audit does.
pub trait AuditObserver {
    /// So many steps begin; `what` they are.
    fn begins(&mut self, steps: usize, what: &str);
    /// A run ended with these warnings and this result, kept unless nothing happened; or why there is none.
    fn ended(&mut self, run: &Plan, warnings: &[String], result: Result<&ScenarioResult, &str>);
    /// A step is over: the scorecard as it stands, which is not to be lost where the steps are `done`.
    fn scored(
        &mut self,
        done: bool,
        scorecard: &mut dyn FnMut() -> Vec<AuditedSubject>,
    ) -> Result<(), RunError>;
}

/// So many suspicions of a lock by drawn faults are followed up: each costs two runs more.
const FOLLOWED_UP: usize = 8;

/// Why there is no result: an outcome, and the reason.
type Nothing = (AuditOutcome, String);

struct Cell {
    subject: usize,
    asked: usize,
    /// The point of the lock's protocol that it was drawn for; `None` of a scenario of the suite.
    drawn: Option<Point>,
    plans: Result<Vec<Plan>, Nothing>,
    runs: Vec<CellRun>,
    smallest: Option<ShrunkScenario>,
}

struct CellRun {
    ran: FinishedRun,
    /// The sound lock beside it, once that was tried.
    twin: Option<(String, FinishedRun)>,
    /// The same plan once more, where it has to come out the same.
    second: Option<FinishedRun>,
}

enum FollowUpRun {
    Twin(usize, u64),
    Again(usize, usize),
}

#[derive(Clone)]
struct FinishedRun {
    seed: u64,
    dir: String,
    result: Result<ScenarioResult, Nothing>,
}

/// An audit that is being made.
pub struct AuditRuns<'a> {
    plan: &'a AuditPlan,
    met: &'a [ProbedLock],
    /// Those of the plan, and those that were drawn.
    scenarios: Vec<Arc<AuditScenario>>,
    cells: Vec<Cell>,
    /// Runs so far, for the names of their directories.
    begun: usize,
}

impl<'a> AuditRuns<'a> {
    /// Decides what is to be run; starts nothing.
    pub fn new(plan: &'a AuditPlan, met: &'a [ProbedLock]) -> Self {
        let mut cells = Vec::new();
        for (asked, one) in plan.scenarios.iter().enumerate() {
            for (subject, met) in met.iter().enumerate() {
                let plans = plans(plan, one, met);
                // What no part runs is said by the one of the first seed.
                let mine = plans.as_ref().map_or_else(
                    |_| plan.seeds.first().is_some_and(|seed| plan.has(one, *seed)),
                    |plans| !plans.is_empty(),
                );
                if mine {
                    cells.push(Cell { subject, asked, drawn: None, plans, runs: Vec::new(), smallest: None });
                }
            }
        }
        Self { plan, met, scenarios: plan.scenarios.clone(), cells, begun: 0 }
    }

    /// Runs every plan.
    pub async fn run(&mut self, observer: &mut impl AuditObserver) -> Result<(), RunError> {
        let mut planned = Vec::new();
        for (place, cell) in self.cells.iter().enumerate() {
            for plan in cell.plans.iter().flatten() {
                let subject = self.met[cell.subject].subject.clone();
                let plan = plan.clone();
                planned.push((place, PlannedRun { plan, subject }));
            }
        }
        self.each(planned, "scenarios", None, observer, tried).await
    }

    /// Draws faults on the messages of each lock, for so long each: at each point of its protocol, what was
    /// least tried first.
    pub async fn draw(
        &mut self,
        within: Duration,
        observer: &mut impl AuditObserver,
    ) -> Result<(), RunError> {
        let locks = u32::try_from(self.met.len()).unwrap_or(u32::MAX);
        let until = Instant::now() + within.saturating_mul(locks);
        let Some(seed) = self.plan.seeds.first() else { return Ok(()) };
        let mut rng = ChaCha8Rng::seed_from_u64(*seed);
        for round in 0.. {
            let mut drawn = Vec::new();
            for subject in 0..self.met.len() {
                let points = self.points(subject, &mut rng);
                let points = points.into_iter().enumerate();
                drawn.extend(points.map(|(place, (point, asked))| (place, subject, point, asked)));
            }
            // Of several locks each has its turn.
            drawn.sort_by_key(|(place, subject, ..)| (*place, *subject));
            let first = self.cells.len();
            let mut planned = Vec::new();
            for (_, subject, drawn, mut asked) in drawn {
                if round > 0 {
                    asked.scenario.name = format!("{}-{}", asked.scenario.name, round + 1);
                }
                let met = &self.met[subject];
                let plans = plans(self.plan, &asked, met);
                let plan = plans.iter().flatten().next().cloned();
                planned.extend(plan.map(|plan| {
                    let subject = met.subject.clone();
                    (self.cells.len(), PlannedRun { plan, subject })
                }));
                self.cells.push(Cell {
                    subject,
                    asked: self.scenarios.len(),
                    drawn: Some(drawn),
                    plans,
                    runs: Vec::new(),
                    smallest: None,
                });
                self.scenarios.push(Arc::new(asked));
            }
            if planned.is_empty() || Instant::now() >= until || self.is_interrupted() {
                break;
            }
            self.each(planned, "drawn faults", Some(until), observer, tried).await?;
            for cell in &mut self.cells[first..] {
                let asked = &self.scenarios[cell.asked];
                for run in &mut cell.runs {
                    if doubt_of(asked, run) == OpenQuestion::MetNothing {
                        let why = "no such message passed".to_owned();
                        run.ran.result = Err((AuditOutcome::NotApplicable, why));
                    }
                }
            }
        }
        Ok(())
    }

    /// Each point of the table that a lock's protocol has, as far as is known, and how often it was tried.
    fn tries(&self, subject: usize) -> BTreeMap<Point, u32> {
        let tries = Point::all().filter_map(|point| {
            let cells = self.cells.iter();
            let of = |cell: &&Cell| cell.subject == subject && cell.drawn == Some(point);
            let outcomes: Vec<_> = cells.filter(of).map(|cell| self.scenario(cell).outcome).collect();
            let none = |one: &AuditOutcome| *one == AuditOutcome::NotApplicable;
            let known = outcomes.iter().filter(|one| !none(one) && **one != AuditOutcome::Unknown);
            let tried = u32::try_from(known.count()).unwrap_or(u32::MAX);
            (outcomes.is_empty() || !outcomes.iter().all(none)).then_some((point, tried))
        });
        tries.collect()
    }

    /// The points of a lock's protocol that are next, each with a scenario for it.
    fn points(&self, subject: usize, rng: &mut ChaCha8Rng) -> Vec<(Point, AuditScenario)> {
        let met = &self.met[subject];
        let shapes = [TopologyKind::Single, TopologyKind::Masters];
        let works = |shape: &TopologyKind| {
            let has = met.on(*shape).ok();
            has.is_some_and(|has| place(*shape, &met.audited.name, has).is_ok())
        };
        let Some(shape) = shapes.into_iter().find(works) else { return Vec::new() };
        let kinds = met.on(shape).map_or(&[][..], |has| &has.kinds);
        let scenarios = least_tried_first(self.tries(subject), rng).into_iter().map(|point| {
            let asked = AuditScenario {
                file: String::new(),
                scenario: point.scenario(shape, kinds, rng),
                server: String::new(),
                refused: None,
                digest: Digest::default(),
            };
            (point, asked)
        });
        scenarios.collect()
    }

    /// Settles what is in doubt: a sound lock on the same scenario and seed, and the same plan once more.
    pub async fn settle(&mut self, observer: &mut impl AuditObserver) -> Result<(), RunError> {
        let mut twins: BTreeMap<(usize, u64), PlannedRun> = BTreeMap::new();
        let mut planned = Vec::new();
        let mut followed_up = vec![0; self.met.len()];
        for (place, cell) in self.cells.iter().enumerate() {
            let asked = &self.scenarios[cell.asked];
            for (number, tried) in cell.runs.iter().enumerate() {
                let doubt = doubt_of(asked, tried);
                if cell.drawn.is_some() && doubt != OpenQuestion::None {
                    followed_up[cell.subject] += 1;
                    if followed_up[cell.subject] > FOLLOWED_UP {
                        continue;
                    }
                }
                let is_twin = twin(asked) == self.met[cell.subject].audited.name;
                if doubt != OpenQuestion::None && !is_twin {
                    let key = (cell.asked, tried.ran.seed);
                    let mut scenario = asked.scenario.clone();
                    scenario.lock.subject = twin(asked).to_owned();
                    twins.insert(key, PlannedRun::of_scenario(&scenario, key.1)?);
                }
                // What was drawn has no claim that was weighed beforehand: a conviction has to come again.
                let is_drawn = cell.drawn.is_some() && doubt == OpenQuestion::Violated;
                if doubt == OpenQuestion::LivenessAlone || is_drawn {
                    let plans = cell.plans.iter().flatten();
                    let same = plans.filter(|plan| plan.seed == tried.ran.seed).cloned();
                    let subject = &self.met[cell.subject].subject;
                    planned.extend(same.map(|plan| {
                        let subject = subject.clone();
                        (FollowUpRun::Again(place, number), PlannedRun { plan, subject })
                    }));
                }
            }
        }
        planned.extend(twins.into_iter().map(|((asked, seed), one)| (FollowUpRun::Twin(asked, seed), one)));
        let (scenarios, met) = (self.scenarios.clone(), self.met);
        self.each(planned, "doubts", None, observer, |cells, key, ran| match key {
            FollowUpRun::Again(place, number) => cells[*place].runs[*number].second = Some(ran),
            FollowUpRun::Twin(scenario, seed) => {
                let asked = &scenarios[*scenario];
                for cell in cells.iter_mut().filter(|cell| cell.asked == *scenario) {
                    let is_twin = twin(asked) == met[cell.subject].audited.name;
                    let of_seed = |tried: &&mut CellRun| tried.ran.seed == *seed && !is_twin;
                    for tried in cell.runs.iter_mut().filter(of_seed) {
                        if doubt_of(asked, tried) != OpenQuestion::None {
                            tried.twin = Some((twin(asked).to_owned(), ran.clone()));
                        }
                    }
                }
            }
        })
        .await
    }

    /// Looks for the smallest scenario of each conviction, for so long each. Of those by drawn faults, which
    /// mostly show one defect, each lock's first is taken.
    pub async fn shrink(
        &mut self,
        each: Duration,
        each_drawn: Duration,
        observer: &mut impl AuditObserver,
    ) -> Result<(), RunError> {
        let root = &self.plan.root;
        let mut drawn_subjects = HashSet::new();
        let searches = self.cells.iter().enumerate().filter_map(|(place, cell)| {
            let within = if cell.drawn.is_some() { each_drawn } else { each };
            if within.is_zero() {
                return None;
            }
            let audited = self.scenario(cell);
            let run = audited.decisive().filter(|run| run.judged.outcome == AuditOutcome::Broken)?;
            let violated = |class: &&str| run.judged.verdicts.get(*class) == Some(&State::Violated);
            let class = GRAVEST_FIRST.into_iter().find(violated)?;
            let plan = cell.plans.iter().flatten().find(|plan| plan.seed == run.seed)?;
            let (plan, file) = (plan.clone(), format!("{}/small.toml", run.dir));
            if cell.drawn.is_some() && !drawn_subjects.insert(cell.subject) {
                return None;
            }
            let cancel = self.plan.batch.cancel.clone();
            Some(async move {
                let failed = |error| RunError::io("write below", root, &error);
                let dir = tempfile::tempdir().map_err(failed)?;
                let search =
                    SmallestPlanSearch { dir: dir.path().to_owned(), class: class.to_owned(), cancel };
                let found = search.run(&plan, u32::MAX, Some(Instant::now() + within), |_| {}).await?;
                let Some(found) = found else { return Ok((place, None)) };
                let text = scenario_text(found.smallest());
                results::store::write_whole(&root.join(&file), text.as_bytes()).map_err(failed)?;
                let smallest =
                    ShrunkScenario { file, text, violates: class.to_owned(), done: found.is_done() };
                Ok((place, Some(smallest)))
            })
        });
        let searches: Vec<_> = searches.collect();
        if searches.is_empty() {
            return Ok(());
        }
        observer.begins(searches.len(), "smallest scenarios");
        let mut searching = futures_util::stream::iter(searches).buffer_unordered(self.plan.batch.jobs);
        let mut found: Vec<Result<_, RunError>> = Vec::new();
        while let Some(one) = searching.next().await {
            found.push(one);
            observer.scored(false, &mut || self.scorecard())?;
        }
        drop(searching);
        // A search that came to nothing costs nobody the audit.
        for (place, smallest) in found.into_iter().flatten() {
            self.cells[place].smallest = smallest;
        }
        observer.scored(true, &mut || self.scorecard())
    }

    /// An interrupted audit begins nothing more: each run would end at once, and rounds of drawn faults would
    /// follow each other until their time is over.
    fn is_interrupted(&self) -> bool {
        *self.plan.batch.cancel.borrow()
    }

    /// Runs plans side by side; each is kept as it ends.
    async fn each<T>(
        &mut self,
        planned: Vec<(T, PlannedRun)>,
        what: &str,
        until: Option<Instant>,
        observer: &mut impl AuditObserver,
        mut done: impl FnMut(&mut [Cell], &T, FinishedRun),
    ) -> Result<(), RunError> {
        let planned = if self.is_interrupted() { Vec::new() } else { planned };
        observer.begins(planned.len().max(1), what);
        let (mut keys, mut numbered) = (Vec::new(), Vec::new());
        for (key, mut planned) in planned {
            self.begun += 1;
            let (number, plan) = (self.begun, &mut planned.plan);
            if let Some(prefix) = &self.plan.key_prefix {
                plan.prefix_locks(&format!("{prefix}{number}:"));
            }
            keys.push(key);
            numbered.push((format!("{number:03}-{}-{}", plan.name, plan.seed), planned));
        }
        let batch = BatchOptions { until, ..self.plan.batch.clone() };
        let mut running = run_each(numbered, &batch, &self.plan.root)?;
        while let Some(ended) = running.next().await {
            done(&mut self.cells, &keys[ended.index], kept(ended, observer));
            observer.scored(false, &mut || self.scorecard())?;
        }
        observer.scored(true, &mut || self.scorecard())
    }

    fn scorecard(&self) -> Vec<AuditedSubject> {
        let mut subjects: Vec<AuditedSubject> = self.met.iter().map(|met| met.audited.clone()).collect();
        for cell in &self.cells {
            let audited = self.scenario(cell);
            // Of what was drawn only a conviction is a row of its own.
            if cell.drawn.is_none() || audited.outcome == AuditOutcome::Broken {
                subjects[cell.subject].scenarios.push(audited);
            }
        }
        for (number, subject) in subjects.iter_mut().enumerate() {
            subject.count();
            let of = |cell: &Cell| cell.subject == number && cell.drawn.is_some();
            subject.drawn = self.cells.iter().any(of).then(|| {
                let points = self.tries(number);
                let untried = points.iter().filter(|(_, tries)| **tries == 0);
                DrawnFaults {
                    points: points.len(),
                    tried: points.len() - untried.clone().count(),
                    untried: untried.map(|(point, _)| point.name()).collect(),
                }
            });
        }
        subjects
    }

    fn scenario(&self, cell: &Cell) -> AuditedScenario {
        let asked = &self.scenarios[cell.asked];
        let scenario = &asked.scenario;
        let mut audited = AuditedScenario {
            // Of several servers each is a row of its own.
            name: match asked.server.as_str() {
                "" => scenario.name.clone(),
                server => format!("{} on {server}", scenario.name),
            },
            topology: scenario.topology.kind.to_string(),
            about: scenario.about.clone(),
            claim: scenario.claim.clone(),
            outcome: AuditOutcome::Unknown,
            why: "it was not run: the audit ended early".to_owned(),
            again: self.again(cell),
            smallest: cell.smallest.clone(),
            ..AuditedScenario::default()
        };
        if let Err((outcome, why)) = &cell.plans {
            (audited.outcome, audited.why) = (*outcome, why.clone());
        }
        for tried in &cell.runs {
            audited.add(run(asked, tried));
        }
        audited
    }

    /// The command that makes a cell again from the scenario's file.
    fn again(&self, cell: &Cell) -> String {
        let asked = &self.scenarios[cell.asked];
        let met = &self.met[cell.subject];
        let plan = cell.plans.as_ref().ok().and_then(|plans| plans.first());
        let (Some(plan), None, None) = (plan, &self.plan.key_prefix, cell.drawn) else {
            return String::new();
        };
        let name = &met.audited.name;
        let scenario = match crate::scenario::builtin::find(&plan.name) {
            Some(builtin) if builtin.path == asked.file => builtin.name,
            _ => asked.file.as_str(),
        };
        let words = ["locklab", "chaos", scenario, "--subject", name, "--seed"];
        let mut words: Vec<String> = words.map(str::to_owned).into();
        words.push(plan.seed.to_string());
        if !asked.server.is_empty() {
            words.extend(["--server".to_owned(), asked.server.clone()]);
        }
        shell_line(&words)
    }
}

/// What is to be run of a scenario with a lock, or why nothing is.
fn plans(audit: &AuditPlan, asked: &AuditScenario, met: &ProbedLock) -> Result<Vec<Plan>, Nothing> {
    let has = met.on(asked.scenario.topology.kind)?;
    let lacking = |why: String| (AuditOutcome::NotApplicable, why);
    if let Some(why) = &asked.refused {
        return Err(lacking(format!("these servers cannot be used for it: {why}")));
    }
    let (topology, faults) = (&asked.scenario.topology, &asked.scenario.faults);
    if let (None, Some(why)) = (&audit.key_prefix, missing_server(topology, faults)) {
        return Err(lacking(why));
    }
    let fitting = fitted(&asked.scenario, &met.audited.name, has).map_err(lacking)?;
    let seeds = audit.seeds.iter().filter(|seed| audit.has(asked, **seed));
    Ok(seeds.map(|seed| Plan::new(&fitting, *seed)).collect())
}

fn twin(asked: &AuditScenario) -> &str {
    match asked.scenario.audit.twin.as_str() {
        "" => &asked.scenario.lock.subject,
        twin => twin,
    }
}

fn doubt_of(asked: &AuditScenario, tried: &CellRun) -> OpenQuestion {
    let result = tried.ran.result.as_ref();
    result.map_or(OpenQuestion::None, |result| doubt(&asked.scenario, result))
}

fn kept(ended: PlanOutcome, observer: &mut impl AuditObserver) -> FinishedRun {
    let PlanOutcome { dir, plan, result, .. } = ended;
    let result = match result {
        Ok(ScenarioRun { mut result, partial, warnings }) => {
            result.dir = dir.clone();
            observer.ended(&plan, &warnings, Ok(&result));
            match partial {
                true => Err((AuditOutcome::Unknown, "it was interrupted".to_owned())),
                false => Ok(result),
            }
        }
        Err(RunError::NotApplicable(why)) => Err((AuditOutcome::NotApplicable, why)),
        Err(error) => Err((AuditOutcome::Unknown, error.to_string())),
    };
    if let Err((outcome, why)) = &result {
        observer.ended(&plan, &[], Err(&format!("{}: {why}", outcome.word())));
    }
    FinishedRun { seed: plan.seed, dir, result }
}

fn tried(cells: &mut [Cell], place: &usize, ran: FinishedRun) {
    cells[*place].runs.push(CellRun { ran, twin: None, second: None });
}

fn run(asked: &AuditScenario, tried: &CellRun) -> AuditedRun {
    let twin = &tried.twin;
    let judged = match &tried.ran.result {
        Err((outcome, why)) => JudgedRun { outcome: *outcome, why: why.clone(), ..JudgedRun::default() },
        Ok(result) => {
            let of_twin = match twin {
                None => Err("was not tried beside it".to_owned()),
                Some((_, ran)) => {
                    ran.result.as_ref().map_err(|(_, why)| format!("could not be tried: {why}"))
                }
            };
            let of_twin = of_twin.as_ref().map(|result| *result).map_err(String::as_str);
            let second = tried.second.as_ref().and_then(|ran| ran.result.as_ref().ok());
            beside(&asked.scenario, result, self::twin(asked), of_twin, second)
        }
    };
    AuditedRun {
        seed: tried.ran.seed,
        dir: tried.ran.dir.clone(),
        judged,
        twin: twin
            .as_ref()
            .map(|(subject, ran)| SoundTwin { subject: subject.clone(), dir: ran.dir.clone() }),
    }
}
