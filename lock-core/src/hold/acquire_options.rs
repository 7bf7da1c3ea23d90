//! How a lock is asked for: for whom, how long to wait, and for how long.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::client::options::setters;
use crate::clock::Instant;
use crate::durability::Durability;

/// Who holds. The same owner may hold a re-entrant lock several times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Owner {
    number: u64,
    is_fresh: bool,
}

/// Fresh owners count from here, so that they never meet a caller's own numbers.
const FIRST_FRESH: u64 = 1 << 63;

impl Owner {
    /// A fresh owner, never used before in this process.
    pub fn fresh() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(FIRST_FRESH);
        Owner { number: NEXT.fetch_add(1, Ordering::Relaxed), is_fresh: true }
    }

    /// An owner that the caller numbers (`<client id>:<number>` on the wire), 0 to 2^63 − 1. Numbers above
    /// are those of fresh owners: they are refused as `Invalid`, and nothing is sent.
    pub fn numbered(n: u64) -> Self {
        Owner { number: n, is_fresh: false }
    }

    /// The owner of a hold, by the number that stands on the server.
    pub(crate) fn of_hold(number: u64) -> Self {
        Owner { number, is_fresh: number >= FIRST_FRESH }
    }

    pub(crate) fn number(self) -> u64 {
        self.number
    }

    /// Why nothing can be asked for with it, if so.
    pub(crate) fn mistake(self) -> Option<String> {
        (!self.is_fresh && self.number >= FIRST_FRESH).then(|| {
            let (number, most) = (self.number, FIRST_FRESH - 1);
            format!("owner {number} is no number of a caller's: 0 to {most} is allowed")
        })
    }
}

/// How long an acquired lock lasts without a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Lease {
    /// Renewed by the client until released.
    #[default]
    Renewed,
    /// Exactly this long, 3 ms to a hundred years. A grant that comes after its lease, less drift, is none.
    Fixed(Duration),
}

/// How long to wait for a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Wait {
    /// One try, bounded by the response timeout, and where replicas are asked the durability timeout.
    Try,
    /// At most this long, whatever the network does. Zero is one try.
    AtMost(Duration),
    /// Without bound: also while no server answers. What ends it all the same:
    ///
    /// | what happens | it ends with |
    /// |---|---|
    /// | the lock is given | the guard |
    /// | servers are silent, cannot be reached, fail over, or refuse for a while (LOADING, BUSY, READONLY, CLUSTERDOWN, TRYAGAIN …) | it goes on |
    /// | a server refuses for good: a wrong password, NOPERM, WRONGTYPE, OOM, NOREPLICAS | `Failed` |
    /// | a proxy answers by itself, with what no server says | `Unknown` |
    /// | a script breaks off, and what it did cannot be undone | `Unknown` |
    /// | too few replicas acknowledge the grant | `NotDurable` |
    /// | its [owner](Acquire::owner) holds it already, in a kind that is not re-entrant | `Failed` |
    /// | its client is closed, or the runtime of that has ended | `Failed`; `Unknown` while an answer is outstanding |
    /// | the future is dropped | nothing: what may have been taken is given back |
    #[default]
    Forever,
}

impl Wait {
    /// Whether it is one try, and when the wait ends, if it does by itself.
    pub(crate) fn bounds(self) -> (bool, Option<Instant>) {
        match self {
            Wait::AtMost(wait) if !wait.is_zero() => (false, Instant::now().checked_add(wait)),
            Wait::Forever => (false, None),
            _ => (true, None),
        }
    }
}

/// How a lock is asked for. Default: wait for ever, renewed lease, a fresh owner, the client's durability.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
#[must_use = "it does nothing until something is acquired with it"]
pub struct Acquire {
    /// How long to wait.
    pub wait: Wait,
    /// How long it lasts without a release.
    pub lease: Lease,
    /// Who holds; `None` is a fresh owner, which nobody else can be and which costs the server least. An
    /// equal owner that holds the lock already gets it again, at once, and has to release as often. Each of
    /// its holds has its own lease: one that runs out is over, whether it was released or not, and the lock
    /// lasts as long as the longest of the others. The [count of holds](crate::Lock::holds_of) follows when
    /// the owner takes, extends or releases the next one.
    pub owner: Option<Owner>,
    /// How many replicas must have it; `None` is the client's setting.
    pub durability: Option<Durability>,
    /// How long the counter of a [fenced](crate::Kind::Fenced) or [queued](crate::Kind::Queued) lock outlives
    /// its last use; other kinds have none. `None` is for ever, as of RFencedLock: a key for each name.
    pub token_life: Option<Duration>,
    /// For how long it may be held at most, whatever is renewed or extended; `None` is without bound.
    pub max_hold: Option<Duration>,
}

impl Acquire {
    setters! {
        wait: Wait;
        lease: Lease;
        owner: Owner => Some;
        ///
        /// Lets the counter of a fenced or queued lock end when not used for so long, or its lease if longer.
        ///
        /// A new counter begins at the server's clock in microseconds, above every token issued before,
        /// unless that clock was set back by more than this life. All clients of a name must ask for it: a
        /// counter without an end, such as a Java peer makes, is refused with a definite error; a peer that
        /// comes later finds the counter and counts on, but would begin at 1 after its end. A queued lock
        /// begins at the clock in any case: a counter that it finds without an end keeps none.
        token_life: Duration => Some;
        durability: Durability => Some;
        ///
        /// A longest time of holding, for the task that is stuck: so long after the attempt that succeeded
        /// was sent, the hold is [lost](crate::LostReason::MaxHold) and not renewed any more. The lock is
        /// free when its guard is dropped, and within a lease at the latest.
        ///
        /// ```
        /// # #[path = "../../tests/support/example.rs"] mod example; example::run(async |server, client| {
        /// # use std::time::Duration;
        /// use lock_core::{Acquire, Kind, LostReason};
        ///
        /// let how = Acquire::default().max_hold(Duration::from_millis(100));
        /// let guard = client.lock(Kind::Reentrant, "orders")?.acquire_with(how).await?;
        /// assert_eq!(guard.lost().await, LostReason::MaxHold);
        /// client.close().await;
        /// # Ok(()) });
        /// ```
        max_hold: Duration => Some;
    }
}
