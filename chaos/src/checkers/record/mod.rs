//! What a history holds, as checkers read it.
//!
//! | file | what it is for |
//! |---|---|
//! | `reader.rs`, `holds.rs`, `names.rs` | from lines of a history to grants |
//! | `kinds.rs` | what each kind of lock promises |
//! | `faults.rs`, `majority_reach.rs` | which client a fault touches, and when |
//! | `clocks.rs`, `stalls.rs` | how far the times of a history can be trusted |
//! | `spans.rs` | sets of times |

pub(crate) mod clocks;
pub(crate) mod faults;
pub mod holds;
pub mod kinds;
pub(crate) mod majority_reach;
pub mod names;
pub(crate) mod reader;
pub(crate) mod spans;
pub(crate) mod stalls;
