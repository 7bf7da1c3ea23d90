//! What the locks of an application do, from the commands that its servers ran: commands in, holds, figures and findings out.
//!
//! Everything is inferred from effects. A lock is a key that is taken, kept and given back as a row of [`RECIPES`] says; replies, which no
//! source shows, follow from what happened to the key before. What cannot be known yet waits for evidence: an owner that renews or releases had
//! the lock, an owner that asks again had not.
//!
//! | file | what it does |
//! |---|---|
//! | `sources.rs` | reads MONITOR text, the stream of `redis-cli --replica` and append-only files |
//! | `units.rs` | puts scripts and transactions together with their inner commands |
//! | `recipes.rs` | recognises what a unit does to a lock |
//! | `possession.rs` | decides who has each lock, and when that changed |
//! | `patterns.rs` | groups names, counts, and knows libraries by what they leave in traffic |
//! | `snapshot.rs` | knows a lock by its key alone, for a look at who holds what now |
//! | `live.rs`, `held_now.rs` | listens to servers while they work; looks once at what their keys hold |
//! | `finding_kinds.rs` | the kinds of findings, why each matters and what helps |

mod finding_kinds;
mod held_now;
mod live;
mod patterns;
mod possession;
mod recipes;
mod snapshot;
mod sources;
mod units;

pub use finding_kinds::{FINDING_KINDS, FindingKind};
pub use held_now::look_once;
pub use live::{LiveWatch, watch_live};
pub use patterns::pattern_of;
pub use possession::{WatchOptions, WatchedTraffic, Watcher};
pub use recipes::{RECIPES, Recipe};
pub use sources::{SourceError, read_bytes, read_file};
