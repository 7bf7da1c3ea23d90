//! The guard of several locks: lost with the first of them, given back with all of them.

use std::{
    fmt,
    time::{Duration, Instant},
};

use futures_util::{
    StreamExt,
    future::{join_all, pending},
    stream::FuturesUnordered,
};

use crate::{
    clock,
    error::{ErrorKind, LockError},
    guard::{Guard, LostReason, Released},
};

/// A hold of several locks. Dropping it releases all in the background.
#[derive(Debug)]
#[must_use = "dropping it gives all locks back at once"]
pub struct MultiGuard {
    members: Vec<Guard>,
    sent_at: clock::Instant,
}

/// A member that was lost, and with it the whole.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LostMember {
    /// The lock's name.
    pub name: String,
    /// Why.
    pub reason: LostReason,
}

impl fmt::Display for LostMember {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.reason)
    }
}

impl MultiGuard {
    pub(crate) fn new(members: Vec<Guard>, sent_at: clock::Instant) -> Self {
        MultiGuard { members, sent_at }
    }

    /// From when on every fixed lease counts: before the attempt was sent that got the last member, or that set all leases anew.
    pub fn sent_at(&self) -> Instant {
        self.sent_at.std()
    }

    /// The guards of the members, in the lock's order: their tokens, owners, events.
    pub fn members(&self) -> &[Guard] {
        &self.members
    }

    /// Until when all are surely held: the earliest of the members'.
    pub fn valid_until(&self) -> Instant {
        let ends = self.members.iter().map(Guard::valid_until);
        ends.min().expect("a multi-lock has members")
    }

    /// Whether a member is known to be lost.
    pub fn is_lost(&self) -> bool {
        self.members.iter().any(Guard::is_lost)
    }

    /// Completes when the first member is lost, at [`valid_until`](MultiGuard::valid_until) at the latest. The others are held
    /// and renewed until the guard is released or dropped. Cancel-safe.
    pub async fn lost(&self) -> LostMember {
        let mut any: FuturesUnordered<_> = self
            .members
            .iter()
            .map(|guard| async move {
                LostMember {
                    reason: guard.lost().await,
                    name: guard.name().to_owned(),
                }
            })
            .collect();
        match any.next().await {
            Some(lost) => lost,
            None => pending().await,
        }
    }

    /// Extends every member to `lease` from now, side by side; as [`Guard::extend`] for each. The worst error of all is
    /// answered, and the members that were extended stay so.
    pub async fn extend(&self, lease: Duration) -> Result<(), LockError> {
        let extended = join_all(self.members.iter().map(|guard| guard.extend(lease))).await;
        let errors = extended.into_iter().filter_map(Result::err);
        let worst = errors.max_by_key(|error| error.weight(ErrorKind::NotHeld));
        worst.map_or(Ok(()), Err)
    }

    /// Gives every member back, side by side and whatever becomes of the others. One result for all: the worst error, `Unknown` before
    /// others and `NotHeld` last; else `StillHeld` if the owner holds one still. [`release_each`](MultiGuard::release_each) tells them
    /// apart.
    pub async fn release(self) -> Result<Released, LockError> {
        self.release_each().await.whole()
    }

    /// As [`release`](MultiGuard::release), with the result of each member; as [`Guard::release`] for each.
    pub async fn release_each(self) -> MultiReleased {
        let names: Vec<_> = (self.members.iter())
            .map(|guard| guard.name().to_owned())
            .collect();
        let released = join_all(self.members.into_iter().map(Guard::release)).await;
        MultiReleased {
            members: names.into_iter().zip(released).collect(),
        }
    }
}

/// What the release of several locks came to, member by member.
#[derive(Debug)]
#[must_use = "a member may not have been given back"]
pub struct MultiReleased {
    members: Vec<(String, Result<Released, LockError>)>,
}

impl MultiReleased {
    /// Each member's name and result, in the lock's order.
    pub fn members(&self) -> impl Iterator<Item = (&str, &Result<Released, LockError>)> {
        (self.members.iter()).map(|(name, result)| (name.as_str(), result))
    }

    /// One result for all, as [`MultiGuard::release`] gives it.
    pub fn whole(self) -> Result<Released, LockError> {
        let (mut all, mut worst) = (Released::Freed, None);
        for (_, result) in self.members {
            match result {
                Ok(Released::Freed) => {}
                Ok(kept) => all = kept,
                Err(error) => worst = Some(LockError::worse(worst, error, ErrorKind::NotHeld)),
            }
        }
        worst.map_or(Ok(all), Err)
    }
}
