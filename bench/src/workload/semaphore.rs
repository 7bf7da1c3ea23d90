//! A few permits for many tasks: how soon a permit that was given back is taken again, and whether there are ever more than there should be.

use std::time::Duration;

use super::{Asks, Spread, Workload};

pub(super) const WORKLOAD: Workload = Workload {
    name: "semaphore",
    about: "all tasks want one of 4 permits (--permits), hold it for 1 ms and think for 2 ms",
    spread: Spread::One,
    asks: Asks::Permit { of: 4 },
    hold: Duration::from_millis(1),
    think: Duration::from_millis(2),
    hands_off: true,
    paced: true,
    ..Workload::CYCLES
};
