//! Follows a history from line to line, and turns one that is out of order or without its pair into an error.

use std::collections::HashMap;

use super::{Call, End, Entry, HistoryError, Line};

/// Which operation an `id` stands for while it is pending.
#[derive(Clone, Copy, PartialEq)]
enum Op {
    Acquire,
    Extend,
    Release,
}

/// Follows order and pairing from line to line.
#[derive(Default)]
pub(super) struct Sequence {
    last_ns: u64,
    pending: HashMap<u64, Op>,
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
                let op = match call {
                    Call::Acquire(_) => Op::Acquire,
                    Call::Extend { .. } => Op::Extend,
                    Call::Release { .. } => Op::Release,
                };
                if self.pending.insert(*id, op).is_some() {
                    return Err(HistoryError::new(
                        format!("a second call with `id` {id} while the first is pending"),
                        "an `id` of its own for each operation",
                    ));
                }
            }
            Entry::End { id, end } => {
                let Some(op) = self.pending.remove(id) else {
                    return Err(HistoryError::new(
                        format!("an end with `id` {id} without a pending call"),
                        "one end after each call, with its `id`",
                    ));
                };
                Self::fits(op, end)?;
            }
            Entry::Event(_) => {}
        }
        Ok(())
    }

    /// Whether an ending is one that this operation can have.
    fn fits(op: Op, end: &End) -> Result<(), HistoryError> {
        match (op, end) {
            (Op::Acquire, End::NotHeld) => Err(HistoryError::new(
                "`end` of an acquire is \"not_held\"",
                "\"ok\", \"busy\", \"failed\" or \"unknown\"",
            )),
            (Op::Extend | Op::Release, End::Busy) => Err(HistoryError::new(
                "`end` of an extend or release is \"busy\"",
                "\"ok\", \"not_held\", \"failed\" or \"unknown\"",
            )),
            (Op::Acquire, End::Ok { grant: None, .. }) => Err(HistoryError::new(
                "an acquire's \"ok\" without `grant`",
                "a `grant` that names the hold",
            )),
            _ => Ok(()),
        }
    }
}
