//! What the locks of an application do, from the commands that its servers ran: commands in, holds, figures
//! and findings out.
//!
//! Everything is inferred from effects. A lock is a key that is taken, kept and given back as
//! `recipe_table.rs` says; replies, which no source shows, follow from what happened to the key before. What
//! cannot be known yet waits for evidence: an owner that renews or releases had the lock, an owner that asks
//! again had not.
//!
//! | file | what it does |
//! |---|---|
//! | `sources.rs` | reads MONITOR text, the stream of `redis-cli --replica` and append-only files |
//! | `units.rs` | puts scripts and transactions together with their inner commands |
//! | `recipe_table.rs`, `recipes.rs`, `permits.rs` | the recipes of locks, and what a unit does to one |
//! | `watcher.rs` | follows the locks of servers, each of which is a `lock_state.rs` |
//! | `watch_step.rs`, `hold_change.rs`, `step_record.rs` | decides who has a lock and when that changed, and writes it down |
//! | `votes.rs` | makes grants of a set of masters of those of its members |
//! | `patterns.rs` | groups names, counts, and knows libraries by what they leave in traffic |
//! | `holds_over_time.rs` | puts the holds over the time of the watch, for a picture |
//! | `live.rs`, `listeners.rs` | watches servers while they work, and what that costs; listens to each of them |
//! | `key_reads.rs` | reads what a key holds when it first appears |
//! | `held_now.rs` | looks once at what the keys of servers hold, and knows a lock by its key alone |
//! | `finding_kinds.rs` | the kinds of findings, why each matters and what helps |

mod finding_kinds;
mod held_now;
mod hold_change;
mod holds_over_time;
mod key_reads;
mod listeners;
mod live;
mod lock_state;
mod patterns;
mod permits;
mod recipe_table;
mod recipes;
mod sources;
mod step_record;
mod units;
mod votes;
mod watch_step;
mod watcher;

pub use held_now::look_once;
pub use live::{LiveWatch, watch_live};
pub use lock_state::WatchOptions;
pub use sources::{SourceError, read_bytes, read_file};
pub use watcher::{WatchedTraffic, Watcher};
