//! The runs of an audit: each lock on each scenario that fits it, and a sound lock beside each suspicion.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use chaos::audit::{beside, fitted, judged};
use chaos::plan::Plan;
use chaos::run::{RunError, ScenarioRun};
use futures_util::StreamExt as _;
use results::audit::{AuditOutcome, AuditedRun, AuditedScenario, AuditedSubject, Judged, Twin};
use results::report::command_line;
use results::run::ScenarioResult;

use super::super::chaos::{Ended, Planned, planned_one, run_each};
use super::super::run::Keeper;
use super::meet::Met;
use super::{Asked, Work};
use crate::terminal::Terminal;

/// `run.json` grows with every run, so it is not written after each.
const SAVED_EVERY: Duration = Duration::from_secs(3);

/// Why there is no result: an outcome, and the reason.
type Nothing = (AuditOutcome, String);

/// A lock on a scenario.
struct Cell {
    subject: usize,
    asked: usize,
    plans: Result<Vec<Plan>, Nothing>,
    runs: Vec<Tried>,
}

/// One run of a cell.
struct Tried {
    ran: Ran,
    /// The sound lock beside it, once that was tried.
    twin: Option<(String, Ran)>,
}

/// A run that ended.
#[derive(Clone)]
struct Ran {
    seed: u64,
    dir: String,
    result: Result<ScenarioResult, Nothing>,
}

/// All of them.
pub(super) struct Tries<'a> {
    work: &'a Work<'a>,
    met: &'a [Met],
    cells: Vec<Cell>,
    /// Runs so far, for the names of their directories.
    begun: usize,
    saved: Option<Instant>,
}

impl<'a> Tries<'a> {
    /// Decides what is to be run; starts nothing.
    pub(super) fn new(work: &'a Work<'a>, met: &'a [Met]) -> Self {
        let mut cells = Vec::new();
        for (asked, one) in work.scenarios.iter().enumerate() {
            for (subject, met) in met.iter().enumerate() {
                cells.push(Cell {
                    subject,
                    asked,
                    plans: plans(work, one, met),
                    runs: Vec::new(),
                });
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

    /// Runs every plan.
    pub(super) async fn run(&mut self, keeper: &mut Keeper) -> anyhow::Result<()> {
        let mut planned = Vec::new();
        for (place, cell) in self.cells.iter().enumerate() {
            for plan in cell.plans.iter().flatten() {
                let subject = self.met[cell.subject].subject.clone();
                let plan = plan.clone();
                planned.push((place, Planned { plan, subject }));
            }
        }
        self.each(planned, "scenarios", keeper, |cells, place, ran| {
            cells[*place].runs.push(Tried { ran, twin: None });
        })
        .await
    }

    /// Runs a sound lock on the scenario and seed of every suspicion.
    pub(super) async fn run_twins(&mut self, keeper: &mut Keeper) -> anyhow::Result<()> {
        let mut planned: BTreeMap<(usize, u64), Planned> = BTreeMap::new();
        for cell in &self.cells {
            let asked = &self.work.scenarios[cell.asked];
            let twin = twin(asked);
            let suspected = cell.runs.iter().filter(|tried| is_suspect(asked, tried));
            for tried in suspected.filter(|_| twin != self.met[cell.subject].audited.name) {
                let key = (cell.asked, tried.ran.seed);
                planned.insert(key, planned_one(&asked.scenario, Some(twin), key.1)?);
            }
        }
        let planned = planned.into_iter().collect();
        let (work, met) = (self.work, self.met);
        self.each(planned, "sound locks", keeper, |cells, key, ran| {
            let asked = &work.scenarios[key.0];
            let of_scenario = cells.iter_mut().filter(|cell| cell.asked == key.0);
            for cell in of_scenario.filter(|cell| met[cell.subject].audited.name != twin(asked)) {
                let of_seed = cell.runs.iter_mut().filter(|tried| tried.ran.seed == key.1);
                for tried in of_seed {
                    if is_suspect(asked, tried) {
                        tried.twin = Some((twin(asked).to_owned(), ran.clone()));
                    }
                }
            }
        })
        .await
    }

    /// Runs plans side by side; each is kept as it ends.
    async fn each<T>(
        &mut self,
        planned: Vec<(T, Planned)>,
        word: &str,
        keeper: &mut Keeper,
        mut done: impl FnMut(&mut [Cell], &T, Ran),
    ) -> anyhow::Result<()> {
        let work = self.work;
        let prefix = work.external.map(|_| keeper.key_prefix());
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
        let how = work.how(keeper);
        let mut running = run_each(numbered, &how, &keeper.path(), work.cancel)?;
        while let Some(ended) = running.next().await {
            let index = ended.index;
            let ran = kept(ended, keeper, work.terminal);
            done(&mut self.cells, &keys[index], ran);
            bar.inc(1);
            if self.saved.is_none_or(|at| at.elapsed() > SAVED_EVERY) {
                self.keep(keeper)?;
            }
        }
        bar.finish_and_clear();
        self.keep(keeper)
    }

    /// Writes the scorecard as it stands.
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
            name: scenario.name.clone(),
            topology: scenario.topology.kind.to_string(),
            about: scenario.about.clone(),
            claim: scenario.claim.clone(),
            outcome: AuditOutcome::Unknown,
            why: "it was not run: the audit ended early".to_owned(),
            again: self.again(cell),
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

    /// The command that makes a cell again from the scenario's file, where it chooses the same kind.
    fn again(&self, cell: &Cell) -> String {
        let asked = &self.work.scenarios[cell.asked];
        let met = &self.met[cell.subject];
        let (Ok(plans), Ok(has)) = (&cell.plans, &met.abilities) else {
            return String::new();
        };
        let Some(plan) = plans.first() else {
            return String::new();
        };
        let name = &met.audited.name;
        let by_chaos = asked.scenario.clone().with_subject(name).lock.kind;
        let same = match by_chaos.as_str() {
            "" => has.kinds.first() == Some(&plan.lock.kind),
            kind => kind == plan.lock.kind,
        };
        let scenario = match chaos::builtin::find(&plan.name) {
            Some(builtin) if builtin.path == asked.file => builtin.name,
            _ => asked.file.as_str(),
        };
        let words = ["locklab", "chaos", scenario, "--subject", name, "--seed"];
        let mut words: Vec<String> = words.map(str::to_owned).into();
        words.push(plan.seed.to_string());
        match same && self.work.external.is_none() {
            true => command_line(&words),
            false => String::new(),
        }
    }
}

/// What is to be run of a scenario with a lock, or why nothing is.
fn plans(work: &Work<'_>, asked: &Asked, met: &Met) -> Result<Vec<Plan>, Nothing> {
    let has = met.abilities.as_ref().map_err(Clone::clone)?;
    let lacking = |why: String| (AuditOutcome::NotApplicable, why);
    if let Some(why) = &asked.refused {
        return Err(lacking(format!(
            "these servers cannot be used for it: {why}"
        )));
    }
    let fitting = fitted(&asked.scenario, &met.audited.name, has).map_err(lacking)?;
    let seeds = (0..u64::from(work.options.repeat)).map(|offset| work.seed.wrapping_add(offset));
    Ok(seeds.map(|seed| Plan::new(&fitting, seed)).collect())
}

/// The sound lock of a scenario.
fn twin(asked: &Asked) -> &str {
    match asked.scenario.audit.twin.as_str() {
        "" => &asked.scenario.lock.subject,
        twin => twin,
    }
}

fn is_suspect(asked: &Asked, tried: &Tried) -> bool {
    let result = tried.ran.result.as_ref();
    result.is_ok_and(|result| judged(&asked.scenario, result).outcome == AuditOutcome::Broken)
}

/// Puts a run that ended into the record.
fn kept(ended: Ended, keeper: &mut Keeper, terminal: &Terminal) -> Ran {
    let Ended {
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
    Ran {
        seed: plan.seed,
        dir,
        result,
    }
}

/// What a run says, with its twin in view.
fn run(asked: &Asked, tried: &Tried) -> AuditedRun {
    let twin = &tried.twin;
    let judged = match &tried.ran.result {
        Err((outcome, why)) => Judged {
            outcome: *outcome,
            why: why.clone(),
            ..Judged::default()
        },
        Ok(result) if is_suspect(asked, tried) => {
            let of_twin = match twin {
                None => Err("was not tried beside it".to_owned()),
                Some((_, ran)) => {
                    let result = ran.result.as_ref();
                    result.map_err(|(_, why)| format!("could not be tried: {why}"))
                }
            };
            let name = self::twin(asked);
            beside(
                &asked.scenario,
                result,
                name,
                of_twin.as_ref().map_err(String::as_str).copied(),
            )
        }
        Ok(result) => judged(&asked.scenario, result),
    };
    AuditedRun {
        seed: tried.ran.seed,
        dir: tried.ran.dir.clone(),
        judged,
        twin: twin.as_ref().map(|(subject, ran)| Twin {
            subject: subject.clone(),
            dir: ran.dir.clone(),
        }),
    }
}
