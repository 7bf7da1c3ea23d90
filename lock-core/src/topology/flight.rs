//! Turns many simultaneous wishes for the same work into one task whose result all of them get.
use std::{
    fmt,
    future::Future,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use futures_util::{
    FutureExt,
    future::{BoxFuture, Shared},
};

/// The result of a flight; `None` if its task was cut off (the runtime is shutting down).
pub(crate) type Joined<T> = Shared<BoxFuture<'static, Option<T>>>;

/// At most one task at a time. The task is its own: a caller that gives up does not stop it.
pub(crate) struct Flight<T: Clone>(Mutex<Option<(Arc<AtomicBool>, Joined<T>)>>);

impl<T: Clone + Send + Sync + 'static> Flight<T> {
    pub(crate) fn new() -> Self {
        Flight(Mutex::new(None))
    }

    /// Joins the task in flight, or starts one.
    pub(crate) fn join<F>(&self, work: impl FnOnce() -> F) -> Joined<T>
    where
        F: Future<Output = T> + Send + 'static,
    {
        let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((landed, shared)) = slot.as_ref()
            && !landed.load(Ordering::Acquire)
        {
            return shared.clone();
        }
        let landed = Arc::new(AtomicBool::new(false));
        let guard = Landing(landed.clone());
        let work = work();
        let task = tokio::spawn(async move {
            let _guard = guard;
            work.await
        });
        let shared = async move { task.await.ok() }.boxed().shared();
        *slot = Some((landed, shared.clone()));
        shared
    }
}

impl<T: Clone> fmt::Debug for Flight<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Flight")
    }
}

/// Marks the flight as over even if its task panics: the next caller then starts anew.
struct Landing(Arc<AtomicBool>);

impl Drop for Landing {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}
