//! What becomes of one lock.

pub(crate) mod finding_kinds;
pub(crate) mod hold_change;
pub(crate) mod lock_state;
pub(crate) mod step_record;
pub(crate) mod votes;
pub(crate) mod watch_step;
