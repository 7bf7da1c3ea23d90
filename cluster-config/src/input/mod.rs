//! Reads TOML that a person wrote: checked values, or all that is wrong with it, by line and column.
//!
//! Scenario files and topology files are read with this, so that both complain alike.
//!
//! | file | what it is for |
//! |---|---|
//! | `table.rs` | a file's table as a type, with all that the type refuses |
//! | `section.rs` | checked values of one table |
//! | `named_choices.rs` | choices by their words |
//! | `problem.rs` | what is wrong, by line and column |
//! | `schema.rs` | what all JSON schemas have in common |

pub(crate) mod named_choices;
mod problem;
mod schema;
mod section;
mod table;

pub use problem::{FileErrors, Problem, Problems, nearest, one_of};
pub use schema::{Scalar, schema_of, without_defaults};
pub use section::{Section, float, integer, shown};
pub use table::{ReadTable, read_file, read_table, word};
