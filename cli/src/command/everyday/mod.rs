//! The commands that `--help` shows: *Try, measure, decide*.
//!
//! | file | what it is for |
//! |---|---|
//! | `doctor.rs`, `survey.rs` | what this machine, or a target, has and lacks |
//! | `quickstart.rs` | the main job, in one command |
//! | `audit.rs` | a scorecard of any lock |
//! | `chaos.rs`, `chaos_part.rs` | scenarios; one shared by several machines |
//! | `bench/` | rows without faults |
//! | `new_driver.rs` | a driver for a lock library of any language |
//! | `report.rs`, `compare.rs` | a kept run as a document; runs side by side |
//! | `lock.rs` | a lock held while a command runs |

pub(crate) mod audit;
pub(crate) mod bench;
pub(crate) mod chaos;
mod chaos_part;
pub(crate) mod compare;
pub(crate) mod doctor;
pub(crate) mod lock;
pub(crate) mod new_driver;
pub(crate) mod quickstart;
pub(crate) mod report;
mod survey;
