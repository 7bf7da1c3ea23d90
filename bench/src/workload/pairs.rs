//! Pairs of acquire and release one after the other on ever new names, as people time a lock by hand: how long 10,000 of them take.

use super::{Spread, Workload};

pub(super) const WORKLOAD: Workload = Workload {
    name: "pairs",
    about: "each task acquires and releases one of 10,000 names after the other; the row says how long 10,000 pairs take one task",
    spread: Spread::Own,
    locks: Some(10_000),
    ..Workload::CYCLES
};
