//! Runs side by side as text: what was configured otherwise comes first: it may be the reason.

use super::TextOptions;
use super::summary::blocks;
use super::text_layout::finish;
use crate::compare::RunComparison;
use crate::compare::pivot::{Pivot, PivotCell, PivotTable};
use crate::record::run::Difference;
use crate::record::run::with_origin;
use crate::report::cells;
use crate::report::document::{Block, Cell, Phrase, Row, Table};
use crate::wording::units;

/// The comparison of runs, for a terminal.
pub fn comparison(result: &RunComparison, options: TextOptions) -> String {
    let mut all: Vec<Block> = result.answers.iter().map(|answer| line(answer)).collect();
    all.push(line(&format!("base: {}", result.base)));
    all.push(differences(&result.differences));
    if result.scenarios_in_common > 0 {
        let changes = match result.scenarios.len() {
            0 => "no verdict changed".to_owned(),
            1 => "1 change of verdict".to_owned(),
            n => format!("{n} changes of verdict"),
        };
        all.push(line(&format!("{} scenarios in common, {changes}", result.scenarios_in_common)));
    }
    all.push(Block::list(result.scenarios.iter().map(|change| {
        let (scenario, topology, subject) = (&change.scenario, &change.topology, &change.subject);
        let (class, a, b, run) = (&change.class, &change.a, &change.b, &change.run);
        format!("{scenario} on {topology} with {subject}, {class}: {a} -> {b} ({run})")
    })));
    let rows = result.comparisons.iter().map(|against| {
        let one = &against.comparison;
        let place = [&one.b, &one.r#where, &one.metric].map(|text| Cell::from(text.as_str()));
        let found = [cells::ratio(&one.ratio).into(), Phrase::comparison(&one.verdict).into()];
        place.into_iter().chain(found).chain([against.run.as_str().into()]).collect()
    });
    let heads = ["subject", "where", "metric", "ratio", "verdict", "run"];
    all.push(Block::Table(Table::new("", heads, usize::MAX, rows)));
    all.push(Block::Warnings("", result.left_out.clone()));
    finish(&blocks(all, options.width), options.color)
}

/// Rows in tables of the reader's choice.
pub fn pivot(result: &Pivot, options: TextOptions) -> String {
    let mut all = vec![differences(&result.differences)];
    let also = result.also_differs.join(", ");
    let why = "with lines and columns these differ too, and ratios show their effect: ";
    let also = units::enclosed(why, &also, "");
    all.extend((!also.is_empty()).then(|| Block::Warnings("", vec![also])));
    for of_metric in &result.tables {
        all.push(Block::Heading(with_origin(of_metric.metric.to_owned(), &of_metric.common)));
        all.push(Block::Table(pivot_table(of_metric, &result.columns)));
    }
    all.push(Block::Warnings("", result.left_out.clone()));
    finish(&blocks(all, options.width), options.color)
}

fn line(text: &str) -> Block {
    Block::Paragraph("", vec![text.into()])
}

fn pivot_table(data: &PivotTable, columns: &[&'static str]) -> Table {
    let rows = data.lines.iter().map(|line| {
        let cells = line.cells.iter().map(|cell| match cell {
            Some(cell) => pivot_cell(cell, data.unit),
            None => "–".into(),
        });
        std::iter::once(line.name.as_str().into()).chain(cells).collect()
    });
    let mut rows: Vec<Row> = rows.collect();
    if rows.len() > 1 && data.geomean.iter().any(Option::is_some) {
        let means = data.geomean.iter();
        let means = means.map(|mean| mean.map_or(String::new(), |mean| format!("×{}", units::figure(mean))));
        rows.push(std::iter::once("geometric mean".to_owned()).chain(means).collect());
    }
    let first = columns.join("/");
    Table::new("", std::iter::once(first.as_str()).chain(data.columns.iter().map(String::as_str)), 1, rows)
}

fn pivot_cell(cell: &PivotCell, unit: &str) -> Cell {
    let median = cell.figure.median;
    let figure = match unit {
        "ns" => units::duration(median.round() as u64),
        _ => units::figure(median),
    };
    let Some(ratio) = &cell.ratio else {
        return figure.into();
    };
    let ratio = format!("×{} {}", cells::ratio(ratio), cell.verdict);
    Cell::from(Phrase::new(Phrase::comparison(cell.verdict).tone, figure)).with_small([ratio])
}

fn differences(differences: &[Difference]) -> Block {
    let lines =
        differences.iter().map(|Difference { run, field, a, b }| format!("{field}: '{a}' -> '{b}' ({run})"));
    Block::section("", "settings that differ", vec![Block::list(lines)])
}
