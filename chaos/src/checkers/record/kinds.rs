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
//! `multi`, `redlock` and `queued` come re-entrant in some libraries and not in others; they are judged
//! leniently here, since a second grant to the owner who holds harms nobody. A kind that is not in the table
//! is judged as `plain`, with a note.

use results::overlap::Mode;

/// Each kind, how its holds share, and whether it promises an order.
pub(crate) const KINDS: [(&str, Option<Mode>, bool); 14] = [
    ("plain", Some(Mode::Exclusive), false),
    ("reentrant", Some(Mode::Reentrant), false),
    ("non-reentrant", Some(Mode::Exclusive), false),
    ("fair", Some(Mode::Reentrant), true),
    ("queued", Some(Mode::Reentrant), true),
    ("spin", Some(Mode::Reentrant), false),
    ("read", Some(Mode::Read), false),
    ("write", Some(Mode::Reentrant), false),
    ("fenced", Some(Mode::Reentrant), false),
    ("multi", Some(Mode::Reentrant), false),
    ("redlock", Some(Mode::Reentrant), false),
    ("semaphore", Some(Mode::Permit), false),
    ("permits", Some(Mode::Permit), false),
    ("latch", None, false),
];

pub(crate) fn names() -> [&'static str; KINDS.len()] {
    KINDS.map(|(name, ..)| name)
}

/// Whether one holder has a lock of this kind alone, and it is one lock. A scenario about such a kind tries
/// any other just as well.
pub fn is_alone(kind: &str) -> bool {
    let promise = Promise::of(kind);
    promise.known && promise.is_exclusive() && kind != "multi"
}

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
        let found = KINDS.iter().find(|(name, ..)| *name == kind);
        let (mode, ordered) = found.map_or((Some(Mode::Exclusive), false), |row| (row.1, row.2));
        Self { mode, ordered, known: found.is_some() }
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
