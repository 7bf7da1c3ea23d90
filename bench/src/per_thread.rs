//! What threads keep apart while they run, and others may read: parts, each behind a mutex seldom waited for.

use std::array;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, MutexGuard};

/// As many parts as threads are expected to be at work; more share.
pub(crate) struct PerThread<T, const PARTS: usize>([CacheLine<T>; PARTS]);

/// In two cache lines of its own, which processors fetch together: neighbours would fight for one.
#[repr(align(128))]
struct CacheLine<T>(Mutex<T>);

impl<T: Default, const PARTS: usize> Default for PerThread<T, PARTS> {
    fn default() -> Self {
        PerThread(array::from_fn(|_| CacheLine(Mutex::default())))
    }
}

impl<T, const PARTS: usize> PerThread<T, PARTS> {
    pub(crate) fn own(&self) -> (usize, MutexGuard<'_, T>) {
        static THREADS: AtomicUsize = AtomicUsize::new(0);
        thread_local!(static THREAD: usize = THREADS.fetch_add(1, Relaxed));
        let at = THREAD.with(|thread| thread % PARTS);
        (at, self.part(at))
    }

    /// A part by its number, which there must be.
    pub(crate) fn part(&self, at: usize) -> MutexGuard<'_, T> {
        self.0[at].0.lock().expect("no panic")
    }

    pub(crate) fn parts(&self) -> impl Iterator<Item = MutexGuard<'_, T>> {
        (0..PARTS).map(|at| self.part(at))
    }
}
