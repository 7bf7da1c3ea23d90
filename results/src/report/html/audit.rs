//! The page of an audit: one lock in a table with reasons, several in a matrix, and each conviction with its sequence of steps. The layout
//! is `templates/audit.html`.

use std::fmt::Display;

use askama::Template;

use super::bench::{self, NamedChart, named};
use super::fit::fit;
use super::{CSS, JS, facts, machine};
use crate::answer::small_print;
use crate::audit::{Audit, AuditOutcome, AuditedScenario};
use crate::report::cells;
use crate::report::table;
use crate::run::Run;
use crate::sequence::Sequence;
use crate::svg;

/// Reasons of one kind and lock are cut at so many characters where there are several locks.
const WHY_MAX: usize = 420;
/// What is listed lock by lock where there are several: what is broken has a section of its own.
const LISTED: [AuditOutcome; 3] = [
    AuditOutcome::Unknown,
    AuditOutcome::Inherent,
    AuditOutcome::NotApplicable,
];

pub(super) fn render(run: &Run, audit: &Audit) -> Result<String, String> {
    let page = crate::report::rendered(&Page {
        run,
        audit,
        convictions: convictions(run, audit),
    })?;
    Ok(fit(&page, ELSEWHERE))
}

/// Where what a page leaves out is to be found.
const ELSEWHERE: &str = "<code>locklab report RUN --proofs</code> has every proof, and audit.json beside this page everything.";

#[derive(Template)]
#[template(path = "audit.html")]
struct Page<'a> {
    run: &'a Run,
    audit: &'a Audit,
    convictions: Vec<Conviction<'a>>,
}

/// A scenario that a lock broke.
struct Conviction<'a> {
    id: String,
    subject: &'a str,
    scenario: &'a AuditedScenario,
    sequence: Option<NamedChart>,
}

fn outcome(audit: &Audit) -> String {
    match audit.score().worst() {
        Some(worst @ (AuditOutcome::Broken | AuditOutcome::Unknown)) => worst.mark(),
        Some(_) => "✓ nothing broken or unknown".to_owned(),
        None => "? nothing tried".to_owned(),
    }
}

/// Where a scenario of a lock, counted from 1, is on the page.
fn anchor(subject: impl Display, name: &str) -> String {
    format!("d{subject}-{name}")
}

/// Whether that place is there: for what is broken always, for what else is to be said where there are several locks.
fn is_linked(audit: &Audit, one: &AuditedScenario) -> bool {
    one.outcome == AuditOutcome::Broken
        || (audit.subjects.len() > 1 && one.outcome != AuditOutcome::Kept)
}

/// What to sort by.
fn key(outcome: &AuditOutcome) -> u8 {
    *outcome as u8
}

fn class(outcome: &AuditOutcome) -> &'static str {
    match outcome {
        AuditOutcome::Kept => "clean",
        AuditOutcome::Broken => "violated",
        AuditOutcome::Unknown => "unknown",
        AuditOutcome::Inherent | AuditOutcome::NotApplicable => "none",
    }
}

fn convictions<'a>(run: &Run, audit: &'a Audit) -> Vec<Conviction<'a>> {
    let mut all = Vec::new();
    for (subject, number) in audit.subjects.iter().zip(1..) {
        for scenario in subject.of(AuditOutcome::Broken) {
            let drawn = run.decisive(scenario).and_then(Sequence::of);
            let sequence =
                drawn.map(|data| named(&svg::sequence(&data), &format!("q{}", all.len())));
            all.push(Conviction {
                id: anchor(number, &scenario.name),
                subject: &subject.name,
                scenario,
                sequence,
            });
        }
    }
    all
}

fn cut(why: &str) -> String {
    match why.char_indices().nth(WHY_MAX) {
        Some((at, _)) => format!("{}…", &why[..at]),
        None => why.to_owned(),
    }
}
