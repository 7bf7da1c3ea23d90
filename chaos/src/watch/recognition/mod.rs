//! Recognises locks by the commands that were run.

pub(crate) mod patterns;
pub(crate) mod permits;
pub(crate) mod recipe_table;
pub(crate) mod recipes;
pub(crate) mod units;
