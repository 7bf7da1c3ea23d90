//! Tables of figures as every format shows them: headings, and lines whose cells know what to sort by.

use super::cells;
use crate::figure::{BENCH, COSTS, Figure, GROUPS, Group, OF_SWEEPS, Unit};
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

    pub(super) fn title(&self) -> String {
        title(&self.name)
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
        let value = estimate.map(|estimate| estimate.median);
        Self {
            words: figure.words(of),
            small: shown.as_ref().map(cells::interval).unwrap_or_default(),
            key: value
                .filter(|value| value.is_finite())
                .map(|value| value.to_string())
                .unwrap_or_default(),
        }
    }

    fn void() -> Self {
        Self {
            words: "void".to_owned(),
            small: String::new(),
            key: String::new(),
        }
    }
}

/// The headings of [`bench()`].
pub(super) fn bench_heads() -> Vec<Head> {
    BENCH.iter().map(Head::of).collect()
}

/// The cells of a row in the table of all rows. Figures of a lock that was not safe are void, and not among them.
pub(super) fn bench(row: &BenchRow) -> Vec<Cell> {
    let void = cells::is_void(row);
    let cell = |figure| {
        if void {
            Cell::void()
        } else {
            Cell::of(figure, row)
        }
    };
    BENCH.iter().map(cell).collect()
}

/// What one core of a server carries: the tables that have a line.
pub(super) fn costs(run: &Run) -> Vec<Table> {
    let tables = COSTS.iter().filter_map(|figures| group(run, figures));
    tables.collect()
}

/// What rows say beyond that: the tables that have a line.
pub(super) fn groups(run: &Run) -> Vec<Table> {
    let tables = GROUPS.iter().filter_map(|figures| group(run, figures));
    tables.collect()
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
    let figures = group.figures.iter();
    let table = Table {
        id: group.id,
        title: group.title,
        note: group.note,
        heads: std::iter::once(subject)
            .chain(figures.clone().map(Head::of))
            .collect(),
        rows: rows
            .map(|row| Line {
                name: row.subject.clone(),
                small: row.place(),
                dim: !row.valid,
                cells: figures
                    .clone()
                    .map(|figure| Cell::of(figure, row))
                    .collect(),
            })
            .collect(),
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
    let rows = sweep.points.iter().map(|point| Line {
        name: units::figure(point.level),
        small: if point.valid {
            ""
        } else {
            "✗ not to be quoted"
        }
        .to_owned(),
        dim: !point.valid,
        cells: OF_SWEEPS
            .iter()
            .map(|figure| Cell::of(figure, point))
            .collect(),
    });
    Table {
        id: "",
        title: "",
        note: "",
        heads: std::iter::once(level)
            .chain(OF_SWEEPS.iter().map(Head::of))
            .collect(),
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
        for column in (1..self.heads.len()).rev() {
            if self
                .rows
                .iter()
                .all(|line| line.cells[column - 1].words == "–")
            {
                self.heads.remove(column);
                for line in &mut self.rows {
                    line.cells.remove(column - 1);
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
    use crate::run::{Estimate, Safety};
    use crate::verdict::State;

    #[test]
    fn a_fast_unsafe_lock_shows_no_figure() {
        let row = BenchRow {
            cycles_per_s: Estimate {
                median: 123_456.0,
                low: Some(120_000.0),
                high: Some(130_000.0),
            },
            commands_per_cycle: Some(2.0),
            safety: Safety {
                state: State::Violated,
            },
            ..BenchRow::default()
        };
        for cell in bench(&row) {
            assert_eq!((cell.words.as_str(), cell.small.as_str()), ("void", ""));
        }
        assert_eq!(cells::safety(&row), "✗ violated");
    }

    #[test]
    fn what_was_not_measured_is_a_dash_and_not_a_zero() {
        let row = BenchRow::default();
        let unknown = BENCH.iter().filter(|figure| (figure.of)(&row).is_none());
        assert_eq!(unknown.clone().count(), 5);
        assert!(unknown.into_iter().all(|figure| figure.words(&row) == "–"));
    }
}
