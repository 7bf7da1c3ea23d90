//! Every task has locks of its own: what acquire and release cost when nobody is in the way.

use std::time::Duration;

use super::{Spread, Workload};

pub(super) const WORKLOAD: Workload = Workload {
    name: "uncontended",
    about: "each task acquires and releases locks of its own, as fast as it can (closed loop)",
    spread: Spread::Own,
    hold: Duration::ZERO,
    think: Duration::ZERO,
    hands_off: false,
};
