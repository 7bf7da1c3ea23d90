//! A scorecard: what each lock of an audit kept, scenario by scenario, with the runs that show it.

mod outcome;

use std::collections::BTreeMap;

use itertools::Itertools;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use self::outcome::{AuditOutcome, Inherent, InherentCause, Score};
use crate::record::verdict::State;
use crate::wording::command_line::shell_line;

/// What an audit found, lock by lock.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Audit {
    /// The suite of scenarios: `quick`, `standard`, `full`, or `chosen` where they were named.
    pub suite: String,
    /// The locks, as they were given.
    pub subjects: Vec<AuditedSubject>,
    /// What an earlier audit saw kept and this one saw broken; empty without one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub regressions: Vec<Regression>,
}

/// One lock of an audit.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct AuditedSubject {
    /// The subject's name.
    pub name: String,
    /// The library, its version and language, as it says of itself; empty where it said nothing.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub library: String,
    /// What `conform` found of its driver; `None` of a lock that is no driver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conform: Option<Conformance>,
    /// Every scenario, in the order of the suite; behind them those of drawn faults that convicted.
    pub scenarios: Vec<AuditedScenario>,
    /// How much was tried of the faults that are drawn on its messages; `None` where none were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drawn: Option<DrawnFaults>,
    /// How many came out how.
    pub score: Score,
    /// Of the inherent ones, how many have which cause.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub inherent_causes: BTreeMap<InherentCause, u32>,
}

/// The part of the table of role × moment × fault that was tried on a lock.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct DrawnFaults {
    /// The points that the lock's protocol has.
    pub points: usize,
    /// Of these, so many were tried to a result.
    pub tried: usize,
    /// The others, such as `release-reply-lost`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub untried: Vec<String>,
}

/// Whether a driver keeps to the driver protocol.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Conformance {
    /// No step was broken.
    pub conforms: bool,
    /// Steps that were kept.
    pub kept: u32,
    /// The broken steps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
}

/// A step of `conform` that was broken.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// The step's name.
    pub name: String,
    /// What a driver has to do.
    pub rule: String,
    /// What came instead.
    pub found: String,
    /// What to fix.
    pub remedy: String,
    /// Where the protocol says it.
    pub paragraph: String,
    /// It asks for a promise of the lock, such as exclusion, and was broken again when the steps were tried
    /// once more; otherwise it is about how the driver says what the lock does.
    #[serde(default)]
    pub is_promise: bool,
}

impl Conformance {
    /// The promises of the lock that were broken.
    pub fn broken_promises(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| finding.is_promise)
    }

    /// A broken promise is as bad as a broken scenario; what else does not conform leaves it unknown what the
    /// scenarios show.
    fn outcome(&self) -> Option<AuditOutcome> {
        match self.broken_promises().next() {
            Some(_) => Some(AuditOutcome::Broken),
            None => (!self.conforms).then_some(AuditOutcome::Unknown),
        }
    }
}

/// What became of one scenario.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct AuditedScenario {
    /// The scenario.
    pub name: String,
    /// The shape of its servers.
    pub topology: String,
    /// What it does, in its file's words.
    pub about: String,
    /// The claim that it tries, in its file's words.
    pub claim: String,
    /// The worst of its runs.
    pub outcome: AuditOutcome,
    /// The judged checkers, each with its worst state; empty where nothing was tried.
    pub verdicts: BTreeMap<String, State>,
    /// Why it came out so, in a sentence.
    pub why: String,
    /// What the lock does wrong, such as `its holder is not told`; empty where it is not broken.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub defect: String,
    /// What stands behind a violation that no lock keeps from happening; `None` of any other outcome.
    pub inherent: Option<Inherent>,
    /// The longest time without a grant of its runs; `None` where nothing was tried.
    pub without_grant_ns: Option<u64>,
    /// The command that repeats the first run from the scenario's file; empty where only its plan does.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub again: String,
    /// The smallest scenario found that still convicts; `None` where none was looked for.
    pub smallest: Option<ShrunkScenario>,
    /// Its runs, by rising seed; empty where nothing was tried.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<AuditedRun>,
}

/// The smallest scenario that was found to convict.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct ShrunkScenario {
    /// Its file, below the run's directory.
    pub file: String,
    /// What the file says.
    pub text: String,
    /// The checker that it violates.
    pub violates: String,
    /// No smaller step convicts; else the time of the search was over.
    pub done: bool,
}

/// One run of a scenario, and of a sound lock where it was needed.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct AuditedRun {
    /// The seed of its plan.
    pub seed: u64,
    /// Its directory, below the run's.
    pub dir: String,
    /// What came out, with the twin in view.
    #[serde(flatten)]
    pub judged: JudgedRun,
    /// The sound lock that was tried beside it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub twin: Option<SoundTwin>,
}

/// A sound lock on the scenario, seed and servers of another one.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct SoundTwin {
    /// The lock.
    pub subject: String,
    /// The directory of its run, below the audit's.
    pub dir: String,
}

/// What one run says.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct JudgedRun {
    /// Kept, broken, inherent, not applicable or unknown.
    pub outcome: AuditOutcome,
    /// The judged checkers, each with its state.
    pub verdicts: BTreeMap<String, State>,
    /// Why, in a sentence.
    pub why: String,
    /// What the lock does wrong, in a few words; empty where it is not broken.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub defect: String,
    /// What stands behind a violation that no lock keeps from happening.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inherent: Option<Inherent>,
    /// The longest time for which a free lock was asked for and not granted; `None` where nothing was tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub without_grant_ns: Option<u64>,
}

impl AuditedScenario {
    /// Takes one more run in: the worst of all decides, and it is counted how often it came out so.
    pub fn add(&mut self, run: AuditedRun) {
        for (class, state) in &run.judged.verdicts {
            let worst = self.verdicts.entry(class.clone()).or_insert(*state);
            *worst = std::cmp::max_by_key(*worst, *state, |state| *state as u8);
        }
        self.runs.insert(self.runs.partition_point(|other| other.seed <= run.seed), run);
        let worst = self.runs.iter().map(|run| run.judged.outcome).max();
        self.outcome = worst.unwrap_or_default();
        let runs = self.runs.iter();
        let without = runs.clone().filter_map(|run| run.judged.without_grant_ns);
        self.without_grant_ns = without.max();
        let mut worst = runs.filter(|run| run.judged.outcome == self.outcome);
        let first = worst.next().map(|run| &run.judged);
        let why = first.map_or("", |judged| judged.why.as_str());
        self.defect = first.map_or_else(String::new, |judged| judged.defect.clone());
        self.inherent = first.and_then(|judged| judged.inherent.clone());
        self.why = match self.runs.len() {
            1 => why.to_owned(),
            all => format!("in {} of {all} repeats: {why}", worst.count() + 1),
        };
    }

    /// Whether two had the lock at once where a sound lock kept it: not so of another broken promise.
    pub fn is_lost(&self) -> bool {
        let mut states = ["belief", "contract", "confirmed"].iter().map(|class| self.verdicts.get(*class));
        self.outcome == AuditOutcome::Broken && states.any(|state| state == Some(&State::Violated))
    }

    /// The run that decided the outcome; `None` where nothing was tried.
    pub fn decisive(&self) -> Option<&AuditedRun> {
        self.runs.iter().find(|run| run.judged.outcome == self.outcome)
    }

    /// What shows it again: the kept plan, and the scenario's file. `root` is the run's directory.
    pub fn commands(&self, root: &str) -> Vec<String> {
        let line = |command: &str, file: &str| {
            let path = format!("{}/{file}", root.trim_end_matches('/'));
            shell_line(&["locklab", command, &path].map(str::to_owned))
        };
        let kept = self.decisive().map(|run| line("replay", &run.dir));
        let again = Some(self.again.clone()).filter(|line| !line.is_empty());
        let small = self.smallest.as_ref();
        kept.into_iter().chain(again).chain(small.map(|small| line("chaos", &small.file))).collect()
    }
}

impl ShrunkScenario {
    /// What it is, in a line.
    pub fn title(&self) -> String {
        let (violates, how) = match self.done {
            true => (&self.violates, "no smaller step convicts"),
            false => (&self.violates, "the time for the search was over"),
        };
        format!("The smallest scenario found that violates {violates} ({how})")
    }
}

impl AuditedSubject {
    /// Counts anew how its scenarios came out.
    pub fn count(&mut self) {
        let outcomes = self.scenarios.iter().map(|scenario| scenario.outcome);
        self.score = outcomes.collect();
        self.inherent_causes.clear();
        for inherent in self.scenarios.iter().filter_map(|one| one.inherent.as_ref()) {
            *self.inherent_causes.entry(inherent.cause).or_default() += 1;
        }
    }

    /// How much was tried of the faults that are drawn on its messages.
    pub fn drawn_words(&self) -> Option<String> {
        let drawn = self.drawn.as_ref()?;
        let (name, tried, points) = (&self.name, drawn.tried, drawn.points);
        Some(format!("{name}: faults drawn at {tried} of {points} points of its protocol"))
    }

    /// The steps that it broke; none of a lock that is no driver.
    pub fn findings(&self) -> impl Iterator<Item = &Finding> {
        self.conform.iter().flat_map(|conform| &conform.findings)
    }

    /// The promises that it broke step by step; none of a lock that is no driver.
    pub fn broken_promises(&self) -> impl Iterator<Item = &Finding> {
        self.conform.iter().flat_map(Conformance::broken_promises)
    }

    /// How many of its scenarios lost the lock.
    pub fn lost(&self) -> usize {
        self.scenarios.iter().filter(|one| one.is_lost()).count()
    }

    /// Its scenarios of an outcome.
    pub fn of(&self, outcome: AuditOutcome) -> impl Iterator<Item = &AuditedScenario> {
        self.scenarios.iter().filter(move |scenario| scenario.outcome == outcome)
    }
}

impl Audit {
    /// Takes in another part of the same audit: scenarios and runs of a lock that both tried become one list.
    pub fn join(&mut self, other: Audit) {
        for subject in other.subjects {
            let mut own = self.subjects.iter_mut();
            let Some(own) = own.find(|own| own.name == subject.name) else {
                self.subjects.push(subject);
                continue;
            };
            for scenario in subject.scenarios {
                match own.scenarios.iter_mut().find(|one| one.name == scenario.name) {
                    Some(same) => scenario.runs.into_iter().for_each(|run| same.add(run)),
                    None => own.scenarios.push(scenario),
                }
            }
            own.count();
            own.drawn = own.drawn.take().or(subject.drawn);
        }
        self.regressions.extend(other.regressions);
    }

    /// Every scenario, lock by lock: those first in which locks differ, then by the worst outcome.
    pub fn rows(&self) -> Vec<Vec<Option<&AuditedScenario>>> {
        let rows = self.scenarios().map(|scenario| &scenario.name).unique().map(|name| {
            let row = self.subjects.iter().map(|one| one.scenarios.iter().find(|one| one.name == *name));
            row.collect::<Vec<_>>()
        });
        let order = |row: &Vec<Option<&AuditedScenario>>| {
            let outcomes = || row.iter().flatten().map(|one| one.outcome);
            // A lock that lacks what a scenario is about does not differ from the others in what it keeps.
            let mut tried = outcomes().filter(|one| *one != AuditOutcome::NotApplicable);
            (tried.all_equal(), std::cmp::Reverse(outcomes().max()))
        };
        rows.sorted_by_key(order).collect()
    }

    fn scenarios(&self) -> impl Iterator<Item = &AuditedScenario> {
        self.subjects.iter().flat_map(|subject| &subject.scenarios)
    }

    /// The score of all locks together.
    pub fn score(&self) -> Score {
        self.scenarios().map(|scenario| scenario.outcome).collect()
    }

    /// The worst of all scenarios and of what `conform` found; `None` where neither says anything.
    pub fn worst(&self) -> Option<AuditOutcome> {
        let conform = self.subjects.iter().flat_map(|subject| &subject.conform);
        conform.filter_map(Conformance::outcome).chain(self.score().worst()).max()
    }
}

/// A scenario that an earlier audit saw kept and this one saw broken.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Regression {
    /// The lock.
    pub subject: String,
    /// The scenario.
    pub scenario: String,
    /// Why it is broken now.
    pub why: String,
}

/// The locks of an audit's document: `audit.json`, what `--json` printed, or `run.json`.
pub fn subjects_of(text: &str) -> Result<Vec<AuditedSubject>, String> {
    let mut document: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let mut audit = document.get_mut("audit").map(Value::take).unwrap_or(document);
    let subjects = audit.get_mut("subjects").map(Value::take);
    let subjects = subjects.ok_or("it has no `subjects`, so it is no document of an audit")?;
    serde_json::from_value(subjects).map_err(|error| error.to_string())
}

/// What `base` saw kept and `now` saw broken, by the names of lock and scenario.
pub fn regressions(base: &[AuditedSubject], now: &Audit) -> Vec<Regression> {
    let was_kept = |subject: &str, scenario: &str| {
        let of_subject = base.iter().filter(|one| one.name == subject);
        of_subject.flat_map(|one| one.of(AuditOutcome::Kept)).any(|one| one.name == scenario)
    };
    let broken = now
        .subjects
        .iter()
        .flat_map(|subject| subject.of(AuditOutcome::Broken).map(move |scenario| (subject, scenario)));
    broken
        .filter(|(subject, scenario)| was_kept(&subject.name, &scenario.name))
        .map(|(subject, scenario)| Regression {
            subject: subject.name.clone(),
            scenario: scenario.name.clone(),
            why: scenario.why.clone(),
        })
        .collect()
}
