//! The benchmark rows in the summary: the table, what more is known of each row, and the comparisons.

use itertools::Itertools;

use super::text_layout;
use crate::figure::BENCH;
use crate::measures::Sweep;
use crate::report::cells::{self, printable};
use crate::report::measures;
use crate::report::table::{self, COMPARISON, Cell, bench, comparisons};
use crate::run::Run;
use crate::units::enclosed;

pub(super) fn bench_table(run: &Run, width: u16) -> String {
    let figures = BENCH.iter().map(|figure| figure.head);
    let header = ["SUBJECT"].into_iter().chain(figures).chain(["safety"]);
    let rows = run.rows.iter().map(|row| {
        let place = unbroken(&printable(&row.place()), row.tasks);
        let mut words = vec![format!("{}\n{place}", printable(&row.lock()))];
        words.extend(bench(row).iter().map(figure));
        let invalid = if row.valid { "" } else { "\n✗ invalid" };
        words.push(cells::safety(row).replace(' ', "\u{a0}") + invalid);
        words
    });
    let table = text_layout::table(width, header, 1, rows);
    format!(
        "{table}\n\ncycles/s: median and range over rounds; commands: sent by clients per cycle; server µs: CPU of all servers per cycle"
    )
}

/// A sweep: its curve as a table by level, and what follows from it.
pub(super) fn sweep(sweep: &Sweep, width: u16) -> String {
    let (heads, rows) = table::sweep(sweep).plain();
    let rows = rows.iter();
    let rows = rows.map(|row| row.iter().map(|word| printable(word)));
    let table = text_layout::table(width, heads, 0, rows);
    let title = printable(&sweep.title());
    let said = measures::conclusions(sweep);
    let said = said.iter().map(|line| printable(line)).format("\n");
    format!("{title}\n\n{table}\n\n{said}")
}

/// A figure, and its interval below it.
fn figure(cell: &Cell) -> String {
    cell.words.replace(' ', "\u{a0}") + &enclosed("\n", &cell.small, "")
}

/// The number of tasks stays with its noun when a cell is broken.
fn unbroken(place: &str, tasks: u32) -> String {
    let words = format!("· {tasks} tasks");
    place.replace(&words, &words.replace(' ', "\u{a0}"))
}

/// What each row says beyond the table, in lines that fit.
pub(super) fn more(run: &Run, width: u16) -> String {
    let mut out = String::new();
    for row in &run.rows {
        let lines = measures::lines(row);
        let lines = lines.iter().map(|line| wrapped(line, width));
        let title = printable(&row.title());
        out += &enclosed(&format!("{title}\n"), &lines.collect::<String>(), "");
    }
    out
}

/// A line, indented and broken at spaces.
fn wrapped(line: &str, width: u16) -> String {
    text_layout::wrap(&format!("    {line}"), usize::from(width.max(60)), 6) + "\n"
}

pub(super) fn invalid(run: &Run) -> String {
    let rows = run.rows.iter().filter_map(|row| {
        let why = cells::why_invalid(row)?;
        Some(text_layout::warning(&format!("{}: {why}", row.title())))
    });
    rows.collect()
}

pub(super) fn comparison_table(run: &Run, width: u16) -> String {
    let rows = comparisons(run).into_iter();
    let rows = rows.map(|line| line.map(|word| printable(&word)));
    let table = text_layout::table(width, COMPARISON, usize::MAX, rows);
    format!(
        "{table}\n\nratio: B over A with its 95 % interval; A again: A over itself, measured beside it; shown from: the smallest ratio that four \
         of five such runs would show"
    )
}
