//! Locks that go on after a panic, since nothing between lock and unlock leaves what they guard half changed;
//! and the other primitives of the parts that are tried under a model checker, where the same files are
//! compiled with the checker's own instead (`tests/lock_models.rs`).

use std::sync::PoisonError;

pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
pub(crate) use std::sync::{Arc, MutexGuard};

pub(crate) use tokio::sync::Notify;

/// A yes or no that several tasks set and read.
#[derive(Debug, Default)]
pub(crate) struct Flag(AtomicBool);

impl Flag {
    pub(crate) fn get(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    pub(crate) fn set(&self, to: bool) {
        self.0.store(to, Ordering::Release);
    }
}

/// As that of the standard library, but never poisoned.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(std::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Mutex(std::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
