//! Faults of processes, and of what a process runs on.
//!
//! | file | what it is for |
//! |---|---|
//! | `kill.rs`, `pause.rs`, `restart.rs`, `power_cut.rs`, `upgrade.rs` | a process ends, stops, or is started again |
//! | `block.rs`, `clock.rs`, `disk.rs`, `stress.rs` | its event loop, clock, disk and processor |

pub(crate) mod block;
pub(crate) mod clock;
pub(crate) mod disk;
pub(crate) mod kill;
pub(crate) mod pause;
pub(crate) mod power_cut;
pub(crate) mod restart;
pub mod stress;
pub(crate) mod upgrade;
