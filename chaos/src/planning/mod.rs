//! From a scenario and a seed to a plan, in which nothing is left to chance.
//!
//! | file | what it is for |
//! |---|---|
//! | `plan.rs`, `draw.rs`, `partition.rs` | a plan; what is drawn for it; which links a partition cuts |
//! | `planner.rs`, `plan_parts.rs` | all plans of a command; which part of a plan runs on which machine |
//! | `kept_plan.rs` | plans that a run kept |

pub(crate) mod draw;
pub mod kept_plan;
pub mod partition;
pub mod plan;
pub mod plan_parts;
pub mod planner;
