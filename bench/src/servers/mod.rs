//! Redis servers that a bench is told of, or measures.
//!
//! | file | what it is for |
//! |---|---|
//! | `target.rs` | servers by URL, as lock-core reads it |
//! | `consent.rs` | which servers beyond this machine may be dialled |
//! | `survey.rs` | what servers report about themselves |
//! | `server_stats.rs` | what they do while they are measured |

pub mod consent;
pub mod server_stats;
pub mod survey;
pub mod target;
