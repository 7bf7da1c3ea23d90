//! The scenarios in the summary: verdicts, reasons, recovery, repeats, proofs.

use std::collections::BTreeMap;

use itertools::Itertools;

use super::text_layout::{outcome_color, paint, table};
use crate::compare::scenario_key;
use crate::proof::Proof;
use crate::report::cells::{self, printable};
use crate::report::{open_loop, recovery, servers};
use crate::run::{Outcome, Run, ScenarioResult};
use crate::units::{self, enclosed};
use crate::verdict::{CLASSES, State, Verdict};

pub(super) fn verdict_table(run: &Run, width: u16) -> String {
    let rows = run.scenarios.iter().map(|scenario| {
        let (name, place) = (printable(&scenario.name), printable(&scenario.place()));
        let faults = printable(&cells::faults(&scenario.faults));
        let mut row = vec![format!("{name}\n{place}\n{faults}")];
        if let Some(least) = scenario.over_time.as_ref().and_then(|over| over.share_min) {
            row[0] += &format!("\nleast client {}", units::figure(least));
        }
        let verdicts = scenario.verdicts.iter();
        row.extend(verdicts.map(|(_, verdict)| verdict_cell(verdict)));
        row.push(cells::recovery(scenario));
        row.push(expected_cell(scenario));
        row
    });
    let header = ["SCENARIO"].into_iter().chain(CLASSES);
    let header = header.chain(["recovery", "expected"]);
    table(width, header, usize::MAX, rows)
}

/// What each scenario came out as on each of several servers.
pub(super) fn servers(run: &Run, width: u16) -> String {
    let Some((heads, rows)) = servers::matrix(run) else {
        return String::new();
    };
    let heads = heads.iter().map(String::as_str);
    table(width, heads, usize::MAX, rows)
}

/// Of scenarios that ran several times: how many of the repeats convict, and by which verdicts.
pub(super) fn repeats(run: &Run) -> String {
    let mut groups: BTreeMap<_, Vec<&ScenarioResult>> = BTreeMap::new();
    for result in &run.scenarios {
        let key = (&result.name, &result.topology, &result.subject);
        groups.entry(key).or_default().push(result);
    }
    let mut out = String::new();
    for repeats in groups.into_values().filter(|repeats| repeats.len() > 1) {
        let violated = |result: &ScenarioResult, class: &str| {
            let verdict = result.verdicts.get(class);
            verdict.is_some_and(|verdict| verdict.state == State::Violated)
        };
        let by = CLASSES.into_iter().filter_map(|class| {
            let convict = repeats.iter().filter(|result| violated(result, class));
            Some((class, convict.count())).filter(|(_, convict)| *convict > 0)
        });
        let by = by.map(|(class, convict)| format!("{class} {convict}"));
        let by = enclosed(" (", &by.format(", ").to_string(), ")");
        let convict = repeats.iter();
        let convict = convict.filter(|one| CLASSES.iter().any(|class| violated(one, class)));
        let (convict, all) = (convict.count(), repeats.len());
        let good = repeats.iter().filter(|one| one.as_expected).count();
        let name = printable(&scenario_key(repeats[0]));
        out += &format!("{name}: {convict} of {all} repeats convict{by}; {good} as expected\n");
    }
    out
}

/// Recovery from each fault; left out of the summary of a long suite, where `show --faults` has it.
pub(super) fn recovery_table(run: &Run, width: u16) -> String {
    const SCENARIOS_MAX: usize = 8;
    match run.scenarios.len() {
        ..=SCENARIOS_MAX => faults(run, width),
        _ => String::new(),
    }
}

/// Recovery from each fault of each scenario; empty where there was none.
pub fn faults(run: &Run, width: u16) -> String {
    let rows = recovery::rows(run);
    if rows.is_empty() {
        return String::new();
    }
    let table = table(width, recovery::heads(), 1, rows);
    format!(
        "{table}\n\nbefore, after: from the fault; errors, hangs: share of the operations between the fault and its heal or the next grant; herd: \
         acquires in the second after the heal\n"
    )
}

/// How long callers waited in open loops; empty where there was none.
pub(super) fn open_loops(run: &Run, width: u16) -> String {
    let rows = open_loop::rows(run);
    if rows.is_empty() {
        return String::new();
    }
    let table = table(width, open_loop::HEADS, 1, rows);
    format!("{table}\n\n{}\n", open_loop::NOTE)
}

/// State and count on one line, the worst below it: so the five columns stay narrow.
fn verdict_cell(verdict: &Verdict) -> String {
    let words = cells::verdict(verdict).replace(' ', "\u{a0}");
    words.replace(",\u{a0}worst\u{a0}", "\n  ")
}

fn expected_cell(scenario: &ScenarioResult) -> String {
    let outcome = scenario.outcome();
    let glyph = paint(outcome_color(outcome), &outcome.glyph().to_string());
    format!("{glyph} {}", printable(&cells::expected(scenario)))
}

/// The proof of every violated verdict of every scenario, each drawn, with the lines that convict.
pub fn proofs(run: &Run) -> String {
    let mut out = String::new();
    for scenario in &run.scenarios {
        for (class, verdict) in scenario.verdicts.iter() {
            let Some(proof) = &verdict.proof else {
                continue;
            };
            let title = format!("{} (seed {}): {class}", scenario.name, scenario.seed);
            let rates = cells::rates(verdict).unwrap_or_default();
            out += &format!("\n{}\n{}", printable(&title), enclosed("  ", &rates, "\n"));
            for line in proof.text().lines() {
                out += &(printable(line) + "\n");
            }
        }
    }
    if out.is_empty() {
        out.push_str("nothing is violated, so there is nothing to prove\n");
    }
    out
}

/// Why anything is unknown or not as expected; what came out as expected needs no words here, the report has them.
pub(super) fn reasons(run: &Run) -> String {
    let mut out = String::new();
    for scenario in &run.scenarios {
        let outcome = scenario.outcome();
        if outcome < Outcome::Unknown {
            continue;
        }
        let title = format!("{} {}", outcome.glyph(), printable(&scenario.name));
        out += &(paint(outcome_color(outcome), &title) + "\n");
        let mut lines = scenario.reasons();
        let proof = gravest(scenario).map_or(String::new(), Proof::text);
        lines.extend(proof.lines().map(str::to_owned));
        let faults = scenario.faults.iter().filter(|fault| !fault.bit);
        lines.extend(faults.map(|fault| {
            let evidence = match fault.proof.as_str() {
                "" => "no evidence that it took effect",
                proof => proof,
            };
            format!("fault {}: {evidence}", fault.fault)
        }));
        for line in lines {
            out += &format!("    {}\n", printable(&line));
        }
    }
    out
}

/// The proof of the gravest verdict that was not to be violated.
fn gravest(scenario: &ScenarioResult) -> Option<&Proof> {
    let classes = ["contract", "confirmed", "effect", "belief", "liveness"];
    classes.into_iter().find_map(|class| {
        let expected = scenario.expected.get(class)?;
        let verdict = scenario.verdicts.get(class)?;
        let missed = verdict.meets(expected, scenario.load_ns) == Some(false);
        verdict.proof.as_ref().filter(|_| missed)
    })
}
