//! x
pub mod checkers;
