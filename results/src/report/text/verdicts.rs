//! Verdicts as text: those of a history with their proofs, and how often scenarios came out how.

use std::collections::BTreeMap;

use super::columns;
use crate::report::rates;
use crate::run::ScenarioResult;
use crate::verdict::{State, Verdict, Verdicts};

/// The verdicts on a history, why they are unknown, the anomalies of each lock, and the proofs.
pub fn verdicts(all: &Verdicts, locks: &BTreeMap<String, Verdicts>) -> String {
    let mut out = String::new();
    for (class, verdict) in all.iter() {
        out += &format!("{class:<10} {}\n", describe(verdict));
        for why in &verdict.why {
            out += &format!("           {why}\n");
        }
    }
    for (name, verdicts) in locks {
        for (class, verdict) in verdicts.iter() {
            for anomaly in &verdict.anomalies {
                out += &format!("{name}: {class}: {}\n", anomaly.proof);
            }
        }
    }
    for (class, verdict) in all.iter() {
        if let Some(proof) = &verdict.proof {
            out += &format!("\nproof, {class}\n{}", proof.text());
        }
    }
    out
}

fn describe(verdict: &Verdict) -> String {
    match verdict.state {
        State::Violated => format!("violated, {}", rates(verdict).unwrap_or_default()),
        state => state.word().to_owned(),
    }
}

/// The worst of a result's judged verdicts; where a scenario expects nothing, all are judged.
fn worst(result: &ScenarioResult) -> State {
    let is_expected = |class: &str| result.expected.contains_key(class);
    let all = !result.verdicts.iter().any(|(class, _)| is_expected(class));
    let judged = result.verdicts.iter().filter(|(class, _)| all || is_expected(class));
    let states: Vec<State> = judged.map(|(_, verdict)| verdict.state).collect();
    match () {
        () if states.contains(&State::Violated) => State::Violated,
        () if states.contains(&State::Unknown) || states.is_empty() => State::Unknown,
        () => State::Clean,
    }
}

/// How often each scenario was convicted, clean or unknown, and how often that was as expected.
pub fn tally_results(results: &[ScenarioResult]) -> String {
    tally(results.iter().map(|result| (&*result.name, worst(result), result.as_expected)))
}

/// The same of outcomes by the scenario's name: what came out, and whether that was as expected.
pub fn tally<'a>(outcomes: impl Iterator<Item = (&'a str, State, bool)>) -> String {
    let mut counts: BTreeMap<&str, [u32; 5]> = BTreeMap::new();
    for (name, state, as_expected) in outcomes {
        let count = counts.entry(name).or_default();
        count[0] += 1;
        count[match state {
            State::Violated => 1,
            State::Clean => 2,
            State::Unknown => 3,
        }] += 1;
        count[4] += u32::from(as_expected);
    }
    let heads = ["scenario", "runs", "convicted", "clean", "unknown", "as expected"];
    let mut rows = vec![heads.map(str::to_owned).to_vec()];
    rows.extend(counts.into_iter().map(|(name, count)| {
        [vec![name.to_owned()], count.map(|count| count.to_string()).to_vec()].concat()
    }));
    columns(&rows, 1..6).into_iter().map(|line| line + "\n").collect()
}
