//! What is wrong with a file, by line and column, all of it reported together.

use std::cell::RefCell;
use std::fmt;
use std::ops::Range;

/// So many problems of a file are shown, and so many refused values are looked for.
pub(super) const PROBLEMS_SHOWN: usize = 50;

/// One thing wrong in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// What was found, what is allowed, and the nearest known word.
    pub message: String,
}

/// Everything wrong in a file, in its order.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct FileErrors {
    /// The file's name as given by the user.
    pub file: String,
    /// The problems; never empty.
    pub problems: Vec<Problem>,
}

impl fmt::Display for FileErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = self.problems.iter().take(PROBLEMS_SHOWN).map(|problem| {
            let (line, column) = (problem.line, problem.column);
            format!("{}:{line}:{column}: {}", self.file, problem.message)
        });
        f.write_str(&lines.collect::<Vec<_>>().join("\n"))?;
        match self.problems.len().saturating_sub(PROBLEMS_SHOWN) {
            0 => Ok(()),
            more => write!(f, "\n{}: and {more} more", self.file),
        }
    }
}

/// Collects problems while a file is read, so that the first does not hide the others.
#[derive(Debug)]
pub struct Problems<'a> {
    text: &'a str,
    found: RefCell<Vec<(usize, String)>>,
}

impl<'a> Problems<'a> {
    /// No problem yet in this text.
    pub fn new(text: &'a str) -> Self {
        Self { text, found: RefCell::default() }
    }

    /// Notes what is wrong at these bytes of the text.
    pub fn add(&self, span: Range<usize>, message: impl Into<String>) {
        self.found.borrow_mut().push((span.start, message.into()));
    }

    /// Whether nothing is wrong so far.
    pub fn is_empty(&self) -> bool {
        self.found.borrow().is_empty()
    }

    /// Everything by line and column, in the order of the text.
    pub fn into_errors(self, file: &str) -> FileErrors {
        let mut found = self.found.into_inner();
        found.sort_by_key(|(start, _)| *start);
        let mut lines = Lines::of(self.text);
        FileErrors {
            file: file.to_owned(),
            problems: found
                .into_iter()
                .map(|(start, message)| {
                    let (line, column) = lines.position(start);
                    Problem { line, column, message }
                })
                .collect(),
        }
    }
}

/// Places in a text, asked for from its beginning to its end, so that nothing is counted twice.
struct Lines<'a> {
    text: &'a str,
    at: usize,
    line: usize,
    column: usize,
}

impl<'a> Lines<'a> {
    fn of(text: &'a str) -> Self {
        Lines { text, at: 0, line: 1, column: 1 }
    }

    fn position(&mut self, start: usize) -> (usize, usize) {
        let rest = self.text[self.at..].char_indices();
        let start = start.saturating_sub(self.at);
        for (offset, c) in rest {
            if offset + c.len_utf8() > start {
                break;
            }
            self.at += c.len_utf8();
            (self.line, self.column) = match c {
                '\n' => (self.line + 1, 1),
                _ => (self.line, self.column + 1),
            };
        }
        (self.line, self.column)
    }
}

/// `; did you mean …?` when a known word is near enough to be a slip of the hand, else nothing.
pub fn nearest<'w>(found: &str, known: impl IntoIterator<Item = &'w str>) -> String {
    known
        .into_iter()
        .map(|word| (strsim::damerau_levenshtein(found, word), word))
        .filter(|(distance, word)| *distance <= (word.len().max(found.len()) / 3).max(1))
        .min()
        .map(|(_, word)| format!("; did you mean `{word}`?"))
        .unwrap_or_default()
}

/// `a`, `b` or `c`.
pub fn one_of<'w>(known: impl IntoIterator<Item = &'w str>) -> String {
    let mut words: Vec<String> = known.into_iter().map(|word| format!("`{word}`")).collect();
    let Some(last) = words.pop() else { return "nothing".to_owned() };
    if words.is_empty() { last } else { format!("{} or {last}", words.join(", ")) }
}
