//! Tables of figures as every format shows them: headings, and lines whose cells know what to sort by.

use super::cells;
use super::csv::number;
use crate::figure::{BENCH, Figure, GROUPS, Group, OF_SWEEPS, Unit};
use crate::measures::Sweep;
use crate::run::{BenchRow, Comparison, Run};
use crate::units;

/// A table.
pub(super) struct Table {
    pub(super) id: &'static str,
    pub(super) title: &'static str,
    pub(super) note: &'static str,
    pub(super) heads: Vec<Head>,
    pub(super) rows: Vec<Line>,
}

/// The heading of a column.
pub(super) struct Head {
    pub(super) name: String,
    pub(super) about: &'static str,
    pub(super) figures: bool,
}

/// A line: what it is about, and its cells.
pub(super) struct Line {
    pub(super) name: String,
    pub(super) small: String,
    pub(super) dim: bool,
    pub(super) cells: Vec<Cell>,
}

/// A figure in its place.
pub(super) struct Cell {
    pub(super) words: String,
    /// Its interval, below it.
    pub(super) small: String,
    /// What to sort by; empty where there is no figure, which sorts last.
    pub(super) key: String,
}

impl Head {
    fn of<T>(figure: &Figure<T>) -> Self {
        Self {
            name: figure.head.to_owned(),
            about: figure.about,
            figures: true,
        }
    }

    fn all<T>(first: Self, figures: &[Figure<T>]) -> Vec<Self> {
        let figures = figures.iter().map(Head::of);
        std::iter::once(first).chain(figures).collect()
    }

    pub(super) fn title(&self) -> String {
        title(&self.name)
    }
}

impl Line {
    fn of<T>(name: String, small: String, valid: bool, figures: &[Figure<T>], of: &T) -> Self {
        Self {
            name,
            small,
            dim: !valid,
            cells: figures.iter().map(|figure| Cell::of(figure, of)).collect(),
        }
    }
}

/// A heading as the beginning of a line: in capitals but for `p99` and its sisters.
pub(super) fn title(name: &str) -> String {
    let mut letters = name.chars();
    match letters.next() {
        Some('p') if letters.as_str().starts_with(|c: char| c.is_ascii_digit()) => name.to_owned(),
        Some(first) => first.to_uppercase().chain(letters).collect(),
        None => String::new(),
    }
}

impl Cell {
    fn of<T>(figure: &Figure<T>, of: &T) -> Self {
        let estimate = (figure.of)(of);
        // How much is done is a row's headline and shows how sure it is; latencies have their intervals in the row's details.
        let shown = estimate.filter(|_| figure.unit != Unit::Time);
        Self {
            words: figure.words(of),
            small: shown.as_ref().map(cells::interval).unwrap_or_default(),
            key: number(estimate.map(|estimate| estimate.median)),
        }
    }
}

/// The headings of [`bench()`].
pub(super) fn bench_heads() -> Vec<Head> {
    BENCH.iter().map(Head::of).collect()
}

/// The cells of a row in the table of all rows. Figures of a lock that was not safe are void, and not among them.
pub(super) fn bench(row: &BenchRow) -> Vec<Cell> {
    let void = || Cell {
        words: "void".to_owned(),
        small: String::new(),
        key: String::new(),
    };
    let cell = |figure| match cells::is_void(row) {
        true => void(),
        false => Cell::of(figure, row),
    };
    BENCH.iter().map(cell).collect()
}

/// What rows say beyond that: the tables that have a line.
pub(super) fn groups(run: &Run) -> Vec<Table> {
    GROUPS.iter().filter_map(|one| group(run, one)).collect()
}

/// The rows that have what the table is about, without columns in which nothing stands; `None` without a line.
fn group(run: &Run, group: &Group) -> Option<Table> {
    let subject = Head {
        name: "Subject".to_owned(),
        about: "The lock under test, and where it was measured",
        figures: false,
    };
    let rows = run.rows.iter();
    let rows = rows.filter(|row| !cells::is_void(row) && (group.applies)(row));
    let line = |row: &BenchRow| {
        let (name, place) = (row.lock(), row.place());
        Line::of(name, place, row.valid, group.figures, row)
    };
    let table = Table {
        id: group.id,
        title: group.title,
        note: group.note,
        heads: Head::all(subject, group.figures),
        rows: rows.map(line).collect(),
    };
    table.trimmed()
}

/// The levels of a sweep.
pub(super) fn sweep(sweep: &Sweep) -> Table {
    let level = Head {
        name: sweep.over.clone(),
        about: "What was raised",
        figures: true,
    };
    let rows = sweep.points.iter().map(|point| {
        let small = if point.valid {
            ""
        } else {
            "✗ not to be quoted"
        };
        let name = units::figure(point.level);
        Line::of(name, small.to_owned(), point.valid, OF_SWEEPS, point)
    });
    Table {
        id: "",
        title: "",
        note: "",
        heads: Head::all(level, OF_SWEEPS),
        rows: rows.collect(),
    }
}

/// The headings of [`comparisons`].
pub(super) const COMPARISON: [&str; 7] = [
    "B AGAINST A",
    "where",
    "metric",
    "ratio",
    "A again",
    "shown from",
    "verdict",
];

/// A line per comparison.
pub(super) fn comparisons(run: &Run) -> Vec<[String; 7]> {
    let line = |one: &Comparison| {
        let again = one.same_again.as_ref();
        let least = one
            .detectable
            .map(|ratio| format!("×{}", units::figure(ratio)));
        [
            format!("{} against {}", one.b, one.a),
            one.r#where.clone(),
            one.metric.clone(),
            cells::ratio(&one.ratio),
            again.map_or("–".to_owned(), cells::ratio),
            least.unwrap_or("–".to_owned()),
            one.verdict.clone(),
        ]
    };
    run.comparisons.iter().map(line).collect()
}

impl Table {
    /// Leaves out columns in which nothing stands; `None` without a row.
    pub(super) fn trimmed(mut self) -> Option<Self> {
        if self.rows.is_empty() {
            return None;
        }
        for column in (0..self.heads.len() - 1).rev() {
            let mut rows = self.rows.iter();
            if rows.all(|line| line.cells[column].words == "–") {
                self.heads.remove(column + 1);
                for line in &mut self.rows {
                    line.cells.remove(column);
                }
            }
        }
        Some(self)
    }

    /// The words of headings and lines, with a mark behind lines that may not be quoted.
    pub(super) fn plain(&self) -> (Vec<String>, Vec<Vec<String>>) {
        let mut heads: Vec<String> = self.heads.iter().map(|head| head.name.clone()).collect();
        heads.push(String::new());
        let rows = self.rows.iter().map(|line| {
            let mut row = vec![line.name.clone()];
            row.extend(line.cells.iter().map(|cell| cell.words.clone()));
            row.push(if line.dim { "✗" } else { "" }.to_owned());
            row
        });
        (heads, rows.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_measured_is_a_dash_and_not_a_zero() {
        let row = BenchRow::default();
        let unknown = BENCH.iter().filter(|figure| (figure.of)(&row).is_none());
        assert_eq!(unknown.clone().count(), 5);
        assert!(unknown.into_iter().all(|figure| figure.words(&row) == "–"));
    }
}
