//! Nodes of a cluster.
//!
//! | file | what it is for |
//! |---|---|
//! | `node.rs` | whose each slot is, and what is sent elsewhere |
//! | `bus.rs`, `takeover.rs` | what nodes tell each other; when a replica becomes master |
//! | `migrate.rs` | how keys go from one node to another |

pub(crate) mod bus;
pub(crate) mod migrate;
pub(crate) mod node;
pub(crate) mod takeover;
