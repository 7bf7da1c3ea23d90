//! To which servers beyond this machine a user has consented: all that the target leads to, or those named.
//!
//! It is said once for a process, since all its connections go by it, and handed on to driver processes.

use std::sync::atomic::{AtomicBool, Ordering};

const VARIABLE: &str = "LOCKLAB_ONLY_NAMED_ADDRESSES";

static FOR_NAMED_ALONE: AtomicBool = AtomicBool::new(false);

/// From now on this process and its drivers dial nothing beyond this machine that the target does not name.
pub fn for_named_alone() {
    FOR_NAMED_ALONE.store(true, Ordering::Relaxed);
}

/// The same in a driver process, where the one that started it has said so.
pub fn inherit() {
    if std::env::var_os(VARIABLE).is_some() {
        for_named_alone();
    }
}

/// Whether only addresses that the target names may be dialled, and those of this machine.
pub fn is_for_named_alone() -> bool {
    FOR_NAMED_ALONE.load(Ordering::Relaxed)
}

pub(crate) fn handed_on() -> Option<(&'static str, &'static str)> {
    is_for_named_alone().then_some((VARIABLE, "1"))
}
