//! Runs against a base, and the arms of one run against each other.

use results::compare::{CompareError, compare, pivot, verdict};
use results::decide::decide;
use results::run::{BenchRow, Comparison, Difference, Estimate, Ratio, Run, ScenarioResult};
use results::verdict::State;

use crate::samples::{around, says, scenario};

/// A median without an interval.
pub(crate) fn point(median: f64) -> Estimate {
    Estimate { median, low: None, high: None }
}

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
    let forced = compare(&runs, true).expect("forced");
    let mut fields = forced.differences.iter().map(|one| &one.field);
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
    let mut invalid = with("b");
    invalid.rows[1].valid = false;
    let left_out = compare(&[with("a"), invalid], false).expect("common rows").left_out;
    let key = "s on single/uncontended/16 with 3 ms more of round trip";
    assert_eq!(left_out, [format!("b: {key}: invalid, so nothing is shown by it")]);
    assert_eq!(with("a").rows[1].place(), "single +3 ms · uncontended · 16 tasks");
}

fn comparison(metric: &str, low: f64, high: f64, p: f64) -> Comparison {
    Comparison {
        metric: metric.into(),
        ratio: Ratio { point: (low * high).sqrt(), low: Some(low), high: Some(high) },
        p: Some(p),
        ..Comparison::default()
    }
}

fn verdicts(mut comparisons: Vec<Comparison>) -> Vec<String> {
    decide(&mut comparisons);
    comparisons.into_iter().map(|c| c.verdict).collect()
}

#[test]
fn verdicts_know_which_direction_is_good() {
    let of = |metric| {
        verdicts(vec![
            comparison(metric, 1.1, 1.2, 0.001),
            comparison(metric, 0.8, 0.9, 0.001),
            comparison(metric, 0.9, 1.1, 0.5),
            comparison(metric, 0.99, 1.01, 0.5),
        ])
    };
    assert_eq!(of("cycles_per_s"), ["better", "worse", "not-shown", "equivalent"]);
    assert_eq!(of("handoff_ns"), ["worse", "better", "not-shown", "equivalent"]);
}

#[test]
fn one_of_many_comparisons_needs_more_than_one_alone() {
    let one = comparison("cycles_per_s", 1.01, 1.2, 0.03);
    assert_eq!(verdicts(vec![one.clone()]), ["better"]);
    assert_eq!(verdicts(vec![one, comparison("cycles_per_s", 0.9, 1.1, 0.9)])[0], "not-shown");
}

#[test]
fn holm_multiplies_the_smallest_by_the_number_of_comparisons() {
    let ps = [Some(0.04), None, Some(0.01), Some(0.03)];
    let mut comparisons = ps.map(|p| Comparison { p, ..comparison("cycles_per_s", 1.1, 1.2, 0.0) });
    decide(&mut comparisons);
    let adjusted = comparisons.map(|comparison| comparison.p_adjusted);
    let near = |a: Option<f64>, b: f64| (a.unwrap() - b).abs() < 1e-12;
    assert!(near(adjusted[2], 0.03) && near(adjusted[3], 0.06) && near(adjusted[0], 0.06));
    assert_eq!(adjusted[1], None);
}

#[test]
fn an_effect_below_the_noise_of_equal_arms_is_not_shown() {
    let mut c = comparison("cycles_per_s", 1.03, 1.07, 0.001);
    for (point, verdict) in [(0.93, "not-shown"), (0.99, "better")] {
        c.same_again = Some(Ratio { point, ..Ratio::default() });
        assert_eq!(verdicts(vec![c.clone()]), [verdict]);
    }
}

#[test]
fn without_an_interval_nothing_is_shown() {
    let mut c = comparison("cycles_per_s", 2.0, 2.2, 0.001);
    (c.ratio.low, c.ratio.high) = (None, None);
    assert_eq!(verdicts(vec![c]), ["not-shown"]);
}

/// Two runs with these cycles per second and so many locks lost, compared in a sentence.
fn sentence(a: (&[f64], &[Option<u64>]), b: (&[f64], &[Option<u64>])) -> String {
    let run = |name: &str, (medians, lost): (&[f64], &[Option<u64>])| {
        let rows = medians.iter().enumerate();
        let rows = rows.map(|(at, median)| row(&format!("s{at}"), *median, Some(0.01)));
        let scenarios = lost.iter().enumerate().map(|(index, lost)| {
            let state = match lost {
                None => State::Unknown,
                Some(0) => State::Clean,
                Some(_) => State::Violated,
            };
            let mut result = scenario(&format!("f{index}"), "single", state);
            result.verdicts.contract.count = lost.unwrap_or(0);
            result
        });
        crate::samples::run(name, rows.collect(), scenarios.collect())
    };
    let [sentence] = &compare(&[run("A", a), run("B", b)], false).expect("something in common").answers[..]
    else {
        panic!("one sentence for one run");
    };
    sentence.clone()
}

#[test]
fn slower_but_safer_and_the_reverse() {
    assert_eq!(
        sentence((&[100.0], &[Some(3)]), (&[88.0], &[Some(0)])),
        "B is 12 % (10.2–13.7) slower than A and loses no lock where A lost 3."
    );
    assert_eq!(
        sentence((&[100.0], &[Some(0)]), (&[150.0], &[Some(1)])),
        "B is 50 % (47–53) faster than A and loses 1 lock where A lost none."
    );
}

#[test]
fn what_is_not_shown_or_not_known_is_no_difference() {
    assert_eq!(
        sentence((&[100.0], &[Some(0), None]), (&[101.0], &[Some(0), Some(4)])),
        "B is not shown to be faster or slower than A and loses no lock, as A (of 1 of 2 scenarios too little is known)."
    );
    assert_eq!(sentence((&[], &[None]), (&[], &[Some(4)])), "B is not known to lose or to keep its locks.");
    // What they have in common is a row of a lock that was not safe.
    let mut void = row("s", 100.0, None);
    void.safety.state = State::Violated;
    let answers = compare(&two(void.clone(), void), false).expect("a common row").answers;
    assert_eq!(answers, ["b and a have nothing that can be compared."]);
}

#[test]
fn several_rows_are_counted_with_the_furthest() {
    let words = sentence((&[100.0, 100.0, 100.0], &[]), (&[80.0, 50.0, 200.0], &[]));
    let slower = "B is slower in 2 of 3 rows (at most 50 % (49–51) slower, s1 on ";
    says(&words, &[slower, "faster in 1 of 3 rows"]);
}
