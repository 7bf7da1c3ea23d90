//! The benchmark rows in the summary: the table, what more is known of each row, and the comparisons.

use super::paper;
use crate::figure::BENCH;
use crate::report::cells::{self, printable};
use crate::report::measures;
use crate::report::table::{Cell, Table, bench};
use crate::run::Run;
use crate::units;

pub(super) fn bench_table(run: &Run, width: u16) -> String {
    let mut header = vec!["SUBJECT"];
    header.extend(BENCH.iter().map(|figure| figure.head));
    header.push("safety");
    let mut table = paper::table(width, &header, 1);
    for row in &run.rows {
        let place = unbroken(&printable(&row.place()), row.tasks);
        let mut words = vec![format!("{}\n{place}", printable(&row.subject))];
        words.extend(bench(row).iter().map(figure));
        let invalid = if row.valid { "" } else { "\n✗ invalid" };
        words.push(cells::safety(row).replace(' ', "\u{a0}") + invalid);
        table.add_row(words);
    }
    format!(
        "{table}\n\ncycles/s: median and range over rounds; commands: sent by clients per cycle; server µs: CPU of all servers per cycle"
    )
}

/// What one core of a server carries.
pub(super) fn cost_table(cost: &Table, width: u16) -> String {
    let header: Vec<&str> = cost.heads.iter().map(|head| head.name.as_str()).collect();
    let mut table = paper::table(width, &header, 1);
    for line in &cost.rows {
        let invalid = if line.dim { "\n✗ invalid" } else { "" };
        let place = printable(&line.small);
        let mut words = vec![format!("{}\n{place}{invalid}", printable(&line.name))];
        words.extend(line.cells.iter().map(figure));
        table.add_row(words);
    }
    let note = wrapped(cost.note, usize::from(width.max(60)));
    format!("{}\n\n{table}\n\n{note}", cost.title)
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
    let mut table = paper::table(
        width,
        &[
            "B AGAINST A",
            "where",
            "metric",
            "ratio",
            "A again",
            "shown from",
            "verdict",
        ],
        usize::MAX,
    );
    for comparison in &run.comparisons {
        table.add_row([
            printable(&format!("{} against {}", comparison.b, comparison.a)),
            printable(&comparison.r#where),
            printable(&comparison.metric),
            cells::ratio(&comparison.ratio),
            comparison
                .same_again
                .as_ref()
                .map_or("–".to_owned(), cells::ratio),
            comparison.detectable.map_or("–".to_owned(), |ratio| {
                format!("×{}", units::figure(ratio))
            }),
            printable(&comparison.verdict),
        ]);
    }
    format!(
        "{table}\n\nratio: B over A with its 95 % interval; A again: A over itself, measured beside it; shown from: the smallest ratio that four \
         of five such runs would show"
    )
}
