//! Conditions over small runs: what passes, what fails, what is unknown, and what is wrong with a condition.

use results::gate::{Outcome, decide, parse, parse_budget};
use results::run::{BenchRow, Run};
use results::verdict::State;

use crate::samples::{self, around};

fn row(subject: &str, cycles: f64, p99_ms: Option<u64>) -> BenchRow {
    let mut row = samples::row(subject, "single", around(cycles, 0.1));
    row.acquire_ns.p99 = p99_ms.map(|ms| ms * 1_000_000);
    row.acquire_ns.n = 500;
    row
}

fn run(rows: Vec<BenchRow>) -> Run {
    samples::run("r", rows, Vec::new())
}

fn all(run: &Run, base: Option<&Run>, expected: &[(&str, Outcome)]) {
    for (condition, outcome) in expected {
        assert_eq!(self::outcome(run, base, condition), *outcome, "{condition}");
    }
}

use Outcome::{Failed, Passed, Unknown};

fn outcome(run: &Run, base: Option<&Run>, condition: &str) -> Outcome {
    decide(run, base, &[parse(condition).expect("a good condition")]).outcome
}

#[test]
fn every_row_must_keep_it() {
    let run = run(vec![row("a", 100.0, Some(3)), row("b", 200.0, Some(7))]);
    let expected = [
        ("p99(acquire) < 10ms", Passed),
        ("p99(acquire) < 5 ms", Failed),
        ("p99(acquire) < 5ms where subject == a", Passed),
        ("cycles >= 100/s", Passed),
        ("cycles >= 12000/min where subject == b*", Passed),
        ("cycles >= 150 where subject != b", Failed),
    ];
    all(&run, None, &expected);
}

#[test]
fn a_figure_that_looks_like_its_bound_shows_the_digits_that_tell_them_apart() {
    let mut run = run(vec![row("a", 100.000_4, Some(5))]);
    run.rows[0].commands_per_cycle = Some(2.000_002_4);
    run.rows[0].acquire_ns.p99 = Some(5_000_001);
    for (condition, found, bound) in [
        ("commands <= 2", "2.000002", "<= 2"),
        ("p99(acquire) <= 5ms", "5000001 ns", "<= 5 ms"),
        ("cycles <= 100", "100.0004/s (90/s–110/s)", "<= 100/s"),
        ("commands <= 1", "2", "<= 1"),
    ] {
        let part = &decide(&run, None, &[parse(condition).expect("a good condition")]).conditions[0].parts[0];
        assert_eq!((part.found.as_str(), part.bound.as_str(), part.outcome), (found, bound, Failed));
    }
}

#[test]
fn a_share_of_the_base_is_a_bound() {
    let before = run(vec![row("a", 100.0, None), row("b", 100.0, None)]);
    let after = run(vec![row("a", 96.0, None), row("b", 94.0, None)]);
    let expected = [
        ("cycles >= 0.95 * base where subject == a", Passed),
        ("cycles >= 95% * base", Failed),
        ("cycles >= base * 0.9", Passed),
        ("cycles > base", Failed),
    ];
    all(&after, Some(&before), &expected);
    // A base that never measured these rows.
    all(&after, Some(&run(vec![row("c", 100.0, None)])), &[("cycles >= 0.95 * base", Unknown)]);
}

#[test]
fn what_is_not_known_does_not_pass() {
    let mut run = run(vec![row("a", 100.0, None)]);
    let expected = [
        ("p99(acquire) < 5ms", Unknown),
        ("p50(handoff) < 5ms", Unknown),
        ("recovery < 5s", Unknown),
        ("cycles > 1 where subject == nobody", Unknown),
    ];
    all(&run, None, &expected);
    run.partial = true;
    all(&run, None, &[("cycles > 1", Unknown), ("cycles > 1000", Failed)]);
    run.partial = false;
    run.rows[0].valid = false;
    all(&run, None, &[("cycles > 1", Unknown)]);
    assert_eq!(decide(&run, None, &[]).outcome, Unknown);
}

#[test]
fn figures_of_an_unsafe_lock_are_void() {
    let mut run = run(vec![row("a", 100.0, Some(1))]);
    run.rows[0].safety.state = State::Violated;
    for condition in ["cycles > 1", "safety == clean", "contract == clean"] {
        all(&run, None, &[(condition, Failed)]);
    }
}

#[test]
fn verdicts_are_words_and_numbers() {
    let mut result = samples::scenario("failover", "single", State::Violated);
    result.load_ns = 30_000_000_000;
    result.verdicts.contract.worst_ns = 2_000_000;
    result.verdicts.belief.state = State::Unknown;
    let mut run = samples::run("r", Vec::new(), vec![result]);
    let expected = [
        ("contract == clean", Failed),
        ("contract == violated", Passed),
        ("contract != clean", Passed),
        ("liveness == clean", Passed),
        ("belief == clean", Unknown),
        ("belief != violated", Unknown),
        ("count(contract) <= 3", Passed),
        ("per_minute(contract) <= 5", Failed),
        ("worst(contract) < 3ms", Passed),
        ("contract == clean where scenario == fail*over", Failed),
    ];
    all(&run, None, &expected);
    // Its lock never came back from the fault.
    all(&run, None, &[("recovery < 5s", Failed)]);
    run.scenarios[0].faults.clear();
    all(&run, None, &[("recovery < 5s", Unknown)]);
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
        ("cycles > 5 where topolgy == single", 18, "did you mean `topology`?"),
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
fn a_lock_that_polls_is_not_asked_whether_wake_ups_were_lost() {
    let with = |subject| {
        let mut row = row(subject, 100.0, Some(3));
        row.measures.passing =
            Some(results::measures::HandoffMeasures { lost_wakeups: 3, ..Default::default() });
        row
    };
    let polls = with("exec:./driver.py");
    let none = "lost_wakeups == 0";
    assert_eq!(outcome(&run(vec![polls.clone()]), None, none), Outcome::Passed);
    assert_eq!(outcome(&run(vec![polls, with("lock-core:plain")]), None, none), Outcome::Failed);
}

#[test]
fn a_budget_file_gives_all_its_errors_with_their_lines() {
    let good = parse_budget("# CI\n\np99(acquire) < 5ms  # fast\ncontract == clean\n");
    let good = good.expect("two conditions");
    let texts: Vec<&str> = good.iter().map(|one| one.text.as_str()).collect();
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
