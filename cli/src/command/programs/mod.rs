//! Commands that programs call, or packagers: *For programs*.
//!
//! | file | what it is for |
//! |---|---|
//! | `driver.rs`, `guard.rs` | the processes of clients, and what ends them |
//! | `clock.rs` | two clocks compared |
//! | `help.rs`, `man.rs`, `completions.rs` | texts made from the command line's description |

pub(crate) mod clock;
pub(crate) mod completions;
pub(crate) mod driver;
pub(crate) mod guard;
pub(crate) mod help;
pub(crate) mod man;
