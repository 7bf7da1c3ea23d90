//! Many locks of which a few are hot: most calls find nobody in the way, some a queue.

use std::time::Duration;

use super::{Spread, Workload};

pub(super) const WORKLOAD: Workload = Workload {
    name: "zipf",
    about: "tasks take one of many locks (1,000 unless --locks says else), the n-th as often as 1/n^0.99, and hold it for 1 ms",
    spread: Spread::Zipf,
    locks: Some(1_000),
    hold: Duration::from_millis(1),
    hands_off: true,
    paced: true,
    ..Workload::CYCLES
};
