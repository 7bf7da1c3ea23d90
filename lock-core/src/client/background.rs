//! Work that a client goes on with while nobody waits for it, and its orderly end.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

use tokio::sync::watch;

use crate::clock::{Instant, timeout_at};
use crate::machine::{self, ClientRuntime};

#[derive(Debug)]
pub(crate) struct Background {
    runtime: ClientRuntime,
    running: Arc<Running>,
    closed: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct Running {
    count: AtomicUsize,
    idle: tokio::sync::Notify,
}

/// Something that runs; counts itself out, also when its runtime ends first.
#[derive(Debug)]
pub(crate) struct Ticket(Arc<Running>);

impl Drop for Ticket {
    fn drop(&mut self) {
        if self.0.count.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.idle.notify_waiters();
        }
    }
}

impl Background {
    pub(crate) fn new(runtime: ClientRuntime) -> Self {
        Background { runtime, running: Arc::default(), closed: watch::Sender::new(false) }
    }

    /// Starts a task that `finish` waits for. May be called outside of a runtime. Once the client's runtime
    /// has ended it runs on the caller's, if there is one.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn(self.counted(work));
    }

    /// As `spawn`, and begins where it is called: what it writes first has left before a task is made of it,
    /// which may wait behind what this thread does next, or never run because the runtime ends with `main`.
    pub(crate) fn begin(&self, work: impl Future<Output = ()> + Send + 'static) {
        if machine::is_simulated() || self.has_no_runtime() {
            return self.spawn(work);
        }
        let mut work = Box::pin(self.counted(work));
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

    /// Work that `finish` waits for until it is over or dropped.
    fn counted<W>(&self, work: W) -> impl Future<Output = ()> + Send + 'static + use<W>
    where
        W: Future<Output = ()> + Send + 'static,
    {
        let ticket = self.ticket();
        async move {
            work.await;
            drop(ticket);
        }
    }

    /// Whether the runtime has ended: nothing is renewed any more.
    pub(crate) fn has_no_runtime(&self) -> bool {
        self.runtime.has_ended()
    }

    pub(crate) async fn runtime_ended(&self) {
        self.runtime.ended().await;
    }

    /// Until it is dropped, `finish` waits for its owner, which has to end when the client closes.
    pub(crate) fn ticket(&self) -> Ticket {
        self.running.count.fetch_add(1, Ordering::AcqRel);
        Ticket(Arc::clone(&self.running))
    }

    /// Starts a task that ends by itself when the client does.
    pub(crate) fn spawn_uncounted(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn(work);
    }

    pub(crate) fn is_closed(&self) -> bool {
        *self.closed.borrow()
    }

    pub(crate) async fn closed(&self) {
        let mut closed = self.closed.subscribe();
        // The sender is ours.
        let _ = closed.wait_for(|closed| *closed).await;
    }

    /// Sleeps, or returns true at once when the client closes.
    pub(crate) async fn closed_within(&self, pause: Duration) -> bool {
        let mut closed = self.closed.subscribe();
        timeout_at(Instant::now() + pause, closed.wait_for(|closed| *closed)).await.is_ok()
    }

    /// Nothing waits any more.
    pub(crate) fn close(&self) {
        self.closed.send_replace(true);
    }

    /// Lets what runs come to its end, for so long at most; nothing waits to try again any more.
    pub(crate) async fn finish(&self, longest: Duration) {
        self.close();
        let idle = async {
            loop {
                let idle = self.running.idle.notified();
                if self.running.count.load(Ordering::Acquire) == 0 {
                    return;
                }
                idle.await;
            }
        };
        // What is left after that is given up: its locks end with their leases.
        let _ = timeout_at(Instant::now() + longest, idle).await;
    }
}
