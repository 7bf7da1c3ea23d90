//! The kinds of lock: one registry, one file per format on the wire.
//!
//! | file | what it is for |
//! |---|---|
//! | `format.rs` | the trait of a kind: its requests, and how it reads replies |
//! | `hash.rs` | RLock, whose requests the other kinds begin from |
//! | `plain.rs`, `fenced.rs`, `all_of.rs` | the Redis documentation's; with fencing tokens; several at once |
//! | `rw.rs` | readers and writers |
//! | `semaphore.rs`, `permits.rs` | permits without a lease, and with one |
//! | `fair.rs`, `queued.rs` | a queue at the server |
//! | `latch.rs` | a count-down latch, which nobody holds |

pub(crate) mod all_of;
mod fair;
mod fenced;
mod format;
mod hash;
pub(crate) mod latch;
pub(crate) mod permits;
mod plain;
mod queued;
mod rw;
pub(crate) mod semaphore;

use std::{fmt, str::FromStr};

pub use format::Holder;
pub(crate) use format::{
    ChannelSpec, Heartbeat, LineMessage, LockFormat, LockRequest, MissingWaiters, QueuePlace,
    RecordedRequest, ReleaseAnswer, Reply, ServerLine, Successor, Waiting, yes,
};

/// A kind of lock. [`Kind::ALL`] is the registry. Names of kinds stay what they are over all versions.
///
/// ```
/// # use std::time::Duration;
/// # #[path = "../../tests/support/example.rs"] mod example; example::run(async |server, client| {
/// use lock_core::{Acquire, Client, ClientOptions, Kind, Owner};
///
/// // Mutual exclusion: plain, re-entrant, non-re-entrant and spin differ in what the server is asked.
/// for kind in [Kind::Plain, Kind::Reentrant, Kind::NonReentrant, Kind::Spin] {
///     let lock = client.lock(kind, kind.name())?;
///     let guard = lock.acquire().await?;
///     assert!(lock.try_acquire().await?.is_none(), "every acquire is an owner of its own");
///     guard.release().await?;
/// }
///
/// // Only an owner that the caller names enters again, and only where the kind lets it.
/// let me = || Acquire::default().owner(Owner::numbered(7));
/// let reentrant = client.lock(Kind::Reentrant, "again")?;
/// let outer = reentrant.acquire_with(me()).await?;
/// let inner = reentrant.acquire_with(me()).await?;
/// inner.release().await?;
/// outer.release().await?;
/// let once = client.lock(Kind::NonReentrant, "once")?;
/// let only = once.acquire_with(me()).await?;
/// assert!(once.acquire_with(me()).await.is_err());
/// only.release().await?;
///
/// // Tokens that rise, for a resource that refuses older ones; see `FencedLock`.
/// let fenced = client.fenced("fenced")?.acquire().await?;
/// println!("token {}", fenced.token());
/// fenced.release().await?;
///
/// // In the order of arrival, across clients.
/// for kind in [Kind::Fair, Kind::Queued] {
///     let lock = client.lock(kind, kind.name())?;
///     let first = lock.acquire().await?;
///     let (released, second) = tokio::join!(first.release(), lock.acquire());
///     released?;
///     second?.release().await?;
/// }
///
/// // Many readers or one writer.
/// let prices = client.read_write("prices")?;
/// let (one, other) = tokio::try_join!(prices.read().acquire(), prices.read().acquire())?;
/// assert!(prices.write().try_acquire().await?.is_none());
/// one.release().await?;
/// other.release().await?;
/// prices.write().acquire().await?.release().await?;
///
/// // A majority of independent masters.
/// # let masters = [(); 3].map(|()| example::Server::start(&[]));
/// # let places: Vec<_> = masters.iter().map(|master| master.address().to_string()).collect();
/// let url = format!("redlock://{}", places.join(",")); // redlock://10.0.0.1,10.0.0.2,10.0.0.3
/// let majority = Client::connect(&url.parse()?, ClientOptions::default()).await?;
/// let guard = majority.lock(Kind::Redlock, "job")?.acquire_timeout(Duration::from_secs(5)).await?;
/// guard.release().await?;
/// client.close().await;
/// # Ok(()) });
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// The lock of the Redis documentation: one string, `SET NX PX`. Not re-entrant.
    Plain,
    /// Re-entrant mutex in the wire format of RLock.
    Reentrant,
    /// As re-entrant, but an owner that has it already is refused at once.
    NonReentrant,
    /// As re-entrant, without messages: waiters ask again after 1 to 128 ms.
    Spin,
    /// As re-entrant, with a fencing token that rises from hold to hold: 1, 2, 3, from one counter with Java
    /// clients and without an end, or from the server's clock on with a life
    /// ([`Acquire::token_life`](crate::Acquire::token_life)).
    Fenced,
    /// In the order of arrival, across clients, in the wire format of RFairLock; re-entrant. A release calls
    /// the first in the line; who does not take it within a second while others wait is passed over.
    Fair,
    /// Strictly in the order of arrival, across clients: a release gives the lock to the next one in the line
    /// and tells that one alone; within a client the release itself is the hand-off. A client says for how
    /// long its waiters have waited, so between clients the order is as exact as a request is fast. Fenced,
    /// with the counter of [`Kind::Fenced`], but that a new one begins at the server's clock, with a life or
    /// without; not re-entrant. Who is called from another client has it for two seconds at first and claims
    /// the rest of the lease by itself. A task that gets it from one of its own client has it for the whole
    /// lease at once, since a runtime that works without a pause must not lose it: if that task is never
    /// polled again, the line stands still for so long. Our own format: a client of another library on that
    /// name excludes it and is excluded, but stands in no line.
    Queued,
    /// The shared side of a read-write lock, in the wire format of RReadWriteLock; re-entrant. Many may read
    /// at a time, while nobody else writes. See [`ReadWrite`](crate::ReadWrite).
    Read,
    /// The exclusive side of a read-write lock; re-entrant. Who writes may read too, and then give the write
    /// hold back: a downgrade. Who only reads is refused: two such readers would wait for each other.
    Write,
    /// Quorum lock over independent masters; each master's part is in the wire format of RLock.
    Redlock,
}

impl Kind {
    /// Every kind, in the order of the docs.
    pub const ALL: &'static [Kind] = {
        use Kind::*;
        &[Plain, Reentrant, NonReentrant, Spin, Fenced, Fair, Queued, Read, Write, Redlock]
    };

    /// Its name, and what it is.
    fn row(self) -> (&'static str, &'static str) {
        use Kind::*;
        match self {
            Plain => ("plain", "one string, SET NX PX in and compare-and-delete out; not re-entrant"),
            Reentrant => ("reentrant", "re-entrant mutex, wire-compatible with Redisson's RLock"),
            NonReentrant => ("non-reentrant", "as reentrant, but an owner that has it already is refused"),
            Spin => ("spin", "as reentrant, but waiters poll and releases publish nothing"),
            Fenced => ("fenced", "as reentrant, with a rising token, wire-compatible with RFencedLock"),
            Fair => ("fair", "first come, first served, re-entrant, wire-compatible with RFairLock"),
            Queued => (
                "queued",
                "first come, first served: a release calls the next waiter by itself; fenced, our own format",
            ),
            Read => ("read", "shared side of a read-write lock, wire-compatible with RReadWriteLock"),
            Write => (
                "write",
                "exclusive side of a read-write lock; its holder may also read, and so become a reader",
            ),
            Redlock => ("redlock", "majority of independent masters, each member an RLock"),
        }
    }

    /// Its name, as in files and flags.
    pub fn name(self) -> &'static str {
        self.row().0
    }

    /// What it is, in half a sentence.
    pub fn about(self) -> &'static str {
        self.row().1
    }

    /// Whether several owners may hold it at a time.
    pub fn is_shared(self) -> bool {
        self == Kind::Read
    }

    /// Whether a majority of independent masters decides; the other kinds live in one set.
    pub(crate) fn is_voted(self) -> bool {
        self == Kind::Redlock
    }

    pub(crate) fn format(self) -> &'static dyn LockFormat {
        match self {
            Kind::Plain => &plain::Plain,
            Kind::Reentrant | Kind::Redlock => &hash::REENTRANT,
            Kind::NonReentrant => &hash::NON_REENTRANT,
            Kind::Spin => &hash::SPIN,
            Kind::Fenced => &fenced::Fenced,
            Kind::Fair => &fair::Fair,
            Kind::Queued => &queued::Queued,
            Kind::Read => &rw::AccessMode::Read,
            Kind::Write => &rw::AccessMode::Write,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that is no kind of lock here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no kind of lock is called {name:?}; there are {}", names())]
pub struct UnknownKind {
    name: String,
}

fn names() -> String {
    let names: Vec<_> = Kind::ALL.iter().map(|kind| kind.name()).collect();
    names.join(", ")
}

impl FromStr for Kind {
    type Err = UnknownKind;

    fn from_str(name: &str) -> Result<Self, UnknownKind> {
        let kind = Kind::ALL.iter().find(|kind| kind.name() == name).copied();
        kind.ok_or_else(|| UnknownKind { name: name.to_owned() })
    }
}
