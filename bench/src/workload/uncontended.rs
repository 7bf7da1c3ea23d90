//! Every task has locks of its own: what acquire and release cost when nobody is in the way.

use super::{Spread, Workload};

pub(super) const WORKLOAD: Workload = Workload {
    name: "uncontended",
    about: "each task acquires and releases locks of its own, as fast as it can",
    spread: Spread::Own,
    paced: true,
    ..Workload::CYCLES
};
