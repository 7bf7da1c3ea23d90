//! Turns what is wrong with a history file into one sentence: where, what was found, what is allowed.

use thiserror::Error;

/// A history that cannot be read, or a line of it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{}{found}; allowed: {allowed}", place(*line, *column))]
pub struct HistoryError {
    /// The line, counted from 1; 0 where the file as a whole is meant.
    pub line: usize,
    /// The column in bytes, counted from 1, where it is known.
    pub column: Option<usize>,
    /// What was found.
    pub found: String,
    /// What is allowed there.
    pub allowed: String,
}

fn place(line: usize, column: Option<usize>) -> String {
    match (line, column) {
        (0, _) => String::new(),
        (line, None) => format!("line {line}: "),
        (line, Some(column)) => format!("line {line}, column {column}: "),
    }
}

impl HistoryError {
    pub(crate) fn new(found: impl Into<String>, allowed: impl Into<String>) -> Self {
        Self {
            line: 1,
            column: None,
            found: found.into(),
            allowed: allowed.into(),
        }
    }

    pub(crate) fn at(mut self, line: usize) -> Self {
        self.line = line;
        self
    }
}
