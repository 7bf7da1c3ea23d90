//! How the waiters of a client wait.
//!
//! | file | what it is for |
//! |---|---|
//! | `line.rs`, `gate.rs` | a client's own waiters of a lock, of which the first asks the server |
//! | `subscriptions.rs` | what is published for them |
//! | `queue.rs` | its waiters in a queue at the server |
//! | `handoff.rs` | from a release to the next of them |
//! | `contended_locks.rs` | the turns that are left to other clients |

pub(crate) mod contended_locks;
pub(crate) mod gate;
pub(crate) mod handoff;
pub(crate) mod line;
pub(crate) mod queue;
pub(crate) mod subscriptions;
