//! Compares two or more runs: what differs between them, and how surely.
//!
//! Runs of different times are compared by the range of their rounds alone: conservative, since a machine may
//! have changed in between. A change must move the whole range to be shown, and a range of fewer than
//! [`FEWEST_ROUNDS`] rounds shows nothing. Rows of one run say more; they are compared where measured.
//!
//! | file | what it is for |
//! |---|---|
//! | `settings.rs` | which rows and runs are alike, and what must not differ |
//! | `pivot.rs` | rows of any runs in tables of the reader's choice |
//! | `sentence.rs` | two runs in one sentence |
//! | `last_run.rs` | a run and the last one of its command |
//! | `decide.rs` | verdicts on many comparisons of one run together |

pub mod decide;
mod last_run;
pub mod pivot;
mod sentence;
mod settings;

use std::time::Duration;

use serde::Serialize;

pub use self::last_run::against_last;
use self::settings::{asked, unlike};
pub(crate) use self::settings::{differences, load as row_load, pairs, row_key, row_words, scenario_key};
use crate::compare::decide::{EQUIVALENCE, FEWEST_ROUNDS};
use crate::record::figure::{COMPARED, Figure};
use crate::record::run::{BenchRow, Comparison, Difference, Estimate, Ratio, Run, SCHEMA, ScenarioResult};
use crate::record::verdict::State;
use crate::wording::units;

/// What `compare --json` prints.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct RunComparison {
    /// The form's version.
    pub schema: u32,
    /// The base run.
    pub base: String,
    /// What matters, in a sentence for each run that is compared with the base.
    pub answers: Vec<String>,
    /// Figures, side by side.
    pub comparisons: Vec<Against>,
    /// Verdicts that changed.
    pub scenarios: Vec<VerdictChange>,
    /// How many scenarios the runs have in common with the base; those without a change are not listed.
    pub scenarios_in_common: usize,
    /// Configuration that differs, and may be the reason.
    pub differences: Vec<Difference>,
    /// Rows that were left out, and why.
    pub left_out: Vec<String>,
}

/// A comparison, with the run that its `b` is from; its `a` is from the base. Both name the subject.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Against {
    /// The run of `b`.
    pub run: String,
    /// The comparison.
    #[serde(flatten)]
    pub comparison: Comparison,
}

/// A verdict, or an outcome, that is another than in the base.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct VerdictChange {
    /// The run that is compared with the base.
    pub run: String,
    /// The scenario's name.
    pub scenario: String,
    /// Its topology.
    pub topology: String,
    /// Its subject.
    pub subject: String,
    /// One of the five classes, or `outcome`.
    pub class: String,
    /// In the base.
    pub a: String,
    /// In the run.
    pub b: String,
}

/// Why runs cannot be compared.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum CompareError {
    /// Fewer than two were given.
    #[error("two runs or more are needed to compare, the first is the base; {0} given")]
    TooFew(usize),
    /// A run has no row and no scenario that the base has.
    #[error(
        "{other} and {base} have nothing in common: no row of the same subject, topology, workload and tasks, and no scenario of the same name, topology and subject"
    )]
    NothingInCommon {
        /// The base.
        base: String,
        /// The run.
        other: String,
    },
    /// What the runs have in common was asked in another way.
    #[error("{}", refusal(reasons))]
    OtherQuestion {
        /// Setting by setting.
        reasons: Vec<String>,
    },
}

/// The first few reasons, and how to go on all the same.
fn refusal(reasons: &[String]) -> String {
    let shown = first_few(reasons.to_vec()).join("\n  ");
    format!(
        "these runs answer different questions:\n  {shown}\nset them side by side all the same with --force"
    )
}

pub(crate) fn first_few(mut lines: Vec<String>) -> Vec<String> {
    const SHOWN: usize = 5;
    let more = lines.len().saturating_sub(SHOWN);
    lines.truncate(SHOWN);
    lines.extend((more > 0).then(|| format!("and {more} more")));
    lines
}

/// Compares every run with the first. Rows match on subject, topology, workload and tasks; scenarios on name,
/// topology and subject. Where several are alike (an A/A pair, repeats), they go together in their order.
///
/// Rows with another load, and scenarios with another kind or durability, are refused unless `force` is
/// given: then they are compared, and the settings stand among the differences.
pub fn compare(runs: &[Run], force: bool) -> Result<RunComparison, CompareError> {
    let [base, others @ ..] = runs else {
        return Err(CompareError::TooFew(0));
    };
    if others.is_empty() {
        return Err(CompareError::TooFew(1));
    }
    let name = |run: &Run| run.run.clone();
    let mut result = RunComparison { schema: SCHEMA, base: name(base), ..RunComparison::default() };
    for other in others {
        let rows = pairs(&base.rows, &other.rows, row_key);
        let scenarios = pairs(&base.scenarios, &other.scenarios, scenario_key);
        if rows.is_empty() && scenarios.is_empty() {
            return Err(CompareError::NothingInCommon { base: name(base), other: name(other) });
        }
        let of_rows = rows.iter().flat_map(|pair| unlike(pair, row_key, row_load));
        let of_scenarios = scenarios.iter().flat_map(|pair| unlike(pair, scenario_key, asked));
        let reasons: Vec<String> = of_rows.chain(of_scenarios).collect();
        if !force && !reasons.is_empty() {
            return Err(CompareError::OtherQuestion { reasons });
        }
        for (a, b) in &rows {
            if [a, b].iter().any(|row| row.safety.state == State::Violated) {
                result.left_out.push(settings::void(other, b));
                continue;
            }
            if !(a.valid && b.valid) {
                let (run, row) = (&other.run, row_key(b));
                result.left_out.push(format!("{run}: {row}: invalid, so nothing is shown by it"));
            } else if !rounds_suffice(a, b) {
                let (run, row, rounds) = (&other.run, row_key(b), a.rounds.min(b.rounds));
                result.left_out.push(format!(
                    "{run}: {row}: {} on one side, and {FEWEST_ROUNDS} are needed on both to show a difference (--rounds)",
                    units::several(rounds as usize, "round")
                ));
            }
            let against =
                compare_rows(a, b).into_iter().map(|comparison| Against { run: name(other), comparison });
            result.comparisons.extend(against);
        }
        for (a, b) in &scenarios {
            changes(&other.run, a, b, &mut result.scenarios);
        }
        result.answers.push(sentence::sentence(base, other));
        result.scenarios_in_common += scenarios.len();
        result.differences.extend(differences(base, other, &rows, &scenarios));
    }
    Ok(result)
}

fn changes(run: &str, a: &ScenarioResult, b: &ScenarioResult, out: &mut Vec<VerdictChange>) {
    let mut change = |class: &str, before: &str, after: &str| {
        if before != after {
            out.push(VerdictChange {
                run: run.to_owned(),
                scenario: b.name.clone(),
                topology: b.topology.clone(),
                subject: b.subject.clone(),
                class: class.to_owned(),
                a: before.to_owned(),
                b: after.to_owned(),
            });
        }
    };
    for ((class, one), (_, other)) in a.verdicts.iter().zip(b.verdicts.iter()) {
        change(class, one.state.word(), other.state.word());
    }
    change("outcome", a.outcome().words(), b.outcome().words());
}

/// Compares every metric that both rows have, `b` against `a`. Invalid rows and few rounds are `not-shown`.
pub fn compare_rows(a: &BenchRow, b: &BenchRow) -> Vec<Comparison> {
    let compared = COMPARED.iter().filter_map(|figure| {
        let (ratio, verdict) = against(figure, a, b)?;
        Some(Comparison {
            a: a.lock(),
            b: b.lock(),
            metric: figure.name.to_owned(),
            r#where: place(b),
            ratio,
            verdict: verdict.to_owned(),
            ..Comparison::default()
        })
    });
    compared.collect()
}

/// `topology/workload/tasks`, and behind it an added round trip.
fn place(row: &BenchRow) -> String {
    let added = row.added_rtt_ns().map(Duration::from_nanos);
    let added = added.map_or(String::new(), |rtt| format!("/+{rtt:?}"));
    format!("{}/{}/{}{added}", row.topology, row.workload, row.tasks)
}

/// The ratio of one figure, `b` over `a`, and what it shows; `None` where either has none. Of rows that are
/// invalid nothing is shown, and of few rounds there is no interval either.
pub(crate) fn against(
    figure: &Figure<BenchRow>,
    a: &BenchRow,
    b: &BenchRow,
) -> Option<(Ratio, &'static str)> {
    let mut ratio = ratio(&(figure.of)(a)?, &(figure.of)(b)?)?;
    if !rounds_suffice(a, b) {
        (ratio.low, ratio.high) = (None, None);
    }
    let shown = if a.valid && b.valid { verdict(&ratio, figure.more_is_better) } else { "not-shown" };
    Some((ratio, shown))
}

/// Whether the ranges over rounds of two rows hold their medians often enough to show a difference.
pub(crate) fn rounds_suffice(a: &BenchRow, b: &BenchRow) -> bool {
    a.rounds.min(b.rounds) >= FEWEST_ROUNDS
}

/// b over a, from the lowest that it can be to the highest; `None` where a ratio has no meaning.
fn ratio(a: &Estimate, b: &Estimate) -> Option<Ratio> {
    let good = |value: f64| value.is_finite() && value > 0.0;
    if !good(a.median) || !good(b.median) {
        return None;
    }
    let known = [a.low, a.high, b.low, b.high].iter().all(|end| end.is_some_and(good));
    let over = |b: Option<f64>, a: Option<f64>| b.zip(a).filter(|_| known).map(|(b, a)| b / a);
    Some(Ratio { point: b.median / a.median, low: over(b.low, a.high), high: over(b.high, a.low) })
}

/// `better` or `worse` if the interval leaves out 1, else `equivalent` if it is wholly within
/// [`EQUIVALENCE`], else `not-shown`; without an interval nothing is shown.
pub fn verdict(ratio: &Ratio, more_is_better: bool) -> &'static str {
    let (Some(low), Some(high)) = (ratio.low, ratio.high) else {
        return "not-shown";
    };
    if low > 1.0 || high < 1.0 {
        if (low > 1.0) == more_is_better { "better" } else { "worse" }
    } else if low >= 1.0 - EQUIVALENCE && high <= 1.0 + EQUIVALENCE {
        "equivalent"
    } else {
        "not-shown"
    }
}
