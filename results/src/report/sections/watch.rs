//! What was seen of locks in traffic: patterns, findings with an example, what may be locks, who holds what.

use super::Block;
use crate::answer::Tone;
use crate::record::watch::{Certainty, WatchFinding, WatchReport, WatchedLock};
use crate::report::charts;
use crate::report::document::{Phrase, Row, Table};
use crate::svg;
use crate::wording::units::{self, enclosed};

pub(super) fn sections(watch: &WatchReport) -> Vec<Block> {
    let findings = watch.findings.iter().enumerate().map(|(number, finding)| of_finding(number, finding));
    let perhaps = watch.perhaps.iter().map(|one| {
        let cells = [
            one.pattern.clone(),
            one.names.to_string(),
            one.recipe.clone(),
            one.attempts.to_string(),
            one.why.clone(),
        ];
        cells.into_iter().collect::<Row>()
    });
    let perhaps =
        Table::new("", ["name", "names", "taken by", "attempts", "why not said to be a lock"], 9, perhaps);
    let over_time = charts::over_time(watch).map(|chart| Block::chart(chart, "over-time".to_owned()));
    let mut all = vec![
        Block::section("locks", "Locks", vec![Block::Table(locks(watch))]),
        Block::section("findings", "Findings", findings.flatten().collect()),
        Block::section("over-time", "Over time", over_time.into_iter().collect()),
        Block::section("held", "Held now", vec![Block::Table(holders(watch))]),
        Block::section("perhaps", "Perhaps locks", vec![Block::Table(perhaps)]),
    ];
    all.push(Block::section("how", "What was watched", vec![Block::list(watched(watch))]));
    all
}

/// Which servers, for how long, and what that cost them.
pub(in crate::report) fn watched(watch: &WatchReport) -> Vec<String> {
    let mut lines = vec![format!(
        "{} by {}: {} commands in {:.1} s",
        watch.servers.join(", "),
        watch.source,
        watch.commands,
        watch.seconds
    )];
    if let Some(cost) = &watch.cost {
        let us = |us: Option<f64>| us.map_or("?".to_owned(), |us| format!("{us:.1}"));
        lines.push(format!(
            "cost: {} µs of server CPU per command before, {} while it was watched; {:.2} of a core{}",
            us(cost.cpu_us_per_command_before),
            us(cost.cpu_us_per_command),
            cost.cores,
            enclosed("; ended early: ", &cost.ended_by, "")
        ));
    }
    lines
}

/// A length in milliseconds, to three digits.
pub(in crate::report) fn ms(ms: Option<f64>) -> String {
    ms.map_or("–".to_owned(), |ms| units::duration((ms * 1e6) as u64))
}

/// The locks; on a screen those columns that fit.
pub(in crate::report) fn row(lock: &WatchedLock) -> Vec<String> {
    let made = match lock.library.as_str() {
        "" => lock.recipe.clone(),
        library => library.to_owned(),
    };
    vec![
        lock.pattern.clone(),
        made,
        lock.grants.to_string(),
        lock.refusals.to_string(),
        ms(lock.hold_ms.p50),
        ms(lock.hold_ms.p99),
        ms(lock.lease_ms),
        lock.lease_used_p99.map_or("–".to_owned(), |used| format!("{:.0} %", used * 100.0)),
        lock.expired.to_string(),
        lock.commands_per_grant.map_or("–".to_owned(), |count| format!("{count:.1}")),
    ]
}

/// The headings of [`row`].
pub(in crate::report) const HEADS: [&str; 10] =
    ["name", "made by", "grants", "refused", "held p50", "p99", "lease", "used", "expired", "commands"];

fn locks(watch: &WatchReport) -> Table {
    let more = [
        "recipe",
        "names",
        "renewed",
        "released",
        "by another",
        "held still",
        "longest",
        "wait p50",
        "wait p99",
        "polls/s",
        "clients",
    ];
    let rows = watch.locks.iter().map(|lock| {
        let mut cells = row(lock);
        cells.extend([
            lock.recipe.clone(),
            lock.names.to_string(),
            lock.renewals.to_string(),
            lock.released.to_string(),
            lock.deleted_by_another.to_string(),
            lock.still_held.to_string(),
            ms(lock.hold_ms.max),
            ms(lock.wait_ms.p50),
            ms(lock.wait_ms.p99),
            format!("{:.1}", lock.polls_per_s),
            lock.clients.to_string(),
        ]);
        cells.into_iter().collect::<Row>()
    });
    Table::new("", HEADS.into_iter().chain(more), 2, rows)
}

fn holders(watch: &WatchReport) -> Table {
    let rows = watch.holders.iter().map(|one| {
        let left = one.left_ms.map_or("without an end".to_owned(), |left| ms(Some(left)));
        let cells = [one.place(), one.owner.clone(), left, one.recipe.clone(), one.library.clone()];
        cells.into_iter().collect::<Row>()
    });
    Table::new("", ["lock", "owner", "left", "recipe", "library"], 9, rows)
}

/// How a certainty is to be taken.
pub(in crate::report) fn tone(certainty: Certainty) -> Tone {
    match certainty {
        Certainty::Violated | Certainty::Sure => Tone::Lost,
        Certainty::Likely => Tone::Doubt,
    }
}

fn of_finding(number: usize, finding: &WatchFinding) -> Vec<Block> {
    let worst = finding.worst_ms.map_or(String::new(), |worst| format!(", at worst {}", ms(Some(worst))));
    let mut blocks = vec![
        Block::Heading(format!("{} of {}", finding.kind, finding.pattern)),
        Block::Paragraph(
            "",
            vec![
                Phrase::new(tone(finding.certainty), finding.certainty.word()),
                format!("{}{worst}. {}", units::times(finding.count), finding.why).into(),
            ],
        ),
        Block::Code("", finding.first.join("\n")),
        Block::note(format!("Remedy: {}", finding.remedy)),
    ];
    if !finding.scenario.is_empty() {
        blocks.push(Block::Code("sh", format!("locklab chaos {} --subject YOURS", finding.scenario)));
    }
    if let Some(picture) = &finding.picture {
        blocks.push(Block::chart(svg::timeline(picture), format!("finding-{number}")));
    }
    blocks
}
