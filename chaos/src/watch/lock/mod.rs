//! What becomes of one lock.
//!
//! | file | what it is for |
//! |---|---|
//! | `lock_state.rs` | what is known of it |
//! | `watch_step.rs`, `hold_change.rs` | decides who has it and when that changed |
//! | `step_record.rs` | writes that down |
//! | `votes.rs` | makes grants of a set of masters of those of its members |
//! | `finding_kinds.rs` | the kinds of findings, why each matters and what helps |

pub(crate) mod finding_kinds;
pub(crate) mod hold_change;
pub(crate) mod lock_state;
pub(crate) mod step_record;
pub(crate) mod votes;
pub(crate) mod watch_step;
