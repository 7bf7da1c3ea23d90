//! Follows a history from line to line: what is out of order or without its pair is an error.

use std::collections::HashMap;

use super::{Call, End, Entry, HistoryError, Line};

/// Follows order and pairing from line to line.
#[derive(Default)]
pub(super) struct Sequence {
    last_ns: u64,
    /// Whether the operation that an `id` stands for is an acquire.
    pending: HashMap<u64, bool>,
}

impl Sequence {
    pub(super) fn take(&mut self, line: &Line) -> Result<(), HistoryError> {
        if line.t_ns < self.last_ns {
            return Err(HistoryError::new(
                format!("`t_ns` is {} after {}", line.t_ns, self.last_ns),
                "lines in order of `t_ns`",
            ));
        }
        self.last_ns = line.t_ns;
        match &line.entry {
            Entry::Call { id, call } => {
                let acquire = matches!(call, Call::Acquire(_));
                if self.pending.insert(*id, acquire).is_some() {
                    return Err(HistoryError::new(
                        format!("a second call with `id` {id} while the first is pending"),
                        "an `id` of its own for each operation",
                    ));
                }
            }
            Entry::End { id, end } => {
                let Some(acquire) = self.pending.remove(id) else {
                    return Err(HistoryError::new(
                        format!("an end with `id` {id} without a pending call"),
                        "one end after each call, with its `id`",
                    ));
                };
                Self::fits(acquire, end)?;
            }
            Entry::Event(_) => {}
        }
        Ok(())
    }

    /// Whether an ending is one that this operation can have.
    fn fits(acquire: bool, end: &End) -> Result<(), HistoryError> {
        match (acquire, end) {
            (true, End::NotHeld) => Err(HistoryError::new(
                "`end` of an acquire is \"not_held\"",
                "\"ok\", \"busy\", \"failed\" or \"unknown\"",
            )),
            (false, End::Busy) => Err(HistoryError::new(
                "`end` of an extend or release is \"busy\"",
                "\"ok\", \"not_held\", \"failed\" or \"unknown\"",
            )),
            (true, End::Ok { grant: None, .. }) => Err(HistoryError::new(
                "an acquire's \"ok\" without `grant`",
                "a `grant` that names the hold",
            )),
            _ => Ok(()),
        }
    }
}
