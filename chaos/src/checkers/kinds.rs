//! What each kind of lock promises: the one table of kinds.
//!
//! | kind | excludes | one owner nests | order |
//! |---|---|---|---|
//! | plain, non-reentrant | everybody | no: two grants of one owner at once are an overlap | – |
//! | reentrant, spin, fenced, multi, redlock | others | yes | – |
//! | fair, queued | others | yes | promised |
//! | write | others, readers too | yes, also over its own read | – |
//! | read | writers | yes | – |
//! | semaphore, permits | more than k | no | – |
//! | latch | nobody: it is not judged | – | – |
//!
//! `multi`, `redlock` and `queued` come re-entrant in some libraries and not in others; they are judged leniently here, since
//! a second grant to the owner who holds harms nobody. A kind that is not in the table is judged as `plain`, with a note.

use results::overlap::Mode;

/// What a kind of lock promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Promise {
    /// How its holds share; `None` for a latch, which is held by nobody.
    pub mode: Option<Mode>,
    /// Whether waiters are served in the order of their arrival.
    pub ordered: bool,
    /// Whether the kind is in the table.
    pub known: bool,
}

impl Promise {
    /// Looks a kind up by its name in a history.
    pub fn of(kind: &str) -> Self {
        let (mode, ordered, known) = match kind {
            "plain" | "non-reentrant" => (Some(Mode::Exclusive), false, true),
            "reentrant" | "spin" | "fenced" | "multi" | "redlock" | "write" => {
                (Some(Mode::Reentrant), false, true)
            }
            "fair" | "queued" => (Some(Mode::Reentrant), true, true),
            "read" => (Some(Mode::Read), false, true),
            "semaphore" | "permits" => (Some(Mode::Permit), false, true),
            "latch" => (None, false, true),
            _ => (Some(Mode::Exclusive), false, false),
        };
        Self {
            mode,
            ordered,
            known,
        }
    }

    /// Whether a hold of this kind excludes every other owner: only such holds are ordered by tokens.
    pub fn is_exclusive(self) -> bool {
        matches!(self.mode, Some(Mode::Exclusive | Mode::Reentrant))
    }

    /// Whether grants of one owner are one hold.
    pub fn nests(self) -> bool {
        self.mode.is_some_and(Mode::nests)
    }
}
