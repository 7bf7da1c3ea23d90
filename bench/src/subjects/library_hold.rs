//! What the library grants, one lock, several together, a permit or a term of leading, as one hold.

use std::time::{Duration, Instant};

use lock_core::{Guard, Leadership, LockError, MultiGuard, SemaphoreGuard};

use crate::subject::ReleaseEnd;

pub(super) enum LibraryHold {
    One(Guard),
    Leading(Leadership),
    Several(MultiGuard),
    Counted(SemaphoreGuard),
}

impl LibraryHold {
    /// Of a single lock.
    pub(super) fn guard(&self) -> Option<&Guard> {
        match self {
            LibraryHold::One(guard) => Some(guard),
            LibraryHold::Leading(leadership) => Some(leadership),
            LibraryHold::Several(_) | LibraryHold::Counted(_) => None,
        }
    }

    /// The fencing token: several locks have none in common.
    pub(super) fn token(&self) -> Option<u64> {
        match self {
            LibraryHold::Leading(leadership) => Some(leadership.term()),
            other => other.guard()?.token(),
        }
    }

    pub(super) fn sent_at(&self) -> Option<Instant> {
        match self {
            LibraryHold::Several(guard) => Some(guard.sent_at()),
            other => other.guard().map(Guard::sent_at),
        }
    }

    /// For how long it was granted, if that is less than the `asked` lease.
    pub(super) fn less_than(&self, asked: Duration) -> Option<Duration> {
        self.guard().map(Guard::granted_lease).filter(|granted| *granted < asked)
    }

    pub(super) fn is_lost(&self) -> bool {
        match self {
            LibraryHold::Several(guard) => guard.is_lost(),
            other => other.guard().is_some_and(Guard::is_lost),
        }
    }

    pub(super) async fn extend(&self, lease: Duration) -> ReleaseEnd {
        let extended = match self {
            LibraryHold::One(guard) => guard.extend(lease).await,
            LibraryHold::Leading(leadership) => leadership.extend(lease).await,
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
            LibraryHold::Leading(leadership) => leadership.resign().await.map(|_| ()),
            LibraryHold::Several(guard) => guard.release().await.map(|_| ()),
            LibraryHold::Counted(guard) => guard.release().await,
        }
    }
}
