//! The benchmark rows in the summary: the table, what more is known of each row, and the comparisons.

use super::paper;
use crate::figure::BENCH;
use crate::measures::Sweep;
use crate::report::cells::{self, printable};
use crate::report::measures;
use crate::report::table::{self, COMPARISON, Cell, Table, bench, comparisons};
use crate::run::Run;

pub(super) fn bench_table(run: &Run, width: u16) -> String {
    let figures = BENCH.iter().map(|figure| figure.head);
    let header = ["SUBJECT"].into_iter().chain(figures).chain(["safety"]);
    let rows = run.rows.iter().map(|row| {
        let place = unbroken(&printable(&row.place()), row.tasks);
        let mut words = vec![format!("{}\n{place}", printable(&row.subject))];
        words.extend(bench(row).iter().map(figure));
        let invalid = if row.valid { "" } else { "\n✗ invalid" };
        words.push(cells::safety(row).replace(' ', "\u{a0}") + invalid);
        words
    });
    let table = paper::table(width, header, 1, rows);
    format!(
        "{table}\n\ncycles/s: median and range over rounds; commands: sent by clients per cycle; server µs: CPU of all servers per cycle"
    )
}

/// What one core of a server carries.
pub(super) fn cost_table(cost: &Table, width: u16) -> String {
    let rows = cost.rows.iter().map(|line| {
        let invalid = if line.dim { "\n✗ invalid" } else { "" };
        let place = printable(&line.small);
        let mut words = vec![format!("{}\n{place}{invalid}", printable(&line.name))];
        words.extend(line.cells.iter().map(figure));
        words
    });
    let header = cost.heads.iter().map(|head| head.name.as_str());
    let table = paper::table(width, header, 1, rows);
    let note = wrapped(cost.note, usize::from(width.max(60)));
    format!("{}\n\n{table}\n\n{note}", cost.title)
}

/// A sweep: its curve as a table by level, and what follows from it.
pub(super) fn sweep(sweep: &Sweep, width: u16) -> String {
    let (heads, rows) = table::sweep(sweep).plain();
    let rows = rows
        .iter()
        .map(|row| row.iter().map(|word| printable(word)));
    let table = paper::table(width, heads, 0, rows);
    let said = measures::conclusions(sweep);
    let said: Vec<String> = said.iter().map(|line| printable(line)).collect();
    format!(
        "{}\n\n{table}\n\n{}",
        printable(&sweep.title()),
        said.join("\n")
    )
}

/// A figure, and its interval below it.
fn figure(cell: &Cell) -> String {
    let figure = cell.words.replace(' ', "\u{a0}");
    if cell.small.is_empty() {
        figure
    } else {
        format!("{figure}\n{}", cell.small)
    }
}

/// The number of tasks stays with its noun when a cell is broken.
fn unbroken(place: &str, tasks: u32) -> String {
    place.replace(
        &format!("· {tasks} tasks"),
        &format!("·\u{a0}{tasks}\u{a0}tasks"),
    )
}

/// What each row says beyond the table, in lines that fit.
pub(super) fn more(run: &Run, width: u16) -> String {
    let mut out = String::new();
    for row in &run.rows {
        let lines = measures::lines(row);
        if lines.is_empty() {
            continue;
        }
        out.push_str(&printable(&row.title()));
        out.push('\n');
        for line in lines {
            out.push_str(&wrapped(&line, usize::from(width.max(60))));
        }
    }
    out
}

/// A line, indented and broken at spaces.
fn wrapped(line: &str, width: usize) -> String {
    let mut out = String::new();
    let mut length = 0;
    for word in line.split(' ') {
        let letters = word.chars().count();
        if length == 0 {
            out.push_str("    ");
            length = 4 + letters;
        } else if length + 1 + letters > width {
            out.push_str("\n      ");
            length = 6 + letters;
        } else {
            out.push(' ');
            length += 1 + letters;
        }
        out.push_str(word);
    }
    out.push('\n');
    out
}

pub(super) fn invalid(run: &Run) -> String {
    let mut out = String::new();
    for row in &run.rows {
        if let Some(why) = cells::why_invalid(row) {
            out.push_str(&paper::warning(&format!("{}: {why}", row.title())));
        }
    }
    out
}

pub(super) fn comparison_table(run: &Run, width: u16) -> String {
    let rows = comparisons(run).into_iter();
    let rows = rows.map(|line| line.map(|word| printable(&word)));
    let table = paper::table(width, COMPARISON, usize::MAX, rows);
    format!(
        "{table}\n\nratio: B over A with its 95 % interval; A again: A over itself, measured beside it; shown from: the smallest ratio that four \
         of five such runs would show"
    )
}
