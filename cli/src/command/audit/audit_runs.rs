//! The runs of an audit: each lock on each scenario that fits it, and a sound lock beside each suspicion.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use chaos::audit::{OpenQuestion, beside, doubt, fitted};
use chaos::batch::{PlanOutcome, PlannedRun, run_each};
use chaos::plan::Plan;
use chaos::run::{RunError, ScenarioRun, missing_server};
use chaos::scenario::scenario_text;
use chaos::shrink_search::{GRAVEST_FIRST, SmallestPlanSearch};
use futures_util::StreamExt as _;
use results::audit::{
    AuditOutcome, AuditedRun, AuditedScenario, AuditedSubject, JudgedRun, ShrunkScenario, SoundTwin,
};
use results::command_line::shell_line;
use results::run::ScenarioResult;
use results::verdict::State;

use super::super::run::Keeper;
use super::super::scenario_batch::batch_options;
use super::meet::ProbedLock;
use super::{AuditRun, AuditScenario};
use crate::files;
use crate::terminal::Terminal;

/// `run.json` grows with every run, so it is not written after each.
const SAVED_EVERY: Duration = Duration::from_secs(3);

/// Why there is no result: an outcome, and the reason.
type Nothing = (AuditOutcome, String);

struct Cell {
    subject: usize,
    asked: usize,
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

pub(super) struct AuditRuns<'a> {
    work: &'a AuditRun<'a>,
    met: &'a [ProbedLock],
    cells: Vec<Cell>,
    /// Runs so far, for the names of their directories.
    begun: usize,
    saved: Option<Instant>,
}

impl<'a> AuditRuns<'a> {
    pub(super) fn new(work: &'a AuditRun<'a>, met: &'a [ProbedLock]) -> Self {
        let mut cells = Vec::new();
        for (asked, one) in work.scenarios.iter().enumerate() {
            for (subject, met) in met.iter().enumerate() {
                let plans = plans(work, one, met);
                // What no part runs is said by the one of the first seed.
                let mine = match &plans {
                    Ok(plans) => !plans.is_empty(),
                    Err(_) => work.has(one, work.seed),
                };
                if mine {
                    cells.push(Cell {
                        subject,
                        asked,
                        plans,
                        runs: Vec::new(),
                        smallest: None,
                    });
                }
            }
        }
        Self {
            work,
            met,
            cells,
            begun: 0,
            saved: None,
        }
    }

    pub(super) async fn run(&mut self, keeper: &mut Keeper) -> anyhow::Result<()> {
        let mut planned = Vec::new();
        for (place, cell) in self.cells.iter().enumerate() {
            for plan in cell.plans.iter().flatten() {
                let subject = self.met[cell.subject].subject.clone();
                let plan = plan.clone();
                planned.push((place, PlannedRun { plan, subject }));
            }
        }
        self.each(planned, "scenarios", keeper, |cells, place, ran| {
            cells[*place].runs.push(CellRun {
                ran,
                twin: None,
                second: None,
            });
        })
        .await
    }

    /// Settles what is in doubt: a sound lock on the same scenario and seed, and the same plan once more.
    pub(super) async fn settle(&mut self, keeper: &mut Keeper) -> anyhow::Result<()> {
        let mut twins: BTreeMap<(usize, u64), PlannedRun> = BTreeMap::new();
        let mut planned = Vec::new();
        for (place, cell) in self.cells.iter().enumerate() {
            let asked = &self.work.scenarios[cell.asked];
            for (number, tried) in cell.runs.iter().enumerate() {
                let doubt = doubt_of(asked, tried);
                let is_twin = twin(asked) == self.met[cell.subject].audited.name;
                if doubt != OpenQuestion::None && !is_twin {
                    let key = (cell.asked, tried.ran.seed);
                    let mut scenario = asked.scenario.clone();
                    scenario.lock.subject = twin(asked).to_owned();
                    twins.insert(key, PlannedRun::of_scenario(&scenario, key.1)?);
                }
                if doubt == OpenQuestion::LivenessAlone {
                    let plans = cell.plans.iter().flatten();
                    let same = plans.filter(|plan| plan.seed == tried.ran.seed).cloned();
                    let subject = &self.met[cell.subject].subject;
                    planned.extend(same.map(|plan| {
                        let subject = subject.clone();
                        (
                            FollowUpRun::Again(place, number),
                            PlannedRun { plan, subject },
                        )
                    }));
                }
            }
        }
        let twins = twins
            .into_iter()
            .map(|((asked, seed), one)| (FollowUpRun::Twin(asked, seed), one));
        planned.extend(twins);
        let (work, met) = (self.work, self.met);
        self.each(planned, "doubts", keeper, |cells, key, ran| match key {
            FollowUpRun::Again(place, number) => cells[*place].runs[*number].second = Some(ran),
            FollowUpRun::Twin(scenario, seed) => {
                let asked = &work.scenarios[*scenario];
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

    /// Looks for the smallest scenario of each conviction, for so long each.
    pub(super) async fn shrink(
        &mut self,
        within: Duration,
        keeper: &mut Keeper,
    ) -> anyhow::Result<()> {
        let work = self.work;
        let root = keeper.path();
        let searches = self.cells.iter().enumerate().filter_map(|(place, cell)| {
            let audited = self.scenario(cell);
            let run = audited
                .decisive()
                .filter(|run| run.judged.outcome == AuditOutcome::Broken)?;
            let violated = |class: &&str| run.judged.verdicts.get(*class) == Some(&State::Violated);
            let class = GRAVEST_FIRST.into_iter().find(violated)?;
            let plan = cell
                .plans
                .iter()
                .flatten()
                .find(|plan| plan.seed == run.seed)?;
            let (plan, file, root) = (plan.clone(), format!("{}/small.toml", run.dir), &root);
            Some(async move {
                let dir = files::work_dir()?;
                let search = SmallestPlanSearch {
                    dir: dir.path().to_owned(),
                    class: class.to_owned(),
                    cancel: work.cancel.flag(),
                };
                let until = Some(Instant::now() + within);
                let found = search.run(&plan, u32::MAX, until, |_| {}).await?;
                let Some(found) = found else {
                    return anyhow::Ok((place, None));
                };
                let text = scenario_text(found.smallest());
                results::store::write_whole(&root.join(&file), text.as_bytes())?;
                let smallest = ShrunkScenario {
                    file,
                    text,
                    violates: class.to_owned(),
                    done: found.is_done(),
                };
                Ok((place, Some(smallest)))
            })
        });
        let searches: Vec<_> = searches.collect();
        let bar = work
            .terminal
            .bar(searches.len().max(1) as u64, "smallest scenarios");
        let found = futures_util::stream::iter(searches).buffer_unordered(work.jobs);
        let found: Vec<_> = found.inspect(|_| bar.inc(1)).collect().await;
        bar.finish_and_clear();
        for found in found {
            match found {
                Ok((place, smallest)) => self.cells[place].smallest = smallest,
                Err(error) => work
                    .terminal
                    .detail(&format!("no smaller scenario: {error:#}")),
            }
        }
        self.keep(keeper)
    }

    /// Runs plans side by side; each is kept as it ends.
    async fn each<T>(
        &mut self,
        planned: Vec<(T, PlannedRun)>,
        word: &str,
        keeper: &mut Keeper,
        mut done: impl FnMut(&mut [Cell], &T, FinishedRun),
    ) -> anyhow::Result<()> {
        let work = self.work;
        let prefix = work.servers.map(|_| keeper.key_prefix());
        let bar = work.terminal.bar(planned.len().max(1) as u64, word);
        let mut keys = Vec::new();
        let mut numbered = Vec::new();
        for (key, mut planned) in planned {
            self.begun += 1;
            let (number, plan) = (self.begun, &mut planned.plan);
            if let Some(prefix) = &prefix {
                plan.prefix_locks(&format!("{prefix}{number}:"));
            }
            keys.push(key);
            numbered.push((format!("{number:03}-{}-{}", plan.name, plan.seed), planned));
        }
        let batch = batch_options(work.jobs, work.servers, keeper);
        let mut running = run_each(numbered, &batch, &keeper.path())?;
        while let Some(ended) = running.next().await {
            let index = ended.index;
            let name = ended.plan.name.clone();
            let ran = kept(ended, keeper, work.terminal);
            bar.set_message(crate::terminal::message(&format!(
                "{word}, {name} was the last"
            )));
            done(&mut self.cells, &keys[index], ran);
            bar.inc(1);
            if self.saved.is_none_or(|at| at.elapsed() > SAVED_EVERY) {
                self.keep(keeper)?;
            }
        }
        bar.finish_and_clear();
        self.keep(keeper)
    }

    fn keep(&mut self, keeper: &mut Keeper) -> anyhow::Result<()> {
        let mut subjects: Vec<AuditedSubject> =
            self.met.iter().map(|met| met.audited.clone()).collect();
        for cell in &self.cells {
            subjects[cell.subject].scenarios.push(self.scenario(cell));
        }
        subjects.iter_mut().for_each(AuditedSubject::count);
        if let Some(audit) = &mut keeper.run.audit {
            audit.subjects = subjects;
        }
        keeper.save()?;
        self.saved = Some(Instant::now());
        Ok(())
    }

    fn scenario(&self, cell: &Cell) -> AuditedScenario {
        let asked = &self.work.scenarios[cell.asked];
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
        let asked = &self.work.scenarios[cell.asked];
        let met = &self.met[cell.subject];
        let plan = cell.plans.as_ref().ok().and_then(|plans| plans.first());
        let (Some(plan), None) = (plan, self.work.servers) else {
            return String::new();
        };
        let name = &met.audited.name;
        let scenario = match chaos::builtin::find(&plan.name) {
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
fn plans(
    work: &AuditRun<'_>,
    asked: &AuditScenario,
    met: &ProbedLock,
) -> Result<Vec<Plan>, Nothing> {
    let has = met.on(asked.scenario.topology.kind)?;
    let lacking = |why: String| (AuditOutcome::NotApplicable, why);
    if let Some(why) = &asked.refused {
        return Err(lacking(format!(
            "these servers cannot be used for it: {why}"
        )));
    }
    let (topology, faults) = (&asked.scenario.topology, &asked.scenario.faults);
    if let (None, Some(why)) = (work.servers, missing_server(topology, faults)) {
        return Err(lacking(why));
    }
    let fitting = fitted(&asked.scenario, &met.audited.name, has).map_err(lacking)?;
    let seeds = super::super::scenario_source::seeds(work.seed, work.options.repeat)
        .filter(|seed| work.has(asked, *seed));
    Ok(seeds.map(|seed| Plan::new(&fitting, seed)).collect())
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

fn kept(ended: PlanOutcome, keeper: &mut Keeper, terminal: &Terminal) -> FinishedRun {
    let PlanOutcome {
        dir, plan, result, ..
    } = ended;
    let about = format!(
        "{} by {} (seed {})",
        plan.name, plan.lock.subject, plan.seed
    );
    let result = match result {
        Ok(ScenarioRun {
            mut result,
            partial,
            warnings,
        }) => {
            for warning in warnings {
                terminal.detail(&format!("{about}: {warning}"));
            }
            result.dir = dir.clone();
            if !result.operations.is_empty() {
                keeper.run.scenarios.push(result.clone());
            }
            match partial {
                true => Err((AuditOutcome::Unknown, "it was interrupted".to_owned())),
                false => Ok(result),
            }
        }
        Err(RunError::NotApplicable(why)) => Err((AuditOutcome::NotApplicable, why)),
        Err(error) => Err((AuditOutcome::Unknown, error.to_string())),
    };
    if let Err((outcome, why)) = &result {
        terminal.detail(&format!("{about}: {}: {why}", outcome.word()));
    }
    FinishedRun {
        seed: plan.seed,
        dir,
        result,
    }
}

fn run(asked: &AuditScenario, tried: &CellRun) -> AuditedRun {
    let twin = &tried.twin;
    let judged = match &tried.ran.result {
        Err((outcome, why)) => JudgedRun {
            outcome: *outcome,
            why: why.clone(),
            ..JudgedRun::default()
        },
        Ok(result) => {
            let of_twin = match twin {
                None => Err("was not tried beside it".to_owned()),
                Some((_, ran)) => {
                    let result = ran.result.as_ref();
                    result.map_err(|(_, why)| format!("could not be tried: {why}"))
                }
            };
            let of_twin = match &of_twin {
                Ok(result) => Ok(*result),
                Err(why) => Err(why.as_str()),
            };
            let second = tried
                .second
                .as_ref()
                .and_then(|ran| ran.result.as_ref().ok());
            beside(&asked.scenario, result, self::twin(asked), of_twin, second)
        }
    };
    AuditedRun {
        seed: tried.ran.seed,
        dir: tried.ran.dir.clone(),
        judged,
        twin: twin.as_ref().map(|(subject, ran)| SoundTwin {
            subject: subject.clone(),
            dir: ran.dir.clone(),
        }),
    }
}
