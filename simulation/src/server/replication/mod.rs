//! Replication, and the connections that a server opens itself.
//!
//! | file | what it is for |
//! |---|---|
//! | `stream.rs`, `replica_link.rs` | a master's and a replica's side of the stream; `WAIT` |
//! | `links.rs` | connections that a process opens itself |

pub(crate) mod links;
pub(crate) mod replica_link;
pub(crate) mod stream;
