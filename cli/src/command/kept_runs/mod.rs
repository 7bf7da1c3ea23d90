//! Commands for runs that were kept: *Look again*.
//!
//! | file | what it is for |
//! |---|---|
//! | `replay.rs`, `replay_shrink.rs` | the same plan again; the smallest that still convicts |
//! | `check.rs` | a history, judged again |
//! | `gate.rs` | a run, decided by conditions |
//! | `merge.rs` | parts of one plan, joined |
//! | `list.rs` | names of runs, and of everything else |

pub(crate) mod check;
pub(crate) mod gate;
pub(crate) mod list;
pub(crate) mod merge;
pub(crate) mod replay;
mod replay_shrink;
