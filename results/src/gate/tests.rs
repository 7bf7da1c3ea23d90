//! Conditions over small runs: what passes, what fails, what is unknown, and what is wrong with a condition.

use super::*;
use crate::run::{Meta, Quantiles, Safety};

fn row(subject: &str, cycles: f64, p99_ms: Option<u64>) -> BenchRow {
    BenchRow {
        subject: subject.to_owned(),
        topology: "single".to_owned(),
        workload: "uncontended".to_owned(),
        tasks: 16,
        cycles_per_s: Estimate {
            median: cycles,
            low: Some(cycles * 0.9),
            high: Some(cycles * 1.1),
        },
        acquire_ns: Quantiles {
            p99: p99_ms.map(|ms| ms * 1_000_000),
            n: 500,
            ..Quantiles::default()
        },
        safety: Safety {
            state: State::Clean,
        },
        valid: true,
        ..BenchRow::default()
    }
}

fn run(rows: Vec<BenchRow>) -> Run {
    Run {
        rows,
        ..Run::new("r", "bench", Meta::default())
    }
}

fn outcome(run: &Run, base: Option<&Run>, condition: &str) -> Outcome {
    let condition = parse(condition).expect("a good condition");
    decide(run, base, &[condition]).outcome
}

#[test]
fn every_row_must_keep_it() {
    let run = run(vec![row("a", 100.0, Some(3)), row("b", 200.0, Some(7))]);
    let of = |condition| outcome(&run, None, condition);
    assert_eq!(of("p99(acquire) < 10ms"), Outcome::Passed);
    assert_eq!(of("p99(acquire) < 5 ms"), Outcome::Failed);
    assert_eq!(of("p99(acquire) < 5ms where subject == a"), Outcome::Passed);
    assert_eq!(of("cycles >= 100/s"), Outcome::Passed);
    assert_eq!(
        of("cycles >= 12000/min where subject == b*"),
        Outcome::Passed
    );
    assert_eq!(of("cycles >= 150 where subject != b"), Outcome::Failed);
}

#[test]
fn a_share_of_the_base_is_a_bound() {
    let before = run(vec![row("a", 100.0, None), row("b", 100.0, None)]);
    let after = run(vec![row("a", 96.0, None), row("b", 94.0, None)]);
    let of = |condition| outcome(&after, Some(&before), condition);
    assert_eq!(
        of("cycles >= 0.95 * base where subject == a"),
        Outcome::Passed
    );
    assert_eq!(of("cycles >= 95% * base"), Outcome::Failed);
    assert_eq!(of("cycles >= base * 0.9"), Outcome::Passed);
    assert_eq!(of("cycles > base"), Outcome::Failed);
    let other = run(vec![row("c", 100.0, None)]);
    assert_eq!(
        outcome(&after, Some(&other), "cycles >= 0.95 * base"),
        Outcome::Unknown,
        "the base never measured these rows"
    );
}

#[test]
fn what_is_not_known_does_not_pass() {
    let mut run = run(vec![row("a", 100.0, None)]);
    let of = |run: &Run, condition| outcome(run, None, condition);
    assert_eq!(of(&run, "p99(acquire) < 5ms"), Outcome::Unknown);
    assert_eq!(of(&run, "p50(handoff) < 5ms"), Outcome::Unknown);
    assert_eq!(of(&run, "recovery < 5s"), Outcome::Unknown);
    assert_eq!(
        of(&run, "cycles > 1 where subject == nobody"),
        Outcome::Unknown
    );
    run.partial = true;
    assert_eq!(of(&run, "cycles > 1"), Outcome::Unknown);
    assert_eq!(of(&run, "cycles > 1000"), Outcome::Failed);
    run.partial = false;
    run.rows[0].valid = false;
    assert_eq!(of(&run, "cycles > 1"), Outcome::Unknown);
    assert_eq!(decide(&run, None, &[]).outcome, Outcome::Unknown);
}

#[test]
fn figures_of_an_unsafe_lock_are_void() {
    let mut run = run(vec![row("a", 100.0, Some(1))]);
    run.rows[0].safety.state = State::Violated;
    assert_eq!(outcome(&run, None, "cycles > 1"), Outcome::Failed);
    assert_eq!(outcome(&run, None, "safety == clean"), Outcome::Failed);
    assert_eq!(outcome(&run, None, "contract == clean"), Outcome::Failed);
}

#[test]
fn verdicts_are_words_and_numbers() {
    let mut run = run(vec![]);
    let mut result = ScenarioResult {
        name: "failover".to_owned(),
        load_ns: 30_000_000_000,
        as_expected: true,
        ..ScenarioResult::default()
    };
    result.verdicts.contract.state = State::Violated;
    result.verdicts.contract.count = 3;
    result.verdicts.contract.worst_ns = 2_000_000;
    result.verdicts.liveness.state = State::Clean;
    run.scenarios.push(result);
    let of = |condition| outcome(&run, None, condition);
    assert_eq!(of("contract == clean"), Outcome::Failed);
    assert_eq!(of("contract == violated"), Outcome::Passed);
    assert_eq!(of("contract != clean"), Outcome::Passed);
    assert_eq!(of("liveness == clean"), Outcome::Passed);
    assert_eq!(of("belief == clean"), Outcome::Unknown);
    assert_eq!(of("belief != violated"), Outcome::Unknown);
    assert_eq!(of("count(contract) <= 3"), Outcome::Passed);
    assert_eq!(of("per_minute(contract) <= 5"), Outcome::Failed);
    assert_eq!(of("worst(contract) < 3ms"), Outcome::Passed);
    assert_eq!(
        of("contract == clean where scenario == fail*over"),
        Outcome::Failed
    );
}

#[test]
fn a_lock_that_never_came_back_has_no_good_recovery() {
    let mut run = run(vec![]);
    run.scenarios.push(ScenarioResult {
        faults: vec![crate::run::FaultSpan::default()],
        ..ScenarioResult::default()
    });
    assert_eq!(outcome(&run, None, "recovery < 5s"), Outcome::Failed);
}

#[test]
fn every_error_has_its_place_and_a_remedy() {
    for (condition, column, words) in [
        ("", 1, "p99(acquire) < 5ms"),
        ("cycels > 5", 1, "did you mean `cycles`?"),
        ("p98(acquire) < 5ms", 1, "`p98` is no function"),
        ("p99 < 5ms", 1, "write p99(acquire)"),
        ("p99(aquire) < 5ms", 5, "did you mean `acquire`?"),
        ("p99(acquire < 5ms", 13, "where `)` is to be"),
        ("p99(acquire) < 5", 16, "is not a time"),
        ("p99(acquire) < 5/s", 16, "is not a time"),
        ("p99(acquire) = 5ms", 14, "did you mean `==`?"),
        ("p99(acquire) <", 15, "missing at the end"),
        ("contract < clean", 10, "a state has no order"),
        ("contract == claen", 13, "did you mean `clean`?"),
        ("cycles > 5ms", 10, "is not a rate"),
        ("cycles > 2 * bass", 14, "where `base` is to be"),
        ("cycles > 5 6", 12, "behind the end"),
        (
            "cycles > 5 where topolgy == single",
            18,
            "did you mean `topology`?",
        ),
        ("cycles > 5 where tasks < 5", 24, "`==` or `!=`"),
        ("cycles > 5 & 6", 12, "means nothing"),
        ("cycles > 5 where subject == 'a", 29, "has no end"),
    ] {
        let error = parse(condition).expect_err(condition);
        assert_eq!(error.column, column, "{condition}: {error}");
        assert!(error.message.contains(words), "{condition}: {error}");
    }
}

#[test]
fn a_budget_file_gives_all_its_errors_with_their_lines() {
    let good = parse_budget("# CI\n\np99(acquire) < 5ms  # fast\ncontract == clean\n");
    let texts: Vec<String> = good
        .expect("two conditions")
        .into_iter()
        .map(|condition| condition.text)
        .collect();
    assert_eq!(texts, ["p99(acquire) < 5ms", "contract == clean"]);
    let bad = parse_budget("cycles\n\ncontract == clean\nspeed > 1\n").expect_err("two errors");
    let lines: Vec<usize> = bad.iter().map(|(line, _)| *line).collect();
    assert_eq!(lines, [1, 4]);
}

proptest::proptest! {
    #[test]
    fn any_text_is_a_condition_or_an_error_inside_of_it(text in "\\PC{0,40}") {
        if let Err(error) = parse(&text) {
            proptest::prop_assert!(error.column >= 1 && error.column <= text.chars().count() + 1);
        }
    }

    #[test]
    fn broken_conditions_never_panic(text in "(p99|cycles|\\(|\\)|acquire|<|==|5ms|base|\\*|where|tasks|,| |'){0,12}") {
        let _ = parse(&text);
    }
}
