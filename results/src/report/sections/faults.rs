//! What happened around faults: recovery, the waits of open loops, and how repeats came out.

use std::collections::BTreeMap;

use super::{Block, PLAIN};
use crate::compare::scenario_key;
use crate::record::figure::{GRANT_AFTER, OF_FAULTS};
use crate::record::open_loop::{Length, OpenLoop, OpenLoopWaits};
use crate::record::run::{FaultSpan, Run, ScenarioResult};
use crate::record::verdict::{CLASSES, State};
use crate::report::document::{Cell, Phrase, Row, Table};
use crate::wording::units::{self, enclosed};

/// A longer suite shows recovery from each fault with each scenario alone.
const SCENARIOS_MAX: usize = 8;

pub(super) fn sections(run: &Run) -> Vec<Block> {
    let mut blocks = Vec::new();
    blocks.extend((run.scenarios.len() <= SCENARIOS_MAX).then(|| Block::only(PLAIN, vec![recovery(run)])));
    blocks.push(open_loops(run));
    blocks.push(Block::section("repeats", "Repeats", vec![Block::list(repeats(run))]));
    blocks
}

fn recovery(run: &Run) -> Block {
    let rows = run.scenarios.iter().flat_map(|scenario| {
        scenario.faults.iter().filter_map(|fault| recovered(scenario, fault, &scenario.name))
    });
    let table = recovery_table(rows.collect());
    let note = "before, after: from the fault; errors, hangs: share of the operations between the fault and its heal or the next grant; herd: \
                acquires in the second after the heal";
    let body = if table.rows.is_empty() { Vec::new() } else { vec![Block::Table(table), Block::note(note)] };
    Block::section("recovery", "Recovery from each fault", body)
}

pub(super) fn recovery_table(rows: Vec<Row>) -> Table {
    let figures = OF_FAULTS.iter().map(|figure| figure.head);
    Table::new("Recovery", std::iter::once("fault").chain(figures), 1, rows)
}

/// The figures of one fault; `None` where no history was judged.
pub(super) fn recovered(scenario: &ScenarioResult, fault: &FaultSpan, of: &str) -> Option<Row> {
    fault.recovery?;
    let figures = OF_FAULTS.iter().map(|figure| match figure.words(fault) {
        // Not a dash: that there was no grant is known.
        words if words == "–" && figure.name == GRANT_AFTER.name => scenario.unrecovered().into(),
        words => Cell::from(words),
    });
    Some(std::iter::once(Cell::from(fault.label()).with_small([of.to_owned()])).chain(figures).collect())
}

fn open_loops(run: &Run) -> Block {
    let rows = run.scenarios.iter().filter_map(|result| Some(waits(result, result.open_loop.as_ref()?)));
    let heads =
        ["scenario", "rate", "p99 before", "p99 fault to recovery", "p99 after", "longest wait", "no grant"];
    let table = Table::new("Waits of open loops", heads, 1, rows);
    let note = "Waits count from when each caller was due, and are sorted by that moment: before the first fault, from it until recovery, after \
                recovery. A caller without a grant counts as longer than every grant.";
    let body = if table.rows.is_empty() { Vec::new() } else { vec![Block::note(note), Block::Table(table)] };
    Block::section("open-h", "How long callers waited", body)
}

fn waits(result: &ScenarioResult, open: &OpenLoop) -> Row {
    let durability = enclosed("durability ", &result.durability, "");
    let after = match (open.fault_ns, open.recovered_ns) {
        (Some(_), None) => "no recovery".to_owned(),
        _ => p99(open.after.as_ref()),
    };
    let total =
        |of: fn(&OpenLoopWaits) -> u64| units::count(open.parts().map(of).fold(0, u64::saturating_add));
    let longest = open.parts().map(|waits| waits.longest).max_by_key(|length| (length.ns, length.more));
    let [asked, granted] = [open.asked_per_s, open.granted_per_s].map(units::figure);
    let without = total(|waits| waits.without_grant);
    [
        Cell::from(result.name.clone()).with_small([result.place(), durability]),
        Cell::from(format!("{asked}/s asked")).with_small([format!("{granted}/s granted")]),
        p99(open.before.as_ref()).into(),
        p99(open.during.as_ref()).into(),
        after.into(),
        longest.map_or("–".to_owned(), words).into(),
        format!("{without} of {}", total(|waits| waits.calls)).into(),
    ]
    .into_iter()
    .collect()
}

fn p99(waits: Option<&OpenLoopWaits>) -> String {
    match waits.map(|waits| (waits.p99, waits.calls)) {
        None => "–".to_owned(),
        Some((Some(length), _)) => words(length),
        Some((None, calls)) => format!("– ({} calls)", units::count(calls)),
    }
}

fn words(length: Length) -> String {
    let more = if length.more { "more than " } else { "" };
    format!("{more}{}", units::duration(length.ns))
}

/// Of scenarios that ran several times: how many of the repeats convict, and by which verdicts.
fn repeats(run: &Run) -> Vec<Phrase> {
    let mut groups: BTreeMap<_, Vec<&ScenarioResult>> = BTreeMap::new();
    for result in &run.scenarios {
        groups.entry((&result.name, &result.topology, &result.subject)).or_default().push(result);
    }
    let lines = groups.into_values().filter(|repeats| repeats.len() > 1).map(|repeats| {
        let violated = |result: &ScenarioResult, class: &str| {
            let verdict = result.verdicts.get(class);
            verdict.is_some_and(|verdict| verdict.state == State::Violated)
        };
        let by = CLASSES.into_iter().filter_map(|class| {
            let convict = repeats.iter().filter(|result| violated(result, class)).count();
            (convict > 0).then(|| format!("{class} {convict}"))
        });
        let by = enclosed(" (", &by.collect::<Vec<_>>().join(", "), ")");
        let convict = repeats.iter().filter(|one| CLASSES.iter().any(|class| violated(one, class)));
        let good = repeats.iter().filter(|one| one.as_expected).count();
        let (name, convict, all) = (scenario_key(repeats[0]), convict.count(), repeats.len());
        format!("{name}: {convict} of {all} repeats convict{by}; {good} as expected").into()
    });
    lines.collect()
}
