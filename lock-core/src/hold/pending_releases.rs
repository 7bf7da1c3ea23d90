//! Releases in the background that an owner may have to wait for: an owner that the caller named may ask
//! again while the release of its dropped guard is still on its way, and must not be refused for it.
//!
//! A silent one of independent masters would keep the owner waiting for a lease: the next vote settles it.

use std::{collections::HashMap, sync::Arc};

use crate::sync::{Mutex, Notify};

/// A lock and the owner who gives it back.
pub(crate) type ReleaseKey = (String, String);

/// What a client is giving back in the background for owners that were named. A fresh owner never asks again.
#[derive(Debug, Default)]
pub(crate) struct PendingReleases {
    under_way: Mutex<HashMap<ReleaseKey, usize>>,
    ended: Notify,
}

#[derive(Debug)]
pub(crate) struct PendingRelease {
    returns: Arc<PendingReleases>,
    key: ReleaseKey,
}

impl PendingReleases {
    /// Something is about to be given back.
    pub(crate) fn begin(self: &Arc<Self>, key: ReleaseKey) -> PendingRelease {
        *self.under_way.lock().entry(key.clone()).or_default() += 1;
        PendingRelease { returns: Arc::clone(self), key }
    }

    /// Whether something is on its way back that was held for the same owner.
    pub(crate) fn has(&self, key: &ReleaseKey) -> bool {
        self.under_way.lock().contains_key(key)
    }

    /// Completes when nothing of the same owner's is on its way back.
    pub(crate) async fn ended(&self, key: &ReleaseKey) {
        loop {
            let mut ended = std::pin::pin!(self.ended.notified());
            // From here on no end is missed.
            ended.as_mut().enable();
            if !self.has(key) {
                return;
            }
            ended.await;
        }
    }
}

impl Drop for PendingRelease {
    fn drop(&mut self) {
        let mut under_way = self.returns.under_way.lock();
        if let Some(count) = under_way.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                under_way.remove(&self.key);
            }
        }
        drop(under_way);
        self.returns.ended.notify_waiters();
    }
}
