//! What a user asks for by name: a file for each type.
//!
//! | file | what it is for |
//! |---|---|
//! | `lock.rs`, `lock_inner.rs` | a lock, and what its holds share |
//! | `fenced_lock.rs`, `read_write.rs` | kinds with a face of their own |
//! | `multi.rs` | several locks as one |
//! | `election.rs` | a leader |
//! | `semaphore.rs`, `permits.rs`, `permit_id.rs` | permits without a lease, and with one |
//! | `latch.rs` | a count-down latch |
//! | `short_forms.rs` | the calls that all of them have |

pub(crate) mod election;
pub(crate) mod fenced_lock;
pub(crate) mod latch;
pub(crate) mod lock;
pub(crate) mod lock_inner;
pub(crate) mod multi;
pub(crate) mod permit_id;
pub(crate) mod permits;
pub(crate) mod read_write;
pub(crate) mod semaphore;
pub(crate) mod short_forms;
