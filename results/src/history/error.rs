//! What is wrong with a history file, in one sentence: where, what was found, what is allowed.

use serde_json::Value;
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

    /// A line without a field that it must have.
    pub(super) fn missing(name: &str) -> Self {
        Self::new(format!("no `{name}`"), format!("a line with `{name}`"))
    }

    pub(crate) fn at(mut self, line: usize) -> Self {
        self.line = line;
        self
    }
}

/// A value for a message, cut short.
pub(super) fn shown(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() <= 60 {
        return text;
    }
    let mut short: String = text.chars().take(60).collect();
    short.push('…');
    short
}
