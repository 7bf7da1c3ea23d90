//! Reads a history from text, or says which line is wrong and what is allowed there.
//!
//! Decisions where a file could be read in two ways:
//!
//! - A line is exactly one of: a call (`op`), an end (`end`), an event (`event`).
//! - `null` is the same as an absent field. A field that a line of that kind does not have is ignored,
//!   whatever its type.
//! - Time must not go backwards from line to line; equal stamps are fine. It ends at 2^63-1, so that the end
//!   of a history has a time behind it.
//! - An `id` names one operation at a time: a second call while the first is pending, and an end without a
//!   pending call, are bad lines. An `id` may come back after its end.
//! - The last line counts as torn if it is not JSON at all; JSON of a wrong form is a bad line there too.
//!   Empty lines are skipped.
//! - Names of grants are not followed here: whether a grant is known is the checkers' question.

use std::collections::HashMap;

use super::{Call, End, Entry, History, HistoryError, Line};

impl History {
    /// Reads a whole file. A torn last line behind a complete one is dropped and [`torn`](Self::torn) is set.
    ///
    /// # Errors
    /// The first bad line, with its number; or a file without any complete line.
    pub fn parse(text: &str) -> Result<Self, HistoryError> {
        Self::parse_bytes(text.as_bytes())
    }

    /// As [`parse`](Self::parse), of bytes: a line torn inside a character is a torn line too.
    pub fn parse_bytes(text: &[u8]) -> Result<Self, HistoryError> {
        let mut reader = Reader::default();
        let mut lines = Vec::new();
        for line in text.split(|byte| *byte == b'\n') {
            lines.extend(reader.line(line)?);
        }
        Ok(Self { torn: reader.finish()?, ..Self::from_lines(lines) })
    }
}

/// Takes a file line by line, so that neither the whole text nor all lines are needed at once.
#[derive(Default)]
pub(crate) struct Reader {
    last_ns: u64,
    /// Of each `id` whose operation goes on, whether that is an acquire.
    pending: HashMap<u64, bool>,
    any: bool,
    number: usize,
    /// A line that is not JSON: torn if it stays the last, else bad.
    doubtful: Option<HistoryError>,
}

impl Reader {
    /// Takes the next line, without its end; `None` where it says nothing.
    pub(crate) fn line(&mut self, text: &[u8]) -> Result<Option<Line>, HistoryError> {
        self.number += 1;
        if text.iter().all(u8::is_ascii_whitespace) {
            return Ok(None);
        }
        if let Some(error) = self.doubtful.take() {
            return Err(error);
        }
        match Line::parse_bytes(text) {
            Ok(line) => {
                self.fits(&line).map_err(|error| error.at(self.number))?;
                self.any = true;
                Ok(Some(line))
            }
            Err(error) if self.any && !is_json(text) => {
                self.doubtful = Some(error.at(self.number));
                Ok(None)
            }
            Err(error) => Err(error.at(self.number)),
        }
    }

    /// Whether a line is in order of time, and an end that its call can have.
    fn fits(&mut self, line: &Line) -> Result<(), HistoryError> {
        let last_ns = std::mem::replace(&mut self.last_ns, line.t_ns);
        if i64::try_from(line.t_ns).is_err() {
            let found = format!("`t_ns` is {}", line.t_ns);
            return Err(HistoryError::new(found, "a whole number from 0 to 2^63-1"));
        }
        if line.t_ns < last_ns {
            let found = format!("`t_ns` is {} after {last_ns}", line.t_ns);
            return Err(HistoryError::new(found, "lines in order of `t_ns`"));
        }
        let (found, allowed) = match &line.entry {
            Entry::Call { id, call } => {
                if self.pending.insert(*id, matches!(call, Call::Acquire(_))).is_none() {
                    return Ok(());
                }
                (
                    format!("a second call with `id` {id} while the first is pending"),
                    "an `id` of its own for each operation",
                )
            }
            Entry::End { id, end } => match (self.pending.remove(id), end) {
                (None, _) => (
                    format!("an end with `id` {id} without a pending call"),
                    "one end after each call, with its `id`",
                ),
                (Some(true), End::NotHeld) => (
                    "`end` of an acquire is \"not_held\"".to_owned(),
                    "\"ok\", \"busy\", \"failed\" or \"unknown\"",
                ),
                (Some(false), End::Busy) => (
                    "`end` of an extend or release is \"busy\"".to_owned(),
                    "\"ok\", \"not_held\", \"failed\" or \"unknown\"",
                ),
                (Some(true), End::Ok { grant: None, .. }) => {
                    ("an acquire's \"ok\" without `grant`".to_owned(), "a `grant` that names the hold")
                }
                _ => return Ok(()),
            },
            Entry::Event(_) => return Ok(()),
        };
        Err(HistoryError::new(found, allowed))
    }

    /// Whether the last line was torn.
    pub(crate) fn finish(self) -> Result<bool, HistoryError> {
        match self.any {
            true => Ok(self.doubtful.is_some()),
            false => Err(HistoryError::new("no complete line", "at least one JSON object").at(0)),
        }
    }
}

fn is_json(line: &[u8]) -> bool {
    serde_json::from_slice::<serde::de::IgnoredAny>(line).is_ok() && std::str::from_utf8(line).is_ok()
}
