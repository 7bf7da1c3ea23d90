//! One scenario: its conviction in a line and in steps, its time axis, its proofs, faults and settings.

use std::collections::BTreeSet;

use super::faults::{recovered, recovery_table};
use super::{ALL, Block, Fact, PAGE, PLAIN};
use crate::record::proof::Proof;
use crate::record::run::{Outcome, Run, ScenarioResult};
use crate::record::sequence::Sequence;
use crate::record::timeline::TimelineData;
use crate::record::verdict::{Anomaly, State, Verdict, meaning};
use crate::report::document::{Figure, Fold, Form, Group, Phrase, Row, Section, Table};
use crate::report::{cells, charts};
use crate::svg;
use crate::wording::units;

pub(super) fn sections(run: &Run) -> Vec<Block> {
    let sections = run.scenarios.iter().enumerate().flat_map(|(index, result)| {
        let part = format!("section {}", came_out(result));
        let section = Block::part(part, vec![section(&id(index), result)]);
        [Block::only(PAGE, vec![section]), Block::only(PLAIN, vec![reasons(result)])]
    });
    sections.collect()
}

/// The anchor of a scenario. Names may repeat (`--repeat`), so its place in the run makes it.
pub(super) fn id(index: usize) -> String {
    format!("s{}", index + 1)
}

pub(super) fn came_out(result: &ScenarioResult) -> &'static str {
    let mut states = result.verdicts.iter().map(|(_, verdict)| verdict.state);
    match result.outcome() {
        Outcome::Unknown | Outcome::NotAsExpected => "surprising",
        _ if states.any(|state| state == State::Violated) => "convicted",
        _ => "clean",
    }
}

fn section(id: &str, result: &ScenarioResult) -> Block {
    let part = |what: &str, body| Block::part(format!("{what} {}", came_out(result)), body);
    let line = result.timeline.as_ref().and_then(TimelineData::in_words);
    let axis = charts::time_axis(result).map(|chart| Block::chart(chart, format!("{id}axis")));
    let steps = steps(id, result).map(|fold| part("sequence", vec![fold]));
    let mut details = vec![
        Block::note(units::enclosed("Where the expectation comes from: ", &result.claim, "")),
        Block::Facts(facts(result)),
    ];
    details.extend(result.notes.iter().map(|note| Block::note(note.as_str())));
    let around = charts::around(result).map(|chart| Block::chart(chart, format!("{id}around")));
    details.push(part("charts", around.into_iter().collect()));
    details.push(Block::Heading("Proofs".to_owned()));
    let verdicts = result.verdicts.iter();
    details.extend(verdicts.map(|(class, verdict)| proofs(id, class, verdict, result)));
    details.push(Block::Table(faults(result)));
    let recovery = result.faults.iter().filter_map(|fault| recovered(result, fault, ""));
    details.push(Block::Table(recovery_table(recovery.collect())));
    details.push(Block::Table(operations(result)));
    let details = Block::fold("Proofs, faults and settings", details);
    let mut body = vec![
        Block::Paragraph("about", vec![result.about.as_str().into()]),
        Block::Paragraph("proof", vec![line.unwrap_or_default().into()]),
        Block::note(units::enclosed(
            "The grant that lost it was given at ",
            &result.granted_at().unwrap_or_default(),
            " of the driver.",
        )),
        part("charts", axis.into_iter().collect()),
    ];
    body.extend(steps);
    body.push(part("details", vec![details]));
    Block::Section(Section {
        id: id.to_owned(),
        title: result.name.clone(),
        aside: result.said(),
        class: "scenario",
        body,
    })
}

fn steps(id: &str, result: &ScenarioResult) -> Option<Block> {
    let sequence = sequence(&format!("{id}sequence"), result)?;
    let note = "The shortest part of the history that convicts, from top to bottom. Solid: a command; dashed: its answer. Which server answered is \
                not recorded.";
    let body = vec![sequence, Block::only(PAGE, vec![Block::note(note)])];
    Some(Block::fold("How it came about, step by step", body))
}

pub(super) fn sequence(id: &str, result: &ScenarioResult) -> Option<Block> {
    let data = Sequence::of(result)?;
    Some(Block::Chart(Figure { chart: svg::sequence(&data), id: id.to_owned(), mermaid: data.mermaid() }))
}

/// Why anything is violated or unknown; as text only what was not expected, with the gravest proof.
fn reasons(result: &ScenarioResult) -> Block {
    let outcome = result.outcome();
    let unexpected = outcome >= Outcome::Unknown;
    let summary = format!("{} {}", outcome.glyph(), result.name);
    let mut lines = result.reasons();
    lines.extend(result.without_effect());
    let proof = gravest(result).map_or(String::new(), Proof::text);
    let mut body = vec![Block::list(lines), Block::only(&[Form::Text], vec![Block::Code("", proof)])];
    body.extend(sequence("", result));
    Block::Fold(Fold {
        summary: vec![Phrase::new(super::outcomes::tone(outcome), summary)],
        open: if unexpected { ALL } else { &[] },
        body,
    })
}

/// The proof of the gravest verdict that was not to be violated.
fn gravest(scenario: &ScenarioResult) -> Option<&Proof> {
    ["contract", "confirmed", "effect", "belief", "liveness"].into_iter().find_map(|class| {
        let expected = scenario.expected.get(class)?;
        let verdict = scenario.verdicts.get(class)?;
        let missed = verdict.meets(expected, scenario.load_ns) == Some(false);
        verdict.proof.as_ref().filter(|_| missed)
    })
}

fn facts(result: &ScenarioResult) -> Vec<Fact> {
    let least = result.over_time.as_ref().and_then(|over| over.share_min);
    let known = |text: &str| text.to_owned();
    vec![
        ("Subject", known(&result.subject)),
        ("Topology", known(&result.topology)),
        ("Kind", known(&result.kind)),
        ("Durability", known(&result.durability)),
        ("Expected", cells::expected(result)),
        ("Load", units::known_duration(result.load_ns)),
        ("Grants per second", units::figure(result.grants_per_s)),
        ("Least client, of an even share", least.map_or(String::new(), units::figure)),
        ("First grant after the fault", cells::recovery(result)),
        ("Seed", result.seed.to_string()),
        ("Records", known(&result.dir)),
    ]
}

/// A verdict with its reasons, its anomalies and the lines that convict.
fn proofs(id: &str, class: &str, verdict: &Verdict, result: &ScenarioResult) -> Block {
    let expected = result.expected.get(class);
    let met = expected.map(|expected| verdict.meets(expected, result.load_ns));
    let mut words = Phrase::verdict(verdict);
    if let Some(rates) = cells::rates(verdict) {
        words.text = format!("{} {rates}", verdict.state.glyph());
    }
    let said = match (met, expected) {
        (Some(Some(true)), _) => format!("{class}, as expected"),
        (Some(_), Some(expected)) => format!("{class}, expected {expected}"),
        _ => class.to_owned(),
    };
    let said = Phrase { about: meaning(class).to_owned(), ..said.into() };
    let mut body = vec![Block::Paragraph("verdict", vec![words, said])];
    body.extend(verdict.why.iter().map(|why| Block::Paragraph("", vec![why.as_str().into()])));
    let anomalies = verdict.anomalies.iter().map(|one| {
        let grants = one.grants.join(" ");
        vec![one.what.as_str().into(), when(one).into(), one.proof.as_str().into(), grants.into()]
    });
    body.push(Block::List(anomalies.collect()));
    let shown = verdict.anomalies.len() as u64;
    let all = units::count(verdict.count);
    body.extend(
        (verdict.count > shown && shown > 0).then(|| Block::note(format!("{shown} of {all} are shown."))),
    );
    let lines = verdict.proof.as_ref().map(|proof| {
        let lines = vec![Block::Code("", proof.text())];
        let fold = Block::fold("Who held when, and the lines that convict", lines);
        Block::part(format!("lines {}", came_out(result)), vec![fold])
    });
    body.extend(lines);
    Block::Group(Group { id: format!("{id}-{class}"), forms: ALL, part: String::new(), body })
}

fn when(anomaly: &Anomaly) -> String {
    let length_ns = anomaly.to_ns.saturating_sub(anomaly.from_ns);
    let long = units::enclosed(", for ", &units::known_duration(length_ns), "");
    format!("{}, at {}{long}:", anomaly.lock, units::instant(anomaly.from_ns))
}

fn faults(result: &ScenarioResult) -> Table {
    // No line may end inside of the arrow of a link.
    let unbroken = |text: &str| text.replace("->", "-\u{2060}>");
    let rows = result.faults.iter().map(|fault| {
        let healed = fault.healed_ns.map_or("not in this run".to_owned(), units::instant);
        let effect = if fault.bit { "✓ yes" } else { "? no evidence" };
        [
            fault.fault.clone(),
            unbroken(&fault.targets.join(", ")),
            units::instant(fault.injected_ns),
            healed,
            effect.to_owned(),
            unbroken(&fault.proof),
        ]
        .into_iter()
        .collect()
    });
    Table::new("Faults", ["fault", "on", "injected", "healed", "took effect", "evidence"], usize::MAX, rows)
}

fn operations(result: &ScenarioResult) -> Table {
    let endings: BTreeSet<&String> = result.operations.values().flat_map(|counts| counts.keys()).collect();
    let rows = result.operations.iter().map(|(operation, counts)| {
        let counts = endings.iter().map(|ending| counts.get(*ending));
        let words = counts.map(|n| n.map_or("–".to_owned(), |n| units::count(*n)));
        std::iter::once(operation.clone()).chain(words).collect::<Row>()
    });
    let heads = std::iter::once("how operations ended").chain(endings.iter().map(|ending| ending.as_str()));
    Table::new("Operations", heads, 1, rows)
}
