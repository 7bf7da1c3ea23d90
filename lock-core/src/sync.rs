//! The primitives of the parts that are tried under a model checker: there the same files are compiled with those of
//! the checker instead (`tests/lock_models.rs`).

pub(crate) use std::sync::{
    Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU64, AtomicUsize, Ordering},
};

pub(crate) use tokio::sync::Notify;
