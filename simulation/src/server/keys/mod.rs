//! Keys: the commands on them, the scripts over them, and the file that keeps them.
//!
//! | file | what it is for |
//! |---|---|
//! | `keyspace.rs`, `number.rs` | the keys and when they end; numbers in them |
//! | `strings.rs`, `hashes.rs`, `lists.rs`, `sorted.rs` | commands by type |
//! | `scripts.rs` | the library's scripts |
//! | `file.rs` | what outlives a crash |

pub(crate) mod file;
pub(crate) mod hashes;
pub(crate) mod keyspace;
pub(crate) mod lists;
pub(crate) mod number;
pub(crate) mod scripts;
pub(crate) mod sorted;
pub(crate) mod strings;
