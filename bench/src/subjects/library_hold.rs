//! What the library grants, one lock, several together or a permit, as one hold.

use std::time::{Duration, Instant};

use lock_core::{Guard, LockError, MultiGuard, SemaphoreGuard};

use crate::subject::ReleaseEnd;

pub(super) enum LibraryHold {
    One(Guard),
    Several(MultiGuard),
    Counted(SemaphoreGuard),
}

impl LibraryHold {
    /// The fencing token: several locks have none in common.
    pub(super) fn token(&self) -> Option<u64> {
        match self {
            LibraryHold::One(guard) => guard.token(),
            LibraryHold::Several(_) | LibraryHold::Counted(_) => None,
        }
    }

    pub(super) fn sent_at(&self) -> Option<Instant> {
        match self {
            LibraryHold::One(guard) => Some(guard.sent_at()),
            LibraryHold::Several(guard) => Some(guard.sent_at()),
            LibraryHold::Counted(_) => None,
        }
    }

    /// For how long it was granted, if that is less than the `asked` lease.
    pub(super) fn less_than(&self, asked: Duration) -> Option<Duration> {
        match self {
            LibraryHold::One(guard) => Some(guard.granted_lease()).filter(|granted| *granted < asked),
            LibraryHold::Several(_) | LibraryHold::Counted(_) => None,
        }
    }

    pub(super) fn is_lost(&self) -> bool {
        match self {
            LibraryHold::One(guard) => guard.is_lost(),
            LibraryHold::Several(guard) => guard.is_lost(),
            LibraryHold::Counted(_) => false,
        }
    }

    pub(super) async fn extend(&self, lease: Duration) -> ReleaseEnd {
        let extended = match self {
            LibraryHold::One(guard) => guard.extend(lease).await,
            LibraryHold::Several(guard) => guard.extend(lease).await,
            LibraryHold::Counted(_) => {
                return ReleaseEnd::Failed("a permit of a semaphore has no lease".to_owned());
            }
        };
        extended.map_or_else(|e| super::engine::release_end(&e), |()| ReleaseEnd::Ok)
    }

    pub(super) async fn release(self) -> Result<(), LockError> {
        match self {
            LibraryHold::One(guard) => guard.release().await.map(|_| ()),
            LibraryHold::Several(guard) => guard.release().await.map(|_| ()),
            LibraryHold::Counted(guard) => guard.release().await,
        }
    }
}
