//! Turns what the library grants, one lock or several together, into one hold.

use std::time::{Duration, Instant};

use lock_core::{Guard, LockError, MultiGuard};

/// What was granted.
pub(super) enum Held {
    /// One lock.
    One(Guard),
    /// Several locks as one.
    Several(MultiGuard),
}

impl Held {
    /// The fencing token: several locks have none in common.
    pub(super) fn token(&self) -> Option<u64> {
        match self {
            Held::One(guard) => guard.token(),
            Held::Several(_) => None,
        }
    }

    /// From when its lease counts.
    pub(super) fn sent_at(&self) -> Instant {
        match self {
            Held::One(guard) => guard.sent_at(),
            Held::Several(guard) => guard.sent_at(),
        }
    }

    /// For how long it was granted, if that is less than the `asked` lease.
    pub(super) fn less_than(&self, asked: Duration) -> Option<Duration> {
        match self {
            Held::One(guard) => Some(guard.granted_lease()).filter(|granted| *granted < asked),
            Held::Several(_) => None,
        }
    }

    pub(super) fn is_lost(&self) -> bool {
        match self {
            Held::One(guard) => guard.is_lost(),
            Held::Several(guard) => guard.is_lost(),
        }
    }

    pub(super) async fn extend(&self, lease: Duration) -> Result<(), LockError> {
        match self {
            Held::One(guard) => guard.extend(lease).await,
            Held::Several(guard) => guard.extend(lease).await,
        }
    }

    pub(super) async fn release(self) -> Result<(), LockError> {
        match self {
            Held::One(guard) => guard.release().await.map(|_| ()),
            Held::Several(guard) => guard.release().await.whole().map(|_| ()),
        }
    }
}
