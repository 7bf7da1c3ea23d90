//! Commands for more than one verdict: *Look closer*.
//!
//! | file | what it is for |
//! |---|---|
//! | `init.rs` | files that keep a lock judged |
//! | `risk.rs` | double grants in a year, for each way to set up Redis |
//! | `watch.rs` | the locks of a running application |
//! | `conform.rs` | a driver against the driver protocol |
//! | `trace.rs` | what a lock sends to its servers |
//! | `simulate.rs`, `soak.rs` | many seeds, in simulated time and on real servers |

pub(crate) mod conform;
pub(crate) mod init;
pub(crate) mod risk;
#[cfg(feature = "simulate")]
pub(crate) mod simulate;
pub(crate) mod soak;
pub(crate) mod trace;
pub(crate) mod watch;
