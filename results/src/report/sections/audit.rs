//! An audit: one lock in a table with reasons, several in a matrix, and each conviction with its steps.

use std::fmt::Display;

use super::scenario::sequence;
use super::{Block, PAGE, not_applicable, warnings};
use crate::answer::Tone;
use crate::audit::{Audit, AuditOutcome, AuditedScenario, AuditedSubject};
use crate::record::run::Run;
use crate::report::document::{Cell, Form, Phrase, Row, Section, Table};
use crate::wording::units::enclosed;

/// Of several locks each reason is cut at so many characters.
const WHY_MAX: usize = 420;

pub(super) fn sections(run: &Run, audit: &Audit) -> Vec<Block> {
    let lost = audit.regressions.iter();
    let lost = lost
        .map(|one| format!("kept before and broken now: {} by {}: {}", one.scenario, one.subject, one.why));
    let mut blocks = vec![scorecard(audit)];
    blocks.push(Block::Warnings("Kept before and broken now", lost.collect()));
    blocks.push(Block::only(PAGE, vec![warnings(run)]));
    blocks.extend(audit.subjects.iter().map(conform));
    for (subject, number) in audit.subjects.iter().zip(1..) {
        let broken = subject.of(AuditOutcome::Broken);
        let unknown = subject.of(AuditOutcome::Unknown);
        blocks.extend(broken.map(|one| conviction(run, subject, number, one)));
        let unknown = unknown.map(|one| conviction(run, subject, number, one));
        blocks.push(Block::only(&[Form::Markdown], unknown.collect()));
    }
    blocks.push(not_applicable(run));
    blocks
}

/// Where a scenario of a lock, counted from 1, is on the page.
fn anchor(subject: impl Display, name: &str) -> String {
    format!("d{subject}-{name}")
}

fn mark(outcome: AuditOutcome) -> Phrase {
    let tone = match outcome {
        AuditOutcome::Kept => Tone::Kept,
        AuditOutcome::Broken => Tone::Lost,
        AuditOutcome::Unknown => Tone::Doubt,
        AuditOutcome::Inherent | AuditOutcome::NotApplicable => Tone::Detail,
    };
    Phrase { about: outcome.meaning().to_owned(), ..Phrase::new(tone, outcome.mark()) }
}

/// A column per lock; of a single one also why.
fn scorecard(audit: &Audit) -> Block {
    let alone = audit.subjects.len() == 1;
    let names = audit.subjects.iter().map(|subject| subject.name.as_str());
    let heads = std::iter::once("scenario").chain(names).chain(alone.then_some("why"));
    let rows = audit.rows().into_iter().map(|row| {
        let first = row.iter().flatten().next();
        let text = |of: fn(&AuditedScenario) -> &String| first.map_or(String::new(), |one| of(one).clone());
        let name = Cell::from(text(|one| &one.name)).with_small([text(|one| &one.topology)]);
        let marks = row.iter().zip(1..).map(|(one, number)| match one {
            None => Cell::from(""),
            Some(one) => {
                let is_linked = one.outcome == AuditOutcome::Broken;
                let link = is_linked.then(|| anchor(number, &one.name));
                Cell {
                    key: (one.outcome as u8).to_string(),
                    ..mark(one.outcome).to(link.unwrap_or_default()).into()
                }
            }
        });
        let why = alone.then(|| text(|one| &one.why).into());
        let reasons = row.iter().zip(&audit.subjects);
        let reasons = reasons.filter_map(|(one, subject)| reason(&subject.name, (*one)?));
        let reasons: Vec<_> = reasons.filter(|_| !alone).collect();
        let cells = std::iter::once(name).chain(marks).chain(why);
        Row { behind: (!reasons.is_empty()).then_some(("Why", reasons)), ..cells.collect() }
    });
    let mut table = Table::new("What became of each scenario", heads, usize::MAX, rows);
    table.class = match audit.subjects.len() {
        5.. => "card many",
        _ => "card",
    };
    let meanings = AuditOutcome::ALL.map(|outcome| format!("{}: {}", outcome.mark(), outcome.meaning()));
    let meanings = Block::fold("What the marks mean", vec![Block::list(meanings)]);
    let subjects = audit.subjects.iter().map(|subject| {
        let library = enclosed(" (", &subject.library, ")");
        format!("{}{library}: {}", subject.name, subject.score.words())
    });
    let drawn = audit.subjects.iter().filter_map(AuditedSubject::drawn_words);
    let body =
        vec![Block::list(subjects.chain(drawn)), Block::Table(table), Block::only(PAGE, vec![meanings])];
    Block::section("matrix-h", "Scenarios", body)
}

/// Why something is not known of a lock or does not apply to it; what is broken has a section of its own.
fn reason(subject: &str, one: &AuditedScenario) -> Option<Vec<Phrase>> {
    if matches!(one.outcome, AuditOutcome::Kept | AuditOutcome::Broken) {
        return None;
    }
    let why = one.why.char_indices().nth(WHY_MAX);
    let why = why.map_or(one.why.clone(), |(at, _)| format!("{}…", &one.why[..at]));
    Some(vec![subject.into(), mark(one.outcome), why.into()])
}

fn conform(subject: &AuditedSubject) -> Block {
    let lines = subject.findings().map(|one| {
        let (rule, found, remedy) = (&one.rule, &one.found, &one.remedy);
        let name = Phrase::new(Tone::Lost, format!("✗ {}", one.name));
        let remedy = remedy.trim_end_matches('.');
        vec![name, format!("({rule}): {found}. Remedy: {remedy}. See {}.", one.paragraph).into()]
    });
    let lines: Vec<Vec<Phrase>> = lines.collect();
    let (title, note) = match subject.broken_promises().next() {
        Some(_) => (
            format!("{} breaks promises in conform", subject.name),
            "A promise counts that was broken each of the two times that the steps were tried.",
        ),
        None => (
            format!("The driver of {} does not conform", subject.name),
            "Its scenarios were run all the same. What they show may be the driver's doing and not the lock's.",
        ),
    };
    let body = if lines.is_empty() { Vec::new() } else { vec![Block::note(note), Block::List(lines)] };
    Block::section(&format!("conform-{}", subject.name), &title, body)
}

/// What a lock broke, with its steps and the lines that show it again.
fn conviction(run: &Run, subject: &AuditedSubject, number: usize, one: &AuditedScenario) -> Block {
    let id = anchor(number, &one.name);
    let steps = run.decisive(one).and_then(|result| sequence(&format!("{id}-steps"), result));
    let steps = Block::part("sequence broken", steps.into_iter().collect());
    let smallest = one.smallest.as_ref().map(|small| {
        let text = vec![Block::Code("toml", small.text.clone())];
        Block::only(&[Form::Html, Form::Markdown], vec![Block::fold(small.title(), text)])
    });
    let mut body = vec![
        Block::only(PAGE, vec![Block::Paragraph("about", vec![one.about.as_str().into()])]),
        Block::Paragraph("", vec![one.why.as_str().into()]),
        Block::note(enclosed("Tries: ", &one.claim, "")),
        steps,
        Block::Code("sh", one.commands(&run.run).join("\n")),
    ];
    body.extend(smallest);
    let section = Section {
        id,
        title: one.name.clone(),
        aside: format!("by {}: {}", subject.name, one.outcome.mark()),
        class: "scenario",
        body,
    };
    Block::part("section broken", vec![Block::Section(section)])
}
