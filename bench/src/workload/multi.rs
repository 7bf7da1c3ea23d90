//! Several locks at once, all of them or none: what a transaction over a few of many things pays, and whether two ever meet in the middle.

use std::time::Duration;

use super::{Asks, Spread, Workload};

pub(super) const WORKLOAD: Workload = Workload {
    name: "multi",
    about: "tasks take 3 (--together) of several locks at once, as many as tasks unless --locks says else, and hold them for 1 ms",
    spread: Spread::Uniform,
    asks: Asks::Together(3),
    hold: Duration::from_millis(1),
    // A hand-off would be that of one lock, and who waits for three is not kept waiting by one: no such figure is given.
    paced: true,
    ..Workload::CYCLES
};
