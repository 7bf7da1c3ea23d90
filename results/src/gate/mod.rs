//! Judges a kept run by conditions such as `p99(acquire) < 5ms`: yes, no or unknown.
//!
//! A condition speaks of every row or scenario that has the figure and that its `where` lets through, and all
//! of them must keep it. It is *unknown*, and unknown never passes, where there is nothing to judge: no such
//! row, a figure with too few samples, a row that is invalid, a verdict that is unknown, a run that was cut
//! short. Figures of a lock that was not safe while it was measured are void: that is a no.
//!
//! The grammar, and nothing besides:
//!
//! ```text
//! condition = value compare bound [ "where" filter { "," filter } ]
//! compare   = "<" | "<=" | ">" | ">=" | "==" | "!="
//! value     = figure | function "(" name ")"
//! bound     = number [unit] | number "*" "base" | "base" [ "*" number ] | state
//! filter    = field ( "==" | "!=" ) pattern           pattern: words in which * stands for anything
//! ```
//!
//! | file | what it is for |
//! |---|---|
//! | `grammar.rs` | reads conditions and budgets |
//! | `figures.rs` | what their names mean at a row or a scenario |

mod figures;
mod grammar;

use std::fmt;

use serde::Serialize;

pub use self::figures::help;
use self::grammar::Bound;
pub use self::grammar::{Condition, GrammarError, parse, parse_all, parse_budget, read_budgets};
use crate::compare::{pairs, row_key, row_words, scenario_key};

use crate::record::run::{BenchRow, Estimate, Run, ScenarioResult};
use crate::record::verdict::State;
use crate::wording::units;

/// What became of a condition, of one part or of all; in order, the worst last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// Kept.
    Passed,
    /// Nothing can be said.
    Unknown,
    /// Not kept.
    Failed,
}

impl Outcome {
    /// The word for it, as in JSON.
    pub fn word(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Unknown => "unknown",
            Self::Failed => "failed",
        }
    }

    /// One character for it, which no colour is needed to tell from the others.
    pub fn glyph(self) -> char {
        match self {
            Self::Passed => '✓',
            Self::Unknown => '?',
            Self::Failed => '✗',
        }
    }
}

/// What `gate --json` prints.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Decision {
    /// The form's version.
    pub schema: u32,
    /// The run.
    pub run: String,
    /// The run that `base` means; `null` without one.
    pub base: Option<String>,
    /// The worst of all conditions.
    pub outcome: Outcome,
    /// Whether that is `passed`.
    pub passed: bool,
    /// Condition by condition.
    pub conditions: Vec<JudgedCondition>,
}

/// One condition with what became of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct JudgedCondition {
    /// As it was written.
    pub condition: String,
    /// The worst of its parts.
    pub outcome: Outcome,
    /// Part by part: a row or a scenario each.
    pub parts: Vec<ConditionPart>,
    /// Why the condition is unknown where it has no part.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub why: String,
}

/// A condition at one row or scenario.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ConditionPart {
    /// Which.
    pub r#where: String,
    /// What was found, in the words of a report.
    pub found: String,
    /// What it had to keep to.
    pub bound: String,
    /// Whether it did.
    pub outcome: Outcome,
    /// What else is to be known: why it is unknown, or that the interval reaches over the bound.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub why: String,
}

#[derive(Clone, Copy)]
pub(crate) enum Measured<'a> {
    Row(&'a BenchRow),
    Scenario(&'a ScenarioResult),
}

impl fmt::Display for Measured<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&match self {
            Self::Row(row) => row_words(&row.lock(), row),
            Self::Scenario(result) => format!("{} seed {}", scenario_key(result), result.seed),
        })
    }
}

pub(crate) enum ConditionValue {
    /// The place has no such thing, and is not asked.
    Nothing,
    /// It cannot have it, whatever it does: why.
    NotApplicable(&'static str),
    Missing(String),
    Figure(Estimate),
    Word(String),
}

/// Judges `run` by every condition; `base` is what conditions mean by that word.
pub fn decide(run: &Run, base: Option<&Run>, conditions: &[Condition]) -> Decision {
    let judged: Vec<JudgedCondition> = conditions.iter().map(|one| judge(run, base, one)).collect();
    let outcome = judged.iter().map(|one| one.outcome).max().unwrap_or(Outcome::Unknown);
    Decision {
        schema: crate::record::run::SCHEMA,
        run: run.run.clone(),
        base: base.map(|base| base.run.clone()),
        outcome,
        passed: outcome == Outcome::Passed,
        conditions: judged,
    }
}

fn judge(run: &Run, base: Option<&Run>, condition: &Condition) -> JudgedCondition {
    let of_base = |of: &Measured<'_>| -> Option<Measured<'_>> {
        let base = base?;
        Some(match of {
            Measured::Row(row) => Measured::Row(twin(&run.rows, &base.rows, row, row_key)?),
            Measured::Scenario(result) => {
                Measured::Scenario(twin(&run.scenarios, &base.scenarios, result, scenario_key)?)
            }
        })
    };
    let places = run.rows.iter().map(Measured::Row).chain(run.scenarios.iter().map(Measured::Scenario));
    let mut parts = Vec::new();
    let mut not_applicable = None;
    let asked = |place: &Measured<'_>| condition.filters.iter().all(|filter| filter.passes(place));
    for place in places.filter(asked) {
        let found = condition.value.of(&place);
        match found {
            ConditionValue::Nothing => continue,
            ConditionValue::NotApplicable(why) => {
                not_applicable = Some(why);
                continue;
            }
            _ => {}
        }
        let mut part = judge_part(condition, &place, found, &of_base);
        if run.partial && part.outcome == Outcome::Passed {
            part.outcome = Outcome::Unknown;
            part.why = "the run was cut short".to_owned();
        }
        parts.push(part);
    }
    let worst = parts.iter().map(|part| part.outcome).max();
    JudgedCondition {
        condition: condition.text.clone(),
        outcome: worst.unwrap_or(not_applicable.map_or(Outcome::Unknown, |_| Outcome::Passed)),
        why: match (worst, not_applicable) {
            (None, Some(why)) => format!("not applicable: {why}"),
            (None, None) => "no row and no scenario of the run has it".to_owned(),
            (Some(_), _) => String::new(),
        },
        parts,
    }
}

/// The part of `base` that belongs to `item`: the n-th of its key to the n-th of it.
fn twin<'a, T>(all: &'a [T], base: &'a [T], item: &T, key: impl Fn(&T) -> String) -> Option<&'a T> {
    pairs(all, base, key).into_iter().find_map(|(own, other)| std::ptr::eq(own, item).then_some(other))
}

fn judge_part<'a>(
    condition: &Condition,
    place: &Measured<'a>,
    found: ConditionValue,
    of_base: &impl Fn(&Measured<'a>) -> Option<Measured<'a>>,
) -> ConditionPart {
    let mut part = ConditionPart {
        r#where: place.to_string(),
        found: "–".to_owned(),
        bound: condition.bound_words(),
        outcome: Outcome::Unknown,
        why: String::new(),
    };
    let figure = match found {
        ConditionValue::Nothing | ConditionValue::NotApplicable(_) => return part,
        ConditionValue::Missing(why) => return ConditionPart { why, ..part },
        ConditionValue::Word(found) => {
            let outcome = judge_word(condition, &found);
            return ConditionPart { found, outcome, ..part };
        }
        ConditionValue::Figure(figure) => figure,
    };
    if let Measured::Row(row) = place {
        if row.safety.state == State::Violated {
            part.outcome = Outcome::Failed;
            part.found = "void".to_owned();
            part.why = "the lock was not safe while it was measured".to_owned();
            return part;
        }
        if !row.valid {
            part.found = condition.value.words(&figure, None);
            part.why = format!("the row is invalid: {}", row.why_invalid.join("; "));
            return part;
        }
    }
    let bound = match &condition.bound {
        Bound::Number(bound) => Ok((*bound, part.bound.clone())),
        Bound::OfBase(factor) => bound_of_base(condition, *factor, of_base(place)),
        Bound::State(_) => Err("a figure has no state"),
    };
    let limit = bound.as_ref().ok().map(|(bound, _)| *bound);
    let why = match bound {
        Ok((_, words)) if figure.median.is_nan() => {
            part.bound = words;
            part.why = "it was not measured".to_owned();
            return part;
        }
        Ok((bound, words)) => {
            part.bound = words;
            part.outcome = match (condition.compare.holds)(&figure.median, &bound) {
                true => Outcome::Passed,
                false => Outcome::Failed,
            };
            let close = figure.low.zip(figure.high).is_some_and(|(low, high)| low <= bound && bound <= high);
            if close { "its interval reaches over the bound: the next run may say otherwise" } else { "" }
        }
        Err(why) => why,
    };
    part.found = condition.value.words(&figure, limit);
    part.why = why.to_owned();
    part
}

/// So many times what the base has, and that in words; or why there is no such bound.
fn bound_of_base(
    condition: &Condition,
    factor: f64,
    twin: Option<Measured<'_>>,
) -> Result<(f64, String), &'static str> {
    let base = match twin.map(|twin| (twin, condition.value.of(&twin))) {
        Some((Measured::Row(row), _)) if !row.valid || row.safety.state == State::Violated => {
            return Err("the base's own row is invalid");
        }
        Some((_, ConditionValue::Figure(base))) if base.median.is_finite() => base.median,
        _ => return Err("the base has no such figure"),
    };
    let bound = factor * base;
    let [limit, base] = [bound, base].map(|number| condition.value.number_words(number));
    let factor = units::figure(factor);
    Ok((bound, format!("{limit} ({factor} of the base's {base})")))
}

fn judge_word(condition: &Condition, word: &str) -> Outcome {
    let equal = matches!(condition.bound, Bound::State(wanted) if wanted == word);
    // `!= violated` is no more met by "unknown" than `== clean` is; but `== unknown` is.
    match equal == (condition.compare.sign == "==") {
        _ if word == State::Unknown.word() && !equal => Outcome::Unknown,
        true => Outcome::Passed,
        false => Outcome::Failed,
    }
}
