//! The holder's proof.
use std::time::{Duration, Instant};
use crate::error::LockError;
/// Why a hold ended without a release.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum LostReason { /// The server no longer had it when it was renewed.
    Missing, /// It could not be renewed before its end.
    NotRenewed, /// A fixed lease ran out.
    Expired }
/// What a guard reports.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum GuardEvent { /// The watchdog renewed it.
    Extended { /// The lease from `sent_at` on.
        lease: Duration, /// When the renewal was sent.
        sent_at: Instant }, /// It is gone.
    Lost { /// Why.
        reason: LostReason, /// When the client decided so.
        at: Instant } }
/// The events of one guard; ends after `Lost` or the release.
#[derive(Debug)]
pub struct GuardEvents { }
impl GuardEvents { /// The next event; `None` after the end.
    pub async fn next(&mut self) -> Option<GuardEvent> { todo!() } }
/// What a release came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Released { /// The lock is free.
    Freed, /// The same owner holds it still, so many times.
    StillHeld }
/// A hold. Dropping it releases in the background; `release` lets the result be read.
#[derive(Debug)]
pub struct Guard { }
impl Guard {
    /// The fencing token, where the kind has one.
    pub fn token(&self) -> Option<u64> { todo!() }
    /// When the attempt that succeeded was sent.
    pub fn sent_at(&self) -> Instant { todo!() }
    /// Until when it is surely held: the last acknowledged sending plus the lease, less drift.
    pub fn valid_until(&self) -> Instant { todo!() }
    /// Whether it is known to be lost.
    pub fn is_lost(&self) -> bool { todo!() }
    /// Completes when the hold is lost; never after a release.
    pub async fn lost(&self) -> LostReason { todo!() }
    /// Its events from now on.
    pub fn events(&self) -> GuardEvents { todo!() }
    /// Lengthens the hold to `lease` from now; never revives a lapsed one.
    pub async fn extend(&self, _lease: Duration) -> Result<(), LockError> { todo!() }
    /// Gives it back.
    pub async fn release(self) -> Result<Released, LockError> { todo!() }
}
