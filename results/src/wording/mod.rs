//! Short words, and what is done to texts.
//!
//! | file | what it is for |
//! |---|---|
//! | `units.rs` | figures with their units |
//! | `command_line.rs` | the line that makes a run again |
//! | `pattern.rs`, `spelling.rs` | words with stars, and misspelt ones |
//! | `secrets.rs` | passwords, which no text may show |

pub mod command_line;
pub mod pattern;
pub mod secrets;
pub mod spelling;
pub mod units;
