//! Makes a run repeat: its process, its memory, the time and random bytes.
//!
//! | file | what it is for |
//! |---|---|
//! | `forked_copy.rs`, `heap.rs` | a process for each run, and its memory |
//! | `process.rs`, `system.rs` | processes that stop and end; the calls for time and random bytes |

pub(crate) mod forked_copy;
pub(crate) mod heap;
pub(crate) mod process;
pub(crate) mod system;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
