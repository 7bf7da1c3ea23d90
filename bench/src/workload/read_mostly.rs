//! One lock that most tasks read and a few write: readers share it, a writer has it alone. What a reader gains, and what a writer waits.

use std::time::Duration;

use super::{Asks, Spread, Workload};

pub(super) const WORKLOAD: Workload = Workload {
    name: "read-mostly",
    about: "all tasks want one read-write lock and hold it for 1 ms; one cycle in ten writes (--writes), the others read and may share it",
    spread: Spread::One,
    asks: Asks::Sides { writes: 0.1 },
    hold: Duration::from_millis(1),
    // As in the contended workload: without thinking a releaser mostly meets itself again.
    think: Duration::from_millis(2),
    hands_off: true,
    paced: true,
    ..Workload::CYCLES
};
