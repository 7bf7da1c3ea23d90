//! Small runs, rows and scenarios that tests start from.

use results::decide::FEWEST_ROUNDS;
use results::run::{BenchRow, Estimate, FaultSpan, Meta, Run, Safety, ScenarioResult};
use results::verdict::{CLASSES, State};

/// A median with an interval that reaches this share of it to either side.
pub(crate) fn around(median: f64, share: f64) -> Estimate {
    Estimate { median, low: Some(median * (1.0 - share)), high: Some(median * (1.0 + share)) }
}

/// A valid row of a safe lock, of as many rounds as show a difference.
pub(crate) fn row(subject: &str, topology: &str, cycles_per_s: Estimate) -> BenchRow {
    BenchRow {
        subject: subject.to_owned(),
        topology: topology.to_owned(),
        workload: "uncontended".to_owned(),
        tasks: 16,
        rounds: FEWEST_ROUNDS,
        cycles_per_s,
        safety: Safety { state: State::Clean },
        valid: true,
        ..BenchRow::default()
    }
}

/// A scenario with one fault that took effect, clean but for the contract.
pub(crate) fn scenario(name: &str, topology: &str, contract: State) -> ScenarioResult {
    let mut result = ScenarioResult {
        name: name.to_owned(),
        topology: topology.to_owned(),
        subject: "lock-core:reentrant".to_owned(),
        faults: vec![FaultSpan { fault: "kill".to_owned(), bit: true, ..FaultSpan::default() }],
        ..ScenarioResult::default()
    };
    for class in CLASSES {
        result.verdicts.get_mut(class).expect("a class").state = State::Clean;
    }
    result.verdicts.contract.state = contract;
    if contract == State::Violated {
        result.verdicts.contract.count = 3;
        result.verdicts.contract.worst_ns = 3_500_000_000;
    }
    result
}

#[track_caller]
pub(crate) fn says(text: &str, parts: &[&str]) {
    let mut rest = text;
    for part in parts {
        let found = rest.split_once(part);
        rest = found.unwrap_or_else(|| panic!("{part} in {text}")).1;
    }
}

pub(crate) fn run(name: &str, rows: Vec<BenchRow>, scenarios: Vec<ScenarioResult>) -> Run {
    Run { rows, scenarios, ..Run::new(name, "bench", Meta::default()) }
}
