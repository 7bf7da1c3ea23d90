//! Where a watch gets commands and keys from.
//!
//! | file | what it is for |
//! |---|---|
//! | `kept_traffic.rs` | MONITOR text, the stream of `redis-cli --replica`, append-only files |
//! | `live.rs`, `listeners.rs` | servers while they work, and what that costs; listens to each of them |
//! | `key_reads.rs` | what a key holds when it first appears |
//! | `held_now.rs` | looks once at what the keys of servers hold, and knows a lock by its key alone |

pub(crate) mod held_now;
pub(crate) mod kept_traffic;
pub(crate) mod key_reads;
pub(crate) mod listeners;
pub(crate) mod live;
