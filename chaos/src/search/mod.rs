//! Looks for plans that convict: the smallest one, and random ones by the thousand.
//!
//! | file | what it is for |
//! |---|---|
//! | `shrink.rs`, `shrink_search.rs` | proposes smaller plans; runs them and writes what was found |
//! | `soak.rs` | random scenarios, one for each seed |

pub mod shrink;
pub mod shrink_search;
pub mod soak;
