//! What is kept of a run, and what follows from it alone.
//!
//! | file | what it is for |
//! |---|---|
//! | `run.rs` | the contents of `run.json` |
//! | `measures.rs`, `open_loop.rs`, `intervals.rs`, `hdr.rs` | what a benchmark row says, and latencies over time |
//! | `verdict.rs`, `proof.rs`, `timeline.rs`, `over_time.rs` | what a scenario says, and what shows it |
//! | `watch.rs` | what was seen in traffic |
//! | `figure.rs` | every figure once, with its name, unit and direction |
//! | `sequence.rs` | a conviction, step by step |

pub(crate) mod figure;
pub mod hdr;
pub mod intervals;
pub mod measures;
pub mod open_loop;
pub mod over_time;
pub mod proof;
pub mod run;
pub mod sequence;
pub mod timeline;
pub mod verdict;
pub mod watch;
