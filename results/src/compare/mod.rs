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
    let shown = match a.valid && b.valid {
        true => verdict(&ratio, figure.more_is_better),
        false => "not-shown",
    };
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
        match (low > 1.0) == more_is_better {
            true => "better",
            false => "worse",
        }
    } else if low >= 1.0 - EQUIVALENCE && high <= 1.0 + EQUIVALENCE {
        "equivalent"
    } else {
        "not-shown"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::figure::point;
    use crate::samples::around;

    fn row(subject: &str, median: f64, spread: Option<f64>) -> BenchRow {
        crate::samples::row(subject, "single", spread.map_or(point(median), |spread| around(median, spread)))
    }

    fn run(name: &str, rows: Vec<BenchRow>) -> Run {
        crate::samples::run(name, rows, Vec::new())
    }

    fn two(a: BenchRow, b: BenchRow) -> [Run; 2] {
        [run("a", vec![a]), run("b", vec![b])]
    }

    fn cycles(a: BenchRow, b: BenchRow) -> String {
        compare(&two(a, b), false).expect("a common row").comparisons[0].comparison.verdict.clone()
    }

    #[test]
    fn a_change_must_move_the_whole_range() {
        for (before, after, verdict) in [
            ((100.0, Some(0.05)), (120.0, Some(0.05)), "better"),
            ((120.0, Some(0.05)), (100.0, Some(0.05)), "worse"),
            ((100.0, Some(0.05)), (108.0, Some(0.05)), "not-shown"),
            ((100.0, Some(0.005)), (100.2, Some(0.005)), "equivalent"),
            ((100.0, None), (900.0, Some(0.01)), "not-shown"),
        ] {
            let [before, after] = [before, after].map(|(median, spread)| row("s", median, spread));
            assert_eq!(cycles(before, after), verdict);
        }
    }

    #[test]
    fn fewer_than_six_rounds_have_no_interval_and_show_nothing() {
        let [slow, fast] =
            [100.0, 200.0].map(|low| Estimate { median: low + 0.5, low: Some(low), high: Some(low + 1.0) });
        for (rounds, shown) in [(2, "not-shown"), (5, "not-shown"), (6, "better")] {
            let of = |cycles, rounds| BenchRow { rounds, ..crate::samples::row("s", "single", cycles) };
            let runs = two(of(slow, 6), of(fast, rounds));
            let result = compare(&runs, false).expect("a common row");
            let Comparison { verdict, ratio, .. } = &result.comparisons[0].comparison;
            let few = shown == "not-shown";
            assert_eq!((verdict.as_str(), ratio.low.is_none()), (shown, few));
            assert_eq!(result.answers[0].contains("is not shown to be"), few);
            assert_eq!(result.left_out.len(), usize::from(few));
            let tables = pivot::Grouping::new(&["subject"], &["run"]).expect("fields");
            let tables = pivot::pivot(&runs, &tables).expect("rows");
            let cell = tables.tables[0].lines[0].cells[1].as_ref().expect("a cell");
            let ratio = cell.ratio.expect("a ratio");
            assert_eq!((cell.verdict, ratio.high.is_none()), (shown, few));
        }
    }

    #[test]
    fn less_is_better_where_less_is_good() {
        let ratio = Ratio { point: 2.0, low: Some(1.9), high: Some(2.1) };
        assert_eq!(verdict(&ratio, false), "worse");
        assert_eq!(verdict(&ratio, true), "better");
    }

    #[test]
    fn invalid_rows_show_nothing_and_unsafe_ones_are_left_out() {
        let invalid = BenchRow { valid: false, ..row("s", 900.0, Some(0.01)) };
        assert_eq!(cycles(row("s", 100.0, Some(0.01)), invalid), "not-shown");
        let mut unsafe_row = row("s", 900.0, Some(0.01));
        unsafe_row.safety.state = State::Violated;
        let result = compare(&two(row("s", 100.0, None), unsafe_row), false).expect("a common row");
        assert!(result.comparisons.is_empty());
        assert_eq!(result.left_out, ["b: s on single/uncontended/16: void, the lock was not safe"]);
    }

    #[test]
    fn nothing_in_common_is_an_error_and_not_an_empty_answer() {
        let runs = two(row("s", 1.0, None), row("t", 1.0, None));
        let message = compare(&runs, false).expect_err("nothing in common").to_string();
        assert!(message.starts_with("b and a have nothing in common"), "{message}");
        assert_eq!(compare(&runs[..1], false), Err(CompareError::TooFew(1)));
        assert_eq!(compare(&[], false), Err(CompareError::TooFew(0)));
    }

    #[test]
    fn changed_verdicts_and_settings_are_listed() {
        let scenario = |state, seed| {
            let mut result = ScenarioResult {
                name: "failover".to_owned(),
                seed,
                as_expected: true,
                ..ScenarioResult::default()
            };
            result.verdicts.contract.state = state;
            result
        };
        let mut a = run("a", vec![]);
        a.scenarios = vec![scenario(State::Clean, 7)];
        let mut b = run("b", vec![]);
        b.scenarios = vec![scenario(State::Violated, 8)];
        b.meta.environment.cores = 8;
        let result = compare(&[a, b], false).expect("a common scenario");
        assert_eq!(result.scenarios.len(), 1);
        let change = &result.scenarios[0];
        assert_eq!(
            (change.class.as_str(), change.a.as_str(), change.b.as_str()),
            ("contract", "clean", "violated")
        );
        let fields: Vec<&str> = result.differences.iter().map(|one| one.field.as_str()).collect();
        assert_eq!(fields, ["environment.cores", "failover on  with : seed"]);
        assert_eq!(result.scenarios_in_common, 1);
    }

    #[test]
    fn twins_are_matched_in_order() {
        let rows = vec![row("s", 100.0, None), row("s", 200.0, None)];
        let result = compare(&[run("a", rows.clone()), run("b", rows)], false).expect("common");
        let points: Vec<f64> = result.comparisons.iter().map(|one| one.comparison.ratio.point).collect();
        assert_eq!(points, [1.0, 1.0]);
    }

    #[test]
    fn the_json_has_the_promised_fields() {
        let result = compare(&two(row("s", 1.0, None), row("s", 2.0, None)), false).expect("a common row");
        let mut value = serde_json::to_value(result).expect("json");
        let first = value["comparisons"][0].take();
        assert_eq!((&value["schema"], &value["base"]), (&1.into(), &"a".into()));
        assert!(value["differences"].is_array());
        assert_eq!(
            first,
            serde_json::json!({
                "run": "b", "a": "s", "b": "s", "metric": "cycles_per_s", "where": "single/uncontended/16",
                "ratio": {"point": 2.0, "low": null, "high": null}, "verdict": "not-shown",
            })
        );
    }

    #[test]
    fn another_load_is_refused_unless_forced_and_then_listed() {
        let with = |name: &str, lease_ns| {
            let mut row = row("s", 100.0, None);
            row.measures.load.mode = "closed".to_owned();
            row.measures.load.lease_ns = lease_ns;
            run(name, vec![row])
        };
        let runs = [with("a", Some(3_000_000_000)), with("b", None)];
        let message = compare(&runs, false).expect_err("another lease").to_string();
        assert!(message.contains("lease is 3 s in the base and renewed here"), "{message}");
        let mut fields = compare(&runs, true).expect("forced").differences.iter().map(|one| &one.field);
        assert!(fields.any(|field| field.ends_with(": lease")));
    }

    #[test]
    fn a_subject_that_was_asked_for_another_kind_is_another_lock() {
        let with = |name: &str, kind: Option<&str>| {
            let mut row = row("s", 100.0, None);
            row.measures.load.mode = "closed".to_owned();
            row.measures.load.kind = kind.map(str::to_owned);
            run(name, vec![row])
        };
        let runs = [with("a", None), with("b", Some("fair"))];
        let error = compare(&runs, false).expect_err("another kind");
        assert!(error.to_string().contains("kind is its own in the base and fair here"), "{error}");
        let forced = compare(&runs, true).expect("forced");
        let differing = |one: &Difference| (one.field.ends_with(": kind"), one.b == "fair");
        assert!(forced.differences.iter().map(differing).any(|of| of == (true, true)));
        let Comparison { a, b, .. } = &forced.comparisons[0].comparison;
        assert_eq!([a, b], ["s", "s (fair)"]);
    }

    #[test]
    fn an_added_round_trip_stands_behind_the_place() {
        let with = |name: &str| {
            let rows = [200_000, 3_000_000].map(|ns| {
                let mut row = row("s", 100.0, None);
                row.measures.load.added_rtt_ns = Some(ns);
                row
            });
            run(name, rows.into())
        };
        let result = compare(&[with("a"), with("b")], false).expect("common rows");
        let places = result.comparisons.iter().map(|one| one.comparison.r#where.as_str());
        let places: Vec<&str> = places.collect();
        assert_eq!(places, ["single/uncontended/16/+200µs", "single/uncontended/16/+3ms"]);
        let row = &with("a").rows[1];
        assert_eq!(row_key(row), "s on single/uncontended/16 with 3 ms more of round trip");
        assert_eq!(row.place(), "single +3 ms · uncontended · 16 tasks");
    }
}
