//! What a record says by itself: its outcome, its verdicts, its latencies over time.

use std::collections::BTreeMap;

use results::intervals::{INTERVALS_MAX, Intervals};
use results::run::{Estimate, FaultSpan, Meta, Outcome, Run, ScenarioResult};
use results::verdict::{CLASSES, State, Verdict, Verdicts, meaning};

fn scenario(exit_code: u8) -> ScenarioResult {
    ScenarioResult {
        exit_code,
        as_expected: exit_code == 0,
        expected: BTreeMap::from([("contract".to_owned(), "clean".to_owned())]),
        ..ScenarioResult::default()
    }
}

#[test]
fn what_a_short_load_cannot_show_is_not_called_never() {
    let s = 1_000_000_000;
    let after = |load_s, lease_s: Option<u64>| ScenarioResult {
        load_ns: load_s * s,
        lease_ns: lease_s.map(|lease_s| lease_s * s),
        faults: vec![FaultSpan { injected_ns: s, ..FaultSpan::default() }],
        ..ScenarioResult::default()
    };
    assert_eq!(after(4, Some(10)).unrecovered(), "not within this run (lease 10 s, load 4 s)");
    assert_eq!(after(12, Some(10)).unrecovered(), "never");
    assert_eq!(after(4, None).unrecovered(), "never", "an earlier build's run");
}

#[test]
fn one_is_worse_than_two_and_two_is_worse_than_zero() {
    let mut run = Run::new("runs/x", "chaos", Meta::default());
    assert_eq!(run.outcome(), Outcome::None);
    run.scenarios = vec![scenario(0)];
    assert_eq!(run.outcome(), Outcome::AsExpected);
    run.scenarios.push(scenario(2));
    run.as_expected = Some(false);
    assert_eq!(run.outcome(), Outcome::Unknown);
    run.scenarios.push(scenario(1));
    assert_eq!(run.outcome(), Outcome::NotAsExpected);
}

#[test]
fn a_partial_run_is_never_as_expected() {
    let mut run = Run::new("runs/x", "chaos", Meta::default());
    run.as_expected = Some(true);
    run.partial = true;
    assert_eq!(run.outcome(), Outcome::Unknown);
}

#[test]
fn a_figure_that_is_no_number_comes_back_as_one() {
    let estimate = Estimate { median: f64::NAN, low: None, high: None };
    let text = serde_json::to_string(&estimate).expect("estimates serialise");
    assert_eq!(text, r#"{"median":null,"low":null,"high":null}"#);
    let back: Estimate = serde_json::from_str(&text).expect("null is read");
    assert!(back.median.is_nan());
}

#[test]
fn durations_fall_into_the_interval_of_their_end() {
    let samples = [(0, 10, 2), (1_400_000_000, 20, 1), (9_000_000_000, 30, 1)];
    let intervals = Intervals::of(2_800_000_000, samples).expect("samples");
    assert_eq!(intervals.interval_ns, 1_400_000_000);
    assert_eq!(intervals.histograms, [vec![(10, 2)], vec![(20, 1), (30, 1)]]);
}

#[test]
fn a_day_has_as_many_intervals_as_a_minute() {
    for length_s in [60, 86_400] {
        let length_ns = length_s * 1_000_000_000;
        let samples = (0..10_000).map(|n| (length_ns / 10_000 * n, 1_000 * n, 1));
        let intervals = Intervals::of(length_ns, samples).expect("samples");
        assert_eq!(intervals.histograms.len() as u64, INTERVALS_MAX);
        let text = serde_json::to_string(&intervals).expect("JSON");
        assert!(text.len() < 10_000, "{} bytes", text.len());
        let back: Intervals = serde_json::from_str(&text).expect("what was written");
        assert_eq!(back, intervals);
    }
}

#[test]
fn a_quantile_needs_a_value_beyond_it() {
    let intervals = Intervals::of(1, [(0, 10, 98), (0, 20, 2)]).expect("samples");
    assert_eq!(intervals.quantile(0.5), [Some(10)]);
    assert_eq!(intervals.quantile(0.99), [Some(20)]);
    assert_eq!(intervals.quantile(0.999), [None]);
    assert_eq!(intervals.quantile(1.0), [Some(20)]);
}

#[test]
fn nothing_is_not_drawn() {
    assert_eq!(Intervals::of(5_000_000_000, []), None);
}

fn verdict(state: State, count: u64) -> Verdict {
    Verdict { state, count, ..Verdict::default() }
}

#[test]
fn unknown_meets_nothing() {
    for expected in ["clean", "violated", "at-most 2/min"] {
        assert_eq!(verdict(State::Unknown, 0).meets(expected, 1), None);
    }
}

#[test]
fn at_most_counts_by_the_minute() {
    let minute = 60_000_000_000;
    for (expected, load_ns, met) in [
        ("at-most 2/min", minute, Some(true)),
        ("at-most 2/min", minute / 2, Some(false)),
        ("at-most 2/min", 0, None),
        ("mostly", minute, None),
    ] {
        let found = verdict(State::Violated, 2).meets(expected, load_ns);
        assert_eq!(found, met, "{expected} in {load_ns} ns");
    }
}

#[test]
fn classes_and_verdicts_are_in_one_order() {
    let verdicts = Verdicts { liveness: verdict(State::Violated, 7), ..Verdicts::default() };
    let count = |class| verdicts.get(class).map(|verdict| verdict.count);
    assert_eq!(["liveness", "belief", "beleif"].map(count), [Some(7), Some(0), None]);
    assert!(CLASSES.iter().all(|class| !meaning(class).is_empty()));
}
