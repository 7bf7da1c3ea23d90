//! A scorecard as Markdown: a column per lock, and each conviction with what shows it.

use super::{cell, table};
use crate::audit::{Audit, AuditOutcome};
use crate::report::cells::printable;
use crate::run::Run;
use crate::sequence::Sequence;

/// So many convictions are drawn; of the others the lines that show them are given.
const DRAWN_MAX: usize = 20;

pub(super) fn scorecard(out: &mut String, run: &Run, audit: &Audit) {
    for lost in &audit.regressions {
        let line = format!(
            "Kept before and broken now: {} by {}",
            lost.scenario, lost.subject
        );
        out.push_str(&format!("\n> {}\n", cell(&line)));
    }
    for subject in &audit.subjects {
        for finding in subject.conform.iter().flat_map(|conform| &conform.findings) {
            let line = format!(
                "The driver of {} does not conform, {}: {} {}",
                subject.name, finding.name, finding.found, finding.remedy
            );
            out.push_str(&format!("\n> {}\n", cell(&line)));
        }
    }
    out.push_str("\n## Scenarios\n\n");
    let alone = audit.subjects.len() == 1;
    let mut heads = vec!["scenario".to_owned()];
    heads.extend(audit.subjects.iter().map(|subject| cell(&subject.name)));
    heads.extend(alone.then(|| "why".to_owned()));
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let rows = audit.rows().into_iter().map(|row| {
        let first = row.iter().flatten().next();
        let mut words = vec![first.map_or(String::new(), |one| one.name.clone())];
        words.extend(row.iter().map(|one| {
            one.map_or(String::new(), |one| {
                format!("{} {}", one.outcome.glyph(), one.outcome.word())
            })
        }));
        words.extend(first.filter(|_| alone).map(|one| one.why.clone()));
        words
    });
    table(out, &heads, rows);
    let mut drawn = 0;
    for subject in &audit.subjects {
        for outcome in [AuditOutcome::Broken, AuditOutcome::Unknown] {
            for scenario in subject.of(outcome) {
                let title = format!("{} {} by {}", outcome.glyph(), scenario.name, subject.name);
                out.push_str(&format!(
                    "\n<details open><summary>{}</summary>\n\nTries: {}\n\n{}\n",
                    cell(&title),
                    cell(&scenario.claim),
                    cell(&scenario.why)
                ));
                let commands = scenario.commands(&run.run);
                if !commands.is_empty() {
                    let lines = printable_lines(&commands);
                    out.push_str(&format!("\n```sh\n{lines}\n```\n"));
                }
                if let Some(small) = &scenario.smallest {
                    let (about, text) = (cell(&small.title()), small.text.replace("```", "` ` `"));
                    out.push_str(&format!("\n{about}:\n\n```toml\n{text}```\n"));
                }
                let sequence = run.decisive(scenario).and_then(Sequence::of);
                if let Some(sequence) =
                    sequence.filter(|_| drawn < DRAWN_MAX && outcome == AuditOutcome::Broken)
                {
                    drawn += 1;
                    out.push_str(&format!("\n```mermaid\n{}```\n", sequence.mermaid()));
                }
                out.push_str("\n</details>\n");
            }
        }
    }
}

fn printable_lines(lines: &[String]) -> String {
    let lines: Vec<String> = lines
        .iter()
        .map(|line| printable(line).replace("```", "` ` `"))
        .collect();
    lines.join("\n")
}
