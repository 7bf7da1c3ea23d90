//! Another server becomes master, of all keys or of some slots.
//!
//! | file | what it is for |
//! |---|---|
//! | `failover.rs`, `promote.rs`, `takeover.rs` | a replica becomes master |
//! | `migrate_slot.rs`, `migrate_atomic.rs` | slots move |

pub(crate) mod failover;
pub(crate) mod migrate_atomic;
pub(crate) mod migrate_slot;
pub(crate) mod promote;
pub(crate) mod takeover;
