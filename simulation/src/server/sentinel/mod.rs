//! Sentinels.
//!
//! | file | what it is for |
//! |---|---|
//! | `state.rs`, `answers.rs` | what a sentinel knows, and how it learns that |
//! | `failover.rs` | when it fails over, and to whom |

pub(crate) mod answers;
pub(crate) mod failover;
pub(crate) mod state;
