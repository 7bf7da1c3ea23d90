//! A lock by name: how it is asked for.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use crate::{
    acquire,
    client::Shared,
    durability::Durability,
    error::{ErrorKind, LockError},
    guard::Guard,
    kind::{Form, Kind},
    names::Names,
    servers::Servers,
};

/// Who holds. The same owner may hold a re-entrant lock several times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Owner(pub(crate) u64);

/// Fresh owners count from here, so that they never meet a caller's own numbers.
const FIRST_FRESH: u64 = 1 << 63;

impl Owner {
    /// A fresh owner, never used before in this process.
    pub fn fresh() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(FIRST_FRESH);
        Owner(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// An owner that the caller numbers (`<client id>:<number>` on the wire), 0 to 2^63 − 1; the numbers
    /// above are for fresh owners.
    pub fn numbered(n: u64) -> Self {
        Owner(n)
    }
}

/// How long an acquired lock lasts without a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lease {
    /// Renewed by the client until released.
    Renewed,
    /// Exactly this long, from 1 ms on.
    Fixed(Duration),
}

/// How long to wait for a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// One try, bounded by the response timeout.
    Try,
    /// At most this long, whatever the network does. Zero is one try.
    AtMost(Duration),
    /// Without bound: also while no server answers.
    Forever,
}

/// How a lock is asked for. Default: wait for ever, renewed lease, a fresh owner, the client's durability.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Acquire {
    /// How long to wait.
    pub wait: Wait,
    /// How long it lasts without a release.
    pub lease: Lease,
    /// Who holds; `None` is a fresh owner, which nobody else can be and which costs the server least.
    /// An equal owner that holds the lock already gets it again, at once, and has to release as often.
    pub owner: Option<Owner>,
    /// How many replicas must have it; `None` is the client's setting.
    pub durability: Option<Durability>,
}

impl Default for Acquire {
    fn default() -> Self {
        Acquire {
            wait: Wait::Forever,
            lease: Lease::Renewed,
            owner: None,
            durability: None,
        }
    }
}

impl Acquire {
    /// Sets how long to wait.
    pub fn wait(mut self, wait: Wait) -> Self {
        self.wait = wait;
        self
    }

    /// Sets how long it lasts without a release.
    pub fn lease(mut self, lease: Lease) -> Self {
        self.lease = lease;
        self
    }

    /// Sets who holds.
    pub fn owner(mut self, owner: Owner) -> Self {
        self.owner = Some(owner);
        self
    }

    /// Sets how many replicas must have it.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = Some(durability);
        self
    }
}

/// A lock by name. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Lock {
    pub(crate) inner: Arc<LockInner>,
}

/// What all holds of a lock share.
#[derive(Debug)]
pub(crate) struct LockInner {
    pub(crate) client: Arc<Shared>,
    pub(crate) names: Names,
    pub(crate) kind: Kind,
    pub(crate) form: &'static dyn Form,
    pub(crate) servers: Servers,
}

impl Lock {
    /// Its name, which is the Redis key itself.
    pub fn name(&self) -> &str {
        &self.inner.names.key
    }

    /// Its kind.
    pub fn kind(&self) -> Kind {
        self.inner.kind
    }

    /// Acquires; `ErrorKind::Busy` when the wait ran out while another held it.
    ///
    /// A lost answer is asked for again on the spot, as long as the wait lasts; the repetition is recognised by the
    /// server. If the wait ends before it is known, the error is `ErrorKind::Unknown` and whatever may have been
    /// taken is given back in the background. The same happens when the future is dropped.
    pub async fn acquire(&self, how: Acquire) -> Result<Guard, LockError> {
        acquire::acquire(&self.inner, how).await
    }

    /// Whether anybody holds it, by the word of its master; of a redlock, by the word of a majority.
    pub async fn is_locked(&self) -> Result<bool, LockError> {
        let deadline = Instant::now() + self.inner.client.options.response_timeout;
        let asked = self.inner.servers.is_locked(&self.inner, deadline).await;
        asked.map_err(|error| self.failed("look at", error))
    }

    /// Takes it away from whoever holds it; true if somebody did. The holder learns at its next renewal.
    pub async fn force_release(&self) -> Result<bool, LockError> {
        let deadline = Instant::now() + self.inner.client.options.response_timeout;
        let asked = self.inner.servers.force_release(&self.inner, deadline);
        asked.await.map_err(|error| self.failed("take away", error))
    }

    fn failed(&self, action: &'static str, error: crate::topology::NodeError) -> LockError {
        let kind = if error.definite {
            ErrorKind::Failed
        } else {
            ErrorKind::Unknown
        };
        LockError::at_node(kind, action, self.name(), error)
    }
}
