//! Turns rows of words into tables that a reader can sort and filter.

use super::bench::Cell;

/// A table of the page.
pub(super) struct TableView {
    pub(super) id: &'static str,
    pub(super) title: &'static str,
    pub(super) note: &'static str,
    pub(super) heads: Vec<Head>,
    pub(super) rows: Vec<Line>,
}

/// The head of a column.
pub(super) struct Head {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) figures: bool,
}

/// A row.
pub(super) struct Line {
    pub(super) name: String,
    pub(super) small: String,
    pub(super) dim: bool,
    pub(super) cells: Vec<Cell>,
}

/// A column of words.
pub(super) const fn words(name: &'static str, about: &'static str) -> Head {
    Head {
        name,
        about,
        figures: false,
    }
}

/// A column of figures.
pub(super) const fn figures(name: &'static str, about: &'static str) -> Head {
    Head {
        name,
        about,
        figures: true,
    }
}

impl TableView {
    /// Leaves out columns in which nothing stands; `None` without a row.
    pub(super) fn trimmed(mut self) -> Option<Self> {
        if self.rows.is_empty() {
            return None;
        }
        let width = self.heads.len().saturating_sub(1);
        for column in (0..width).rev() {
            let filled = |line: &Line| {
                line.cells
                    .get(column)
                    .is_some_and(|cell| cell.words != "–" && !cell.words.is_empty())
            };
            if !self.rows.iter().any(filled) {
                self.heads.remove(column + 1);
                for line in &mut self.rows {
                    if column < line.cells.len() {
                        line.cells.remove(column);
                    }
                }
            }
        }
        Some(self)
    }
}
