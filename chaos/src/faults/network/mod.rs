//! Faults between clients and servers.
//!
//! | file | what it is for |
//! |---|---|
//! | `link.rs`, `link_harms.rs` | whole links |
//! | `message.rs`, `late_writes.rs` | chosen messages; late writes to the protected resource |
//! | `names.rs` | what the name of a server means |

pub(crate) mod late_writes;
pub(crate) mod link;
pub(crate) mod link_harms;
pub(crate) mod message;
pub(crate) mod names;
