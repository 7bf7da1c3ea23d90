//! Turns a scenario and a seed into a plan, a recorded history under faults, and verdicts.

pub mod checkers;
pub mod faults;
pub mod plan;
pub mod scenario;
