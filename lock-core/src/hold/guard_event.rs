//! What becomes of a hold: what its guard reports, why it was lost, what its release came to.

use std::fmt;
use std::time::{Duration, Instant};

/// Why a hold ended without a release.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum LostReason {
    /// The server no longer had it when it was renewed.
    Missing,
    /// It could not be renewed before its end.
    NotRenewed,
    /// A fixed lease ran out.
    Expired,
    /// It was held for as long as [`Acquire::max_hold`](crate::Acquire::max_hold) allows.
    MaxHold,
    /// Its client was closed by [`close_and_release`](crate::Client::close_and_release), which gave it back.
    Closed,
    /// Its client's runtime has ended, and with it the renewals. The server may have it until the lease ends.
    RuntimeEnded,
}

impl fmt::Display for LostReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LostReason::Missing => "the server no longer had it",
            LostReason::NotRenewed => "it could not be renewed before its end",
            LostReason::Expired => "its lease ran out",
            LostReason::MaxHold => "it was held for the longest time that was asked for",
            LostReason::Closed => "its client was closed and gave it back",
            LostReason::RuntimeEnded => "the runtime that renewed it has ended",
        })
    }
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
