//! Recognises locks by the commands that were run.
//!
//! | file | what it is for |
//! |---|---|
//! | `units.rs` | puts scripts and transactions together with their inner commands |
//! | `recipe_table.rs`, `recipes.rs`, `permits.rs` | the recipes of locks, and what a unit does to one |
//! | `patterns.rs` | groups names, counts, and knows libraries by what they leave in traffic |

pub(crate) mod patterns;
pub(crate) mod permits;
pub(crate) mod recipe_table;
pub(crate) mod recipes;
pub(crate) mod units;
