//! The way of a client's writes to the protected resource: they arrive at once, or late, as a held-up packet.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::load::LoadState;

/// The way from a client to the protected resource. What was sent arrives, also when its sender dies.
#[derive(Default)]
pub(super) struct WritePath {
    latency_ns: AtomicU64,
    late: Arc<AtomicU64>,
    under_way: Mutex<JoinSet<()>>,
}

impl WritePath {
    pub(super) fn set_latency(&self, latency: Duration) {
        self.latency_ns.store(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX), Ordering::Release);
    }

    pub(super) fn late(&self) -> u64 {
        self.late.load(Ordering::Acquire)
    }

    /// Calls `arrive` when the write is there; when the load ends, what is still under way arrives.
    pub(super) fn send(&self, shared: &Arc<LoadState>, arrive: impl FnOnce() + Send + 'static) {
        let latency = Duration::from_nanos(self.latency_ns.load(Ordering::Acquire));
        if latency.is_zero() {
            return arrive();
        }
        let there = Instant::now() + latency;
        let (shared, late) = (Arc::clone(shared), Arc::clone(&self.late));
        let mut under_way = self.locked();
        while under_way.try_join_next().is_some() {}
        under_way.spawn(async move {
            shared.sleep_until(there).await;
            arrive();
            late.fetch_add(1, Ordering::AcqRel);
        });
    }

    /// Waits for all that is under way; the load has ended.
    pub(super) async fn all_arrived(&self) {
        let under_way = std::mem::take(&mut *self.locked());
        under_way.join_all().await;
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, JoinSet<()>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
