//! What was seen of locks in traffic: patterns, findings with an example, what may be locks, who holds what.

use super::Block;
use crate::answer::Tone;
use crate::record::watch::{Certainty, WatchFinding, WatchReport, WatchedHolder, WatchedLock};
use crate::report::charts;
use crate::report::document::{Phrase, Row, Table};
use crate::svg;
use crate::wording::units::{self, enclosed};

pub(super) fn sections(watch: &WatchReport) -> Vec<Block> {
    let findings = watch.findings.iter().enumerate().map(|(number, finding)| of_finding(number, finding));
    let perhaps = watch.perhaps.iter().map(|one| {
        let (names, attempts) = (one.names.to_string(), one.attempts.to_string());
        let cells = [one.pattern.clone(), names, one.recipe.clone(), attempts, one.why.clone()];
        cells.into_iter().collect::<Row>()
    });
    let perhaps =
        Table::new("", ["name", "names", "taken by", "attempts", "why not said to be a lock"], 9, perhaps);
    let over_time = charts::over_time(watch).map(|chart| Block::chart(chart, "over-time".to_owned()));
    vec![
        Block::section("locks", "Locks", vec![Block::Table(locks(watch))]),
        Block::section("findings", "Findings", findings.flatten().collect()),
        Block::section("over-time", "Over time", over_time.into_iter().collect()),
        Block::section("held", "Held now", vec![Block::Table(holders(watch))]),
        Block::section("perhaps", "Perhaps locks", vec![Block::Table(perhaps)]),
        Block::section("how", "What was watched", vec![Block::list(watched(watch))]),
    ]
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

/// How often, and at worst for how long.
pub(in crate::report) fn frequency(finding: &WatchFinding) -> String {
    let worst = finding.worst_ms.map_or(String::new(), |worst| format!(", at worst {}", ms(Some(worst))));
    units::times(finding.count) + &worst
}

/// What is left of a holder's lease.
pub(in crate::report) fn left(one: &WatchedHolder) -> String {
    one.left_ms.map_or("without an end".to_owned(), |left| ms(Some(left)))
}

/// By which library a lock is made, or how.
pub(in crate::report) fn maker<'a>(library: &'a str, recipe: &'a str) -> &'a str {
    if library.is_empty() { recipe } else { library }
}

/// A column of the locks: its heading, and what it says of one.
type Column = (&'static str, fn(&WatchedLock) -> String);

/// The columns of the locks, those of a screen first.
pub(in crate::report) const COLUMNS: [Column; 21] = [
    ("name", |lock| lock.pattern.clone()),
    ("made by", |lock| maker(&lock.library, &lock.recipe).to_owned()),
    ("grants", |lock| lock.grants.to_string()),
    ("refused", |lock| lock.refusals.to_string()),
    ("held p50", |lock| ms(lock.hold_ms.p50)),
    ("p99", |lock| ms(lock.hold_ms.p99)),
    ("lease", |lock| ms(lock.lease_ms)),
    ("used", |lock| lock.lease_used_p99.map_or("–".to_owned(), |used| format!("{:.0} %", used * 100.0))),
    ("expired", |lock| lock.expired.to_string()),
    ("commands", |lock| lock.commands_per_grant.map_or("–".to_owned(), |count| format!("{count:.1}"))),
    ("recipe", |lock| lock.recipe.clone()),
    ("names", |lock| lock.names.to_string()),
    ("renewed", |lock| lock.renewals.to_string()),
    ("released", |lock| lock.released.to_string()),
    ("by another", |lock| lock.deleted_by_another.to_string()),
    ("held still", |lock| lock.still_held.to_string()),
    ("longest", |lock| ms(lock.hold_ms.max)),
    ("wait p50", |lock| ms(lock.wait_ms.p50)),
    ("wait p99", |lock| ms(lock.wait_ms.p99)),
    ("polls/s", |lock| format!("{:.1}", lock.polls_per_s)),
    ("clients", |lock| lock.clients.to_string()),
];

fn locks(watch: &WatchReport) -> Table {
    let row = |lock| COLUMNS.iter().map(|(_, cell)| cell(lock)).collect::<Row>();
    Table::new("", COLUMNS.map(|column| column.0), 2, watch.locks.iter().map(row))
}

fn holders(watch: &WatchReport) -> Table {
    let rows = watch.holders.iter().map(|one| {
        let cells = [one.place(), one.owner.clone(), left(one), one.recipe.clone(), one.library.clone()];
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
    let mut blocks = vec![
        Block::Heading(format!("{} of {}", finding.kind, finding.pattern)),
        Block::Paragraph(
            "",
            vec![
                Phrase::new(tone(finding.certainty), finding.certainty.word()),
                format!("{}. {}", frequency(finding), finding.why).into(),
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
