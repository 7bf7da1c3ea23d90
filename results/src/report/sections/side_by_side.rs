//! Configurations side by side: what became of the lock, speed, time without a grant, and cost.

use itertools::Itertools;

use super::Block;
use super::outcomes;
use crate::answer::{ExclusionOutcome, Tone, may_be_quoted};
use crate::compare::against;
use crate::record::figure::{ACQUIRE_P50, ACQUIRE_P99, COMMANDS, CYCLES, Figure, SERVER_CPU};
use crate::record::run::{BenchRow, Run, ScenarioResult};
use crate::report::cells;
use crate::report::document::{Cell, Form, Head, Phrase, Row, Table};
use crate::wording::units;

/// A configuration as it was measured, or as its scenarios found it, or both.
struct Configuration<'a> {
    measured: Option<&'a BenchRow>,
    scenarios: Vec<&'a ScenarioResult>,
}

const FIGURES: [Figure<BenchRow>; 5] = [CYCLES, ACQUIRE_P50, ACQUIRE_P99, COMMANDS, SERVER_CPU];

/// The table; nothing of fewer than two configurations, or where no speed stands beside an outcome.
pub(super) fn table(run: &Run) -> Block {
    let all = configurations(run);
    let is_measured = all.iter().any(|one| one.measured.is_some());
    let is_judged = all.iter().any(|one| !one.scenarios.is_empty());
    if all.len() < 2 || !(is_measured && is_judged) {
        return Block::only(&[], Vec::new());
    }
    let base = all.iter().find_map(|one| one.measured);
    let rows = all.iter().map(|one| one.row(base));
    let silence = "The longest time for which a free lock was asked for and not granted";
    let heads = [
        Head::new("configuration", "The lock, its servers, and what a grant waits for", false),
        Head::new("the lock", "What became of it in all scenarios of this configuration", false),
        Head::new("without a grant", silence, true),
        Head::new("recovery", "From a fault to the first grant after it, the longest", true),
    ];
    let table = Table {
        title: "Configurations side by side".to_owned(),
        class: "",
        heads: heads.into_iter().chain(FIGURES.iter().map(Head::from)).collect(),
        rows: rows.collect(),
    };
    let load = base.map_or(String::new(), |row| {
        format!(
            " Speed and cost are of {}, {} tasks, without faults; below cycles/s stands the ratio to the first that has one.",
            row.workload, row.tasks
        )
    });
    let note = format!(
        "Safety and recovery are of the scenarios, which say nothing of what they did not try.{load}"
    );
    let body = vec![Block::note(note), Block::Table(table.trimmed())];
    let section = Block::section("side-h", "Configurations side by side", body);
    Block::only(&[Form::Html, Form::Markdown], vec![section])
}

/// Those with scenarios in their order, then those only measured; what was measured twice has two rows.
fn configurations(run: &Run) -> Vec<Configuration<'_>> {
    let quotable = || run.rows.iter().filter(|row| may_be_quoted(row));
    let load = |row: &BenchRow| (row.workload.clone(), row.tasks, row.added_rtt_ns());
    let first = quotable().next().map(load);
    let mut rows = quotable().filter(|row| Some(load(row)) == first).collect_vec();
    let tried = run.scenarios.iter().filter(|result| !result.is_control());
    let mut groups: Vec<Vec<&ScenarioResult>> = Vec::new();
    for result in tried {
        let own = |group: &&mut Vec<&ScenarioResult>| group[0].configuration() == result.configuration();
        match groups.iter_mut().find(own) {
            Some(group) => group.push(result),
            None => groups.push(vec![result]),
        }
    }
    let mut all = Vec::new();
    for scenarios in groups {
        let (of_group, others): (Vec<_>, Vec<_>) =
            rows.into_iter().partition(|row| row.measures_configuration_of(scenarios[0]));
        rows = others;
        let measured = of_group.into_iter().map(Some).collect_vec();
        let measured = if measured.is_empty() { vec![None] } else { measured };
        all.extend(
            measured.into_iter().map(|measured| Configuration { measured, scenarios: scenarios.clone() }),
        );
    }
    all.extend(rows.into_iter().map(|row| Configuration { measured: Some(row), scenarios: Vec::new() }));
    all
}

impl Configuration<'_> {
    fn row(&self, base: Option<&BenchRow>) -> Row {
        let scenarios = self.scenarios.iter();
        let without_ns = scenarios.clone().filter_map(|one| one.without_grant_ns).max();
        let recovery_ns = scenarios.filter_map(|one| one.recovery.first_grant_after_fault_ns);
        let time = |ns: Option<u64>| Cell {
            key: ns.map_or(String::new(), |ns| ns.to_string()),
            ..Cell::from(ns.map_or("–".to_owned(), units::duration))
        };
        let figures = FIGURES.iter().map(|figure| self.figure(figure, base));
        let cells = [self.name(), self.outcome(), time(without_ns), time(recovery_ns.max())];
        cells.into_iter().chain(figures).collect()
    }

    fn name(&self) -> Cell {
        let (lock, place) = match (self.scenarios.first(), self.measured) {
            (Some(result), _) => {
                let waits = outcomes::label(result, false);
                (result.subject.clone(), format!("{} · {waits}", result.topology))
            }
            (None, Some(row)) => (row.lock(), row.site()),
            (None, None) => Default::default(),
        };
        let origin = self.measured.map_or("", |row| row.origin.as_str());
        Cell::from(lock).with_small([place, units::enclosed("measured in ", origin, "")])
    }

    fn outcome(&self) -> Cell {
        let (all, of) = (self.scenarios.len(), |wanted| {
            let standing = self.scenarios.iter().map(|one| one.standing());
            standing.filter(|standing| *standing == wanted).count()
        });
        let worst = self.scenarios.iter().filter_map(|one| one.losing());
        let worst_ns = worst.map(|verdict| verdict.worst_ns).max().unwrap_or_default();
        let scenarios = units::several(all, "scenario");
        let (tone, words) = match (of(ExclusionOutcome::Lost), of(ExclusionOutcome::Unknown)) {
            _ if all == 0 => (Tone::Plain, "not tried".to_owned()),
            (0, 0) => (Tone::Kept, format!("kept in {scenarios}")),
            (0, unknown) => (Tone::Doubt, format!("unknown in {unknown} of {scenarios}")),
            (lost, _) => (Tone::Lost, format!("lost in {lost} of {scenarios}")),
        };
        let outlived = match of(ExclusionOutcome::Outlived) {
            0 => String::new(),
            some => format!("callers outlived it in {some}"),
        };
        let worst = units::enclosed("for ", &units::known_duration(worst_ns), " at worst");
        Cell::from(Phrase::new(tone, words)).with_small([worst, outlived])
    }

    fn figure(&self, figure: &Figure<BenchRow>, base: Option<&BenchRow>) -> Cell {
        let Some(row) = self.measured else {
            return "–".into();
        };
        let is_other = base.is_some_and(|base| !std::ptr::eq(base, row));
        let ratio = base.filter(|_| is_other && figure.name == CYCLES.name);
        let ratio = ratio.and_then(|base| against(figure, base, row));
        let ratio = ratio.map(|(ratio, shown)| {
            let shown = match (shown, ratio.low) {
                ("not-shown", None) => "of too few rounds to be shown",
                ("not-shown", Some(_)) => "not shown to differ",
                (shown, _) => shown,
            };
            format!("×{}, {shown}", cells::ratio(&ratio))
        });
        super::bench::figure(figure, row).with_small(ratio)
    }
}
