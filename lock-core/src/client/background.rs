//! Work that a client goes on with while nobody waits for it, and its orderly end.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::{Context, Waker};
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::{TaskTracker, task_tracker::TaskTrackerToken};

use crate::clock::{Instant, timeout_at};
use crate::machine::{self, ClientRuntime};

#[derive(Debug)]
pub(crate) struct Background {
    runtime: ClientRuntime,
    running: TaskTracker,
    closed: CancellationToken,
}

impl Background {
    pub(crate) fn new(runtime: ClientRuntime) -> Self {
        Background { runtime, running: TaskTracker::new(), closed: CancellationToken::new() }
    }

    /// Starts a task that `finish` waits for. May be called outside of a runtime. Once the client's runtime
    /// has ended it runs on the caller's, if there is one.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn(self.running.track_future(work));
    }

    /// As `spawn`, and begins where it is called: what it writes first has left before a task is made of it,
    /// which may wait behind what this thread does next, or never run because the runtime ends with `main`.
    pub(crate) fn begin(&self, work: impl Future<Output = ()> + Send + 'static) {
        if machine::is_simulated() || self.has_no_runtime() {
            return self.spawn(work);
        }
        let mut work = Box::pin(self.running.track_future(work));
        {
            let _entered = self.runtime.enter();
            let context = &mut Context::from_waker(Waker::noop());
            // A runtime that is about to end refuses timers by a panic.
            if catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context).is_ready())).unwrap_or(true) {
                return;
            }
        }
        self.runtime.spawn(work);
        machine::empty_lifo_slot();
    }

    /// Whether the runtime has ended: nothing is renewed any more.
    pub(crate) fn has_no_runtime(&self) -> bool {
        self.runtime.has_ended()
    }

    pub(crate) async fn runtime_ended(&self) {
        self.runtime.ended().await;
    }

    /// Until it is dropped, `finish` waits for its owner, which has to end when the client closes.
    pub(crate) fn ticket(&self) -> TaskTrackerToken {
        self.running.token()
    }

    /// Starts a task that ends by itself when the client does.
    pub(crate) fn spawn_uncounted(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn(work);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.is_cancelled()
    }

    pub(crate) async fn closed(&self) {
        self.closed.cancelled().await;
    }

    /// Sleeps, or returns true at once when the client closes.
    pub(crate) async fn closed_within(&self, pause: Duration) -> bool {
        timeout_at(Instant::now() + pause, self.closed()).await.is_ok()
    }

    /// Nothing waits any more.
    pub(crate) fn close(&self) {
        self.closed.cancel();
    }

    /// Lets what runs come to its end, for so long at most; nothing waits to try again any more.
    pub(crate) async fn finish(&self, longest: Duration) {
        self.close();
        self.running.close();
        // What is left after that is given up: its locks end with their leases.
        let _ = timeout_at(Instant::now() + longest, self.running.wait()).await;
    }
}
