//! Runs side by side as text: what was configured otherwise comes first, since it may be the reason for all else.

use std::iter::once;

use itertools::Itertools;

use super::TextOptions;
use super::text_layout::{GREEN, PLAIN, RED, finish, paint, section, table, warning};
use crate::compare::pivot::{Pivot, PivotCell, PivotTable};
use crate::compare::{Difference, RunComparison};
use crate::report::cells::{self, printable};
use crate::run::with_origin;
use crate::units;

/// The comparison of runs, for a terminal.
pub fn comparison(result: &RunComparison, options: TextOptions) -> String {
    let mut out = String::new();
    let mut answers = result.answers.iter().map(|answer| printable(answer));
    section(&mut out, &answers.join("\n"));
    section(&mut out, &format!("base: {}", printable(&result.base)));
    section(&mut out, &differences(&result.differences));
    if result.scenarios_in_common > 0 {
        let changes = match result.scenarios.len() {
            0 => "no verdict changed".to_owned(),
            1 => "1 change of verdict".to_owned(),
            n => format!("{n} changes of verdict"),
        };
        let common = result.scenarios_in_common;
        let mut body = format!("{common} scenarios in common, {changes}\n");
        for change in &result.scenarios {
            let (scenario, topology) = (&change.scenario, &change.topology);
            let place = format!("{scenario} on {topology} with {}", change.subject);
            let (class, a, b, run) = (&change.class, &change.a, &change.b, &change.run);
            let line = format!("  {place}, {class}: {a} -> {b} ({run})");
            body += &(printable(&line) + "\n");
        }
        section(&mut out, &body);
    }
    if !result.comparisons.is_empty() {
        let rows = result.comparisons.iter().map(|against| {
            let comparison = &against.comparison;
            [
                printable(&comparison.b),
                printable(&comparison.r#where),
                printable(&comparison.metric),
                cells::ratio(&comparison.ratio),
                verdict(&comparison.verdict),
                printable(&against.run),
            ]
            .to_vec()
        });
        let header = ["SUBJECT", "where", "metric", "ratio", "verdict", "run"];
        let header = header.map(str::to_owned).to_vec();
        let table = table(options.width, header, usize::MAX, rows.collect());
        section(&mut out, &table);
    }
    section(&mut out, &left_out(&result.left_out));
    finish(&out, options.color)
}

/// Rows in tables of the reader's choice.
pub fn pivot(result: &Pivot, options: TextOptions) -> String {
    let mut out = String::new();
    section(&mut out, &differences(&result.differences));
    if !result.also_differs.is_empty() {
        let also = result.also_differs.join(", ");
        let why = "with lines and columns these differ too, and ratios show their effect";
        section(&mut out, &warning(&format!("{why}: {also}")));
    }
    for of_metric in &result.tables {
        section(&mut out, &pivot_table(of_metric, &result.columns, options));
    }
    section(&mut out, &left_out(&result.left_out));
    finish(&out, options.color)
}

fn pivot_table(data: &PivotTable, columns: &[&'static str], options: TextOptions) -> String {
    let title = with_origin(data.metric.to_owned(), &data.common);
    let heads = once(columns.join("/"));
    let heads = heads.chain(data.columns.iter().map(|column| printable(column)));
    let rows = data.lines.iter().map(|line| {
        let cells = line.cells.iter().map(|cell| match cell {
            Some(cell) => pivot_cell(cell, data.unit),
            None => "–".to_owned(),
        });
        once(printable(&line.name)).chain(cells).collect()
    });
    let mut rows: Vec<Vec<String>> = rows.collect();
    if rows.len() > 1 && data.geomean.iter().any(Option::is_some) {
        let words = |mean: f64| format!("×{}", units::figure(mean));
        let means = data.geomean.iter();
        let means = means.map(|mean| mean.map_or(String::new(), words));
        rows.push(once("geometric mean".to_owned()).chain(means).collect());
    }
    let table = table(options.width, heads.collect(), 1, rows);
    format!("{}\n{table}", printable(&title))
}

fn pivot_cell(cell: &PivotCell, unit: &str) -> String {
    let median = cell.figure.median;
    let figure = match unit {
        "ns" => units::duration(median.round() as u64).replace(' ', "\u{a0}"),
        _ => units::figure(median),
    };
    let Some(ratio) = &cell.ratio else {
        return figure;
    };
    let ratio = cells::ratio(ratio).replace(' ', "\u{a0}");
    format!("{figure}\n×{ratio} {}", verdict(cell.verdict))
}

fn verdict(word: &str) -> String {
    let color = match word {
        "better" => GREEN,
        "worse" => RED,
        _ => PLAIN,
    };
    paint(color, &printable(word))
}

fn differences(differences: &[Difference]) -> String {
    if differences.is_empty() {
        return String::new();
    }
    let lines = differences.iter().map(|Difference { run, field, a, b }| {
        let line = format!("  {field}: '{a}' -> '{b}' ({run})");
        printable(&line) + "\n"
    });
    format!("settings that differ\n{}", lines.format(""))
}

fn left_out(lines: &[String]) -> String {
    lines.iter().map(|line| warning(line)).collect()
}
