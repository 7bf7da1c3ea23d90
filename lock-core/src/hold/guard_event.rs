//! What becomes of a hold: what its guard reports, why it was lost, what its release came to.

use std::time::{Duration, Instant};

/// Why a hold ended without a release.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LostReason {
    /// The server no longer had it when it was renewed.
    #[error("the server no longer had it")]
    Missing,
    /// It could not be renewed before its end.
    #[error("it could not be renewed before its end")]
    NotRenewed,
    /// A fixed lease ran out.
    #[error("its lease ran out")]
    Expired,
    /// It was held for as long as [`Acquire::max_hold`](crate::Acquire::max_hold) allows.
    #[error("it was held for the longest time that was asked for")]
    MaxHold,
    /// Its client was closed by [`close_and_release`](crate::Client::close_and_release), which gave it back.
    #[error("its client was closed and gave it back")]
    Closed,
    /// Its client's runtime has ended, and with it the renewals. The server may have it until the lease ends.
    #[error("the runtime that renewed it has ended")]
    RuntimeEnded,
}

/// What a guard reports.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum GuardEvent {
    /// The watchdog renewed it.
    Extended {
        /// The lease from `sent_at` on.
        lease: Duration,
        /// When the renewal was sent.
        sent_at: Instant,
    },
    /// It is gone.
    Lost {
        /// Why.
        reason: LostReason,
        /// When the client decided so.
        at: Instant,
    },
}

/// What a release came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Released {
    /// This owner holds it no more: the lock is free, but for other readers of a read-write lock.
    Freed,
    /// The same owner holds it still, having taken it more than once.
    StillHeld,
}
