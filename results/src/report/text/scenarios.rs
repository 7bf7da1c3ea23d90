//! The scenarios in the summary: verdicts, reasons, recovery, repeats, proofs.

use std::collections::BTreeMap;

use super::paper::{outcome_color, paint, table};
use crate::proof::Proof;
use crate::report::cells::{self, printable};
use crate::report::{open_loop, recovery, servers};
use crate::run::{Outcome, Run, ScenarioResult};
use crate::units;
use crate::verdict::{CLASSES, State, Verdict};

pub(super) fn verdict_table(run: &Run, width: u16) -> String {
    let rows = run.scenarios.iter().map(|scenario| {
        let mut row = vec![format!(
            "{}\n{}\n{}",
            printable(&scenario.name),
            printable(&scenario.place()),
            printable(&cells::faults(&scenario.faults)),
        )];
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
    let is_violated = |verdict: &Verdict| verdict.state == State::Violated;
    let mut out = String::new();
    for ((name, topology, subject), all) in groups.into_iter().filter(|(_, all)| all.len() > 1) {
        let by = CLASSES.into_iter().filter_map(|class| {
            let of_class = all.iter().filter_map(|result| result.verdicts.get(class));
            let violated = of_class.filter(|verdict| is_violated(verdict)).count();
            (violated > 0).then(|| format!("{class} {violated}"))
        });
        let by: Vec<String> = by.collect();
        let convict = all.iter().filter(|result| {
            let mut verdicts = result.verdicts.iter();
            verdicts.any(|(_, verdict)| is_violated(verdict))
        });
        out.push_str(&format!(
            "{}: {} of {} repeats convict{}; {} as expected\n",
            printable(&format!("{name} on {topology} with {subject}")),
            convict.count(),
            all.len(),
            if by.is_empty() {
                String::new()
            } else {
                format!(" ({})", by.join(", "))
            },
            all.iter().filter(|result| result.as_expected).count()
        ));
    }
    out
}

/// Recovery from each fault; left out of the summary of a long suite, where `show --faults` has it.
pub(super) fn recovery_table(run: &Run, width: u16) -> String {
    const SCENARIOS_MAX: usize = 8;
    if run.scenarios.len() > SCENARIOS_MAX {
        return String::new();
    }
    faults(run, width)
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
            if let Some(proof) = &verdict.proof {
                let title = format!("{} (seed {}): {class}", scenario.name, scenario.seed);
                out.push_str(&format!("\n{}\n", printable(&title)));
                if let Some(rates) = cells::rates(verdict) {
                    out.push_str(&format!("  {rates}\n"));
                }
                for line in proof.text().lines() {
                    out.push_str(&printable(line));
                    out.push('\n');
                }
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
        if !matches!(
            scenario.outcome(),
            Outcome::Unknown | Outcome::NotAsExpected
        ) {
            continue;
        }
        let color = outcome_color(scenario.outcome());
        out.push_str(&paint(
            color,
            &format!(
                "{} {}",
                scenario.outcome().glyph(),
                printable(&scenario.name)
            ),
        ));
        out.push('\n');
        for line in scenario.reasons() {
            out.push_str(&format!("    {}\n", printable(&line)));
        }
        if let Some(proof) = gravest(scenario) {
            for line in proof.text().lines() {
                out.push_str(&format!("    {}\n", printable(line)));
            }
        }
        for fault in scenario.faults.iter().filter(|fault| !fault.bit) {
            out.push_str(&format!(
                "    fault {}: {}\n",
                printable(&fault.fault),
                printable(if fault.proof.is_empty() {
                    "no evidence that it took effect"
                } else {
                    &fault.proof
                })
            ));
        }
    }
    out
}

/// The proof of the gravest verdict that was not to be violated.
fn gravest(scenario: &ScenarioResult) -> Option<&Proof> {
    ["contract", "confirmed", "effect", "belief", "liveness"]
        .into_iter()
        .filter(|class| scenario.expected.contains_key(*class))
        .filter_map(|class| Some((scenario.expected.get(class)?, scenario.verdicts.get(class)?)))
        .filter(|(expected, verdict)| verdict.meets(expected, scenario.load_ns) == Some(false))
        .find_map(|(_, verdict)| verdict.proof.as_ref())
}
