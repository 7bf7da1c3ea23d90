//! What the locks of an application do, from the commands that its servers ran: commands in, holds, figures
//! and findings out.
//!
//! Everything is inferred from effects. A lock is a key that is taken, kept and given back as the book's page
//! on `watch` says of each recipe; replies, which no source shows, follow from what happened to the key
//! before. What cannot be known yet waits for evidence: an owner that renews or releases had the lock, an
//! owner that asks again had not.
//!
//! | file | what it does |
//! |---|---|
//! | `sources/` | reads traffic and keys, of servers and of what was kept |
//! | `recognition/` | knows locks, patterns and libraries by commands |
//! | `lock/` | decides who has a lock, and writes down what happened to it |
//! | `watcher.rs` | follows the locks of servers, each of which is a `lock/lock_state.rs` |
//! | `holds_over_time.rs` | puts the holds over the time of the watch, for a picture |

mod holds_over_time;
mod lock;
mod recognition;
mod sources;
mod watcher;

pub use lock::lock_state::WatchOptions;
pub use sources::held_now::look_once;
pub use sources::kept_traffic::{SourceError, read_bytes, read_file};
pub use sources::live::{LiveWatch, watch_live};
pub use watcher::{WatchedTraffic, Watcher};
