//! All tasks want one lock: how soon, how fairly and at what price it passes from hand to hand.

use std::time::Duration;

use super::{Spread, Workload};

pub(super) const WORKLOAD: Workload = Workload {
    name: "contended",
    about: "all tasks want one lock, hold it for 1 ms and think for 2 ms",
    spread: Spread::One,
    // A hold of no length could not overlap another one, so nothing would be shown about safety.
    hold: Duration::from_millis(1),
    // Without thinking a releaser mostly meets itself again.
    think: Duration::from_millis(2),
    hands_off: true,
    paced: true,
    ..Workload::CYCLES
};
