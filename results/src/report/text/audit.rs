//! A scorecard for a terminal: a matrix where there are several locks, and then every scenario that needs a word.

use super::text_layout::{GREEN, PLAIN, RED, YELLOW, paint, table};
use crate::audit::{Audit, AuditOutcome, AuditedScenario, AuditedSubject};
use crate::report::cells::printable;
use crate::run::Run;
use crate::units::enclosed;

/// The scorecard of each lock.
pub(super) fn scorecard(run: &Run, audit: &Audit, width: u16) -> Vec<String> {
    let mut sections = Vec::new();
    if audit.subjects.len() > 1 {
        sections.push(matrix(audit, width));
    }
    for subject in &audit.subjects {
        sections.push(card(run, subject, audit.subjects.len() == 1));
    }
    let lost = audit.regressions.iter().map(|one| {
        let (scenario, subject) = (&one.scenario, &one.subject);
        let line = format!("kept before and broken now: {scenario} by {subject}");
        paint(RED, &printable(&line)) + "\n"
    });
    sections.push(lost.collect());
    sections
}

fn color(outcome: AuditOutcome) -> char {
    match outcome {
        AuditOutcome::Kept => GREEN,
        AuditOutcome::Broken => RED,
        AuditOutcome::Unknown => YELLOW,
        AuditOutcome::Inherent | AuditOutcome::NotApplicable => PLAIN,
    }
}

fn mark(outcome: AuditOutcome) -> String {
    paint(color(outcome), &outcome.mark())
}

fn matrix(audit: &Audit, width: u16) -> String {
    let names = audit.subjects.iter();
    let names = names.map(|subject| printable(&subject.name));
    let header = std::iter::once("SCENARIO".to_owned()).chain(names);
    let rows = audit.rows().into_iter().map(|row| {
        let first = row.iter().flatten().next();
        let name = first.map_or(String::new(), |one| printable(&one.name));
        let cells = row.into_iter();
        let cells = cells.map(|one| one.map_or(String::new(), |one| mark(one.outcome)));
        std::iter::once(name).chain(cells)
    });
    table(width, header, usize::MAX, rows)
}

/// What is wrong and unknown first; what is kept in full only where nothing else has to be read.
fn card(run: &Run, subject: &AuditedSubject, alone: bool) -> String {
    let library = enclosed(" (", &subject.library, ")");
    let name = printable(&format!("{}{library}", subject.name));
    let mut out = format!("{name}: {}\n", subject.score.words());
    for finding in subject.conform.iter().flat_map(|conform| &conform.findings) {
        let (name, found) = (&finding.name, &finding.found);
        let (remedy, paragraph) = (&finding.remedy, &finding.paragraph);
        let line = format!("✗ driver, {name}: {found}; {remedy} ({paragraph})");
        out += &format!("  {}\n", paint(RED, &printable(&line)));
    }
    for outcome in [
        AuditOutcome::Broken,
        AuditOutcome::Unknown,
        AuditOutcome::Inherent,
        AuditOutcome::NotApplicable,
        AuditOutcome::Kept,
    ] {
        for scenario in subject.of(outcome) {
            out.push_str(&lines(run, scenario, alone));
        }
    }
    out
}

fn lines(run: &Run, scenario: &AuditedScenario, alone: bool) -> String {
    let outcome = scenario.outcome;
    let is_bad = matches!(outcome, AuditOutcome::Broken | AuditOutcome::Unknown);
    if !alone && !is_bad {
        return String::new();
    }
    let name = printable(&scenario.name);
    let mut out = format!("  {} {name}: {}\n", mark(outcome), printable(&scenario.why));
    if outcome == AuditOutcome::Broken {
        out.push_str(&format!("      tries: {}\n", printable(&scenario.claim)));
        for line in scenario.commands(&run.run) {
            out.push_str(&format!("      {}\n", printable(&line)));
        }
    }
    out
}
