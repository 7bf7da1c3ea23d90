//! The page of an audit: one lock in a table with reasons, several in a matrix, and each conviction with its sequence of steps.

use askama::Template;

use super::bench::{self, NamedChart, named};
use super::{Fact, facts, machine, outcome_class};
use crate::answer::{answer, small_print};
use crate::audit::{Audit, AuditOutcome, AuditedScenario, AuditedSubject};
use crate::report::cells;
use crate::report::table;
use crate::run::Run;
use crate::sequence::Sequence;
use crate::svg;

/// Pictures take at most so many bytes of the page, which has to stay below 500 kB.
const PICTURES_MAX_BYTES: usize = 230_000;
/// And reasons of one kind and lock are cut at so many characters where there are several locks.
const WHY_MAX: usize = 420;

pub(super) fn render(run: &Run, audit: &Audit) -> Result<String, String> {
    let page = Page::new(run, audit).render();
    Ok(page.map_err(|error| error.to_string())? + "\n")
}

#[derive(Template)]
#[template(path = "audit.html")]
struct Page<'a> {
    run: &'a Run,
    css: &'static str,
    chart_css: &'static str,
    js: &'static str,
    title: String,
    version: &'a str,
    outcome: String,
    outcome_class: &'static str,
    answer: String,
    small_print: String,
    facts: Vec<Fact>,
    warnings: Vec<String>,
    audit: &'a Audit,
    outcomes: [AuditOutcome; 5],
    lines: Vec<Line<'a>>,
    convictions: Vec<Conviction<'a>>,
    details: Vec<Detail<'a>>,
    reproduce: String,
    machine: Vec<Fact>,
}

/// A scenario: what became of it lock by lock.
struct Line<'a> {
    name: &'a str,
    topology: &'a str,
    claim: &'a str,
    /// Of the only lock.
    why: &'a str,
    cells: Vec<Cell>,
}

struct Cell {
    class: &'static str,
    words: String,
    href: String,
    key: u8,
}

/// A scenario that a lock broke.
struct Conviction<'a> {
    id: String,
    subject: &'a str,
    scenario: &'a AuditedScenario,
    sequence: Option<NamedChart>,
    undrawn: String,
    commands: Vec<String>,
}

/// What is to be said of a lock among several.
struct Detail<'a> {
    id: String,
    name: &'a str,
    library: &'a str,
    score: String,
    groups: Vec<Group>,
}

struct Group {
    title: String,
    open: bool,
    /// Anchor, name and reason.
    scenarios: Vec<(String, String, String)>,
}

impl<'a> Page<'a> {
    fn new(run: &'a Run, audit: &'a Audit) -> Self {
        let outcome = run.outcome();
        let mut warnings = run.warnings.clone();
        if run.partial {
            warnings.insert(
                0,
                "The audit was cut short: what is here is what was tried until then.".to_owned(),
            );
        }
        Self {
            run,
            css: include_str!("../../../templates/report.css"),
            chart_css: svg::STYLE,
            js: include_str!("../../../templates/report.js"),
            title: run.name().to_owned(),
            version: &run.meta.version,
            outcome: match audit.score().worst() {
                Some(worst @ (AuditOutcome::Broken | AuditOutcome::Unknown)) => {
                    format!("{} {}", worst.glyph(), worst.word())
                }
                Some(_) => "✓ nothing broken or unknown".to_owned(),
                None => "? nothing tried".to_owned(),
            },
            outcome_class: outcome_class(outcome),
            answer: answer(run),
            small_print: small_print(run).join("; "),
            facts: facts(run),
            warnings,
            audit,
            outcomes: AuditOutcome::ALL,
            lines: audit
                .rows()
                .into_iter()
                .map(|row| line(audit, &row))
                .collect(),
            convictions: convictions(run, audit),
            details: (1..)
                .zip(&audit.subjects)
                .map(|(number, subject)| detail(number, subject))
                .collect(),
            reproduce: cells::again(run),
            machine: machine(run),
        }
    }
}

/// Where a scenario of a lock is on the page.
fn anchor(subject: usize, name: &str) -> String {
    format!("d{subject}-{name}")
}

fn line<'a>(audit: &Audit, row: &[Option<&'a AuditedScenario>]) -> Line<'a> {
    let first = row.iter().flatten().next();
    let several = audit.subjects.len() > 1;
    let cells = (1..).zip(row).map(|(subject, one)| {
        let Some(one) = one else {
            return Cell {
                class: "none",
                words: String::new(),
                href: String::new(),
                key: 0,
            };
        };
        let is_told = several && one.outcome != AuditOutcome::Kept;
        Cell {
            class: match one.outcome {
                AuditOutcome::Kept => "clean",
                AuditOutcome::Broken => "violated",
                AuditOutcome::Unknown => "unknown",
                AuditOutcome::Inherent | AuditOutcome::NotApplicable => "none",
            },
            words: format!("{} {}", one.outcome.glyph(), one.outcome.word()),
            href: match is_told || one.outcome == AuditOutcome::Broken {
                true => anchor(subject, &one.name),
                false => String::new(),
            },
            key: one.outcome as u8,
        }
    });
    let text = |of: fn(&AuditedScenario) -> &str| first.map_or("", |one| of(one));
    Line {
        name: text(|one| &one.name),
        topology: text(|one| &one.topology),
        claim: text(|one| &one.claim),
        why: text(|one| &one.why),
        cells: cells.collect(),
    }
}

fn convictions<'a>(run: &Run, audit: &'a Audit) -> Vec<Conviction<'a>> {
    let mut left = PICTURES_MAX_BYTES;
    let mut all = Vec::new();
    for (subject, number) in audit.subjects.iter().zip(1..) {
        for scenario in subject.of(AuditOutcome::Broken) {
            let id = anchor(number, &scenario.name);
            let result = run.decisive(scenario);
            let drawn = result.and_then(Sequence::of);
            let chart = drawn.map(|data| named(&svg::sequence(&data), &format!("q{}", all.len())));
            let undrawn = match chart {
                None => "No sequence of steps: the proof is none of holds, see the history.",
                Some(_) => {
                    "Not drawn here, since the page has many: `locklab show --proofs` of the run has it."
                }
            };
            let sequence = chart.filter(|chart| chart.svg.len() <= left);
            left -= sequence.as_ref().map_or(0, |chart| chart.svg.len());
            all.push(Conviction {
                id,
                subject: &subject.name,
                scenario,
                sequence,
                undrawn: undrawn.to_owned(),
                commands: scenario.commands(&run.run),
            });
        }
    }
    all
}

fn detail(number: usize, subject: &AuditedSubject) -> Detail<'_> {
    // What is broken has a section of its own.
    let told = [
        AuditOutcome::Unknown,
        AuditOutcome::Inherent,
        AuditOutcome::NotApplicable,
    ];
    let groups = told.into_iter().map(|outcome| Group {
        title: format!(
            "{} {}: {}",
            outcome.glyph(),
            outcome.word(),
            outcome.meaning()
        ),
        open: outcome == AuditOutcome::Unknown,
        scenarios: subject
            .of(outcome)
            .map(|one| (anchor(number, &one.name), one.name.clone(), cut(&one.why)))
            .collect(),
    });
    Detail {
        id: format!("l{number}"),
        name: &subject.name,
        library: &subject.library,
        score: subject.score.words(),
        groups: groups.filter(|group| !group.scenarios.is_empty()).collect(),
    }
}

fn cut(why: &str) -> String {
    match why.char_indices().nth(WHY_MAX) {
        Some((at, _)) => format!("{}…", &why[..at]),
        None => why.to_owned(),
    }
}
