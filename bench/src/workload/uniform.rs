//! Many locks, each as likely as the next: what a service with many resources sees.

use std::time::Duration;

use super::{Spread, Workload};

pub(super) const WORKLOAD: Workload = Workload {
    name: "uniform",
    about: "tasks take one of many locks (1,000 unless --locks says else), each as likely as the next, and hold it for 1 ms",
    spread: Spread::Uniform,
    locks: Some(1_000),
    hold: Duration::from_millis(1),
    hands_off: true,
    paced: true,
    ..Workload::CYCLES
};
