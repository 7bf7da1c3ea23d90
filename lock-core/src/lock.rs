//! A lock by name: how it is asked for.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::acquire;
use crate::client::ClientCore;
use crate::clock::Instant;
use crate::durability::Durability;
use crate::error::LockError;
use crate::guard::Guard;
use crate::idempotent_requests::Subject;
use crate::kind::{CurrentHolder, Form, Kind};
use crate::names::Names;
use crate::options::setters;
use crate::servers::Servers;
use crate::short_forms::short_forms;
use crate::telemetry::LockLabels;
use crate::topology::NodeError;

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
        Owner {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            is_fresh: true,
        }
    }

    /// An owner that the caller numbers (`<client id>:<number>` on the wire), 0 to 2^63 − 1. The numbers above are those of fresh
    /// owners, whose locks it would enter: whatever is asked for with one is refused as `Invalid`, and nothing is sent.
    pub fn numbered(n: u64) -> Self {
        Owner {
            number: n,
            is_fresh: false,
        }
    }

    /// The owner of a hold, by the number that stands on the server.
    pub(crate) fn of_hold(number: u64) -> Self {
        Owner {
            number,
            is_fresh: number >= FIRST_FRESH,
        }
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Lease {
    /// Renewed by the client until released.
    Renewed,
    /// Exactly this long, from 3 ms to a hundred years. A grant that takes longer to come than its lease, less drift, is none.
    Fixed(Duration),
}

/// How long to wait for a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Wait {
    /// One try, bounded by the response timeout, and by the durability timeout besides where replicas are asked.
    Try,
    /// At most this long, whatever the network does. Zero is one try.
    AtMost(Duration),
    /// Without bound: also while no server answers.
    Forever,
}

/// How a lock is asked for. Default: wait for ever, renewed lease, a fresh owner, the client's durability.
#[derive(Debug, Clone)]
#[non_exhaustive]
#[must_use = "it does nothing until something is acquired with it"]
pub struct Acquire {
    /// How long to wait.
    pub wait: Wait,
    /// How long it lasts without a release.
    pub lease: Lease,
    /// Who holds; `None` is a fresh owner, which nobody else can be and which costs the server least.
    /// An equal owner that holds the lock already gets it again, at once, and has to release as often. Each of its holds has its own
    /// lease: one that runs out is over, whether it was released or not, and the lock lasts as long as the longest of the others. The
    /// [count of holds](Lock::holds_of) follows when the owner takes, extends or releases the next one.
    pub owner: Option<Owner>,
    /// How many replicas must have it; `None` is the client's setting.
    pub durability: Option<Durability>,
    /// How long the counter of a [fenced](Kind::Fenced) or [queued](Kind::Queued) lock outlives its last use; other kinds have
    /// none. `None` is for ever, as RFencedLock has it: a key for every name that was ever locked.
    pub token_life: Option<Duration>,
    /// For how long it may be held at most, whatever is renewed or extended; `None` is without bound.
    pub max_hold: Option<Duration>,
}

impl Default for Acquire {
    fn default() -> Self {
        Acquire {
            wait: Wait::Forever,
            lease: Lease::Renewed,
            owner: None,
            durability: None,
            token_life: None,
            max_hold: None,
        }
    }
}

impl Acquire {
    setters! {
        wait: Wait;
        lease: Lease;
        owner: Owner => Some;
        ///
        /// Lets the counter of a fenced or queued lock end when it was not used for so long (or for its lease, if that is longer).
        ///
        /// A new counter begins at the server's clock in microseconds, above every token issued before, unless that clock
        /// was set back by more than this life. All clients of a name must ask for it: a counter without an end, such as a
        /// Java peer makes, is refused with a definite error; a peer that comes later finds the counter
        /// and counts on, but would begin at 1 after its end. A queued lock begins at the clock in any case and refuses nobody: a
        /// counter that it finds without an end keeps none.
        token_life: Duration => Some;
        durability: Durability => Some;
        ///
        /// A longest time of holding, for the task that is stuck: so long after the attempt that succeeded was sent, the hold is
        /// [lost](crate::LostReason::MaxHold) and not renewed any more. The lock is free when its guard is dropped, and within a lease at the latest.
        max_hold: Duration => Some;
    }
}

/// Who holds a lock, as the server says.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// As written on the server: `<client id>:<number>`, of a Java peer `<client id>:<thread>`.
    pub owner: String,
    /// How many times; more than once only where a kind is re-entrant.
    pub holds: u64,
    /// Its fencing token, where the kind tells it to others: [`Kind::Queued`] does.
    pub token: Option<u64>,
    /// What is left of its lease if it is not renewed, rounded down to milliseconds; `None` for a key without an end.
    pub remaining: Option<Duration>,
}

impl From<CurrentHolder> for Holder {
    fn from(held: CurrentHolder) -> Self {
        Holder {
            owner: held.owner,
            holds: held.count,
            token: held.token,
            remaining: held.left,
        }
    }
}

/// A lock by name. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Lock {
    pub(crate) inner: Arc<LockInner>,
    pub(crate) kind: Kind,
}

/// What all holds of a lock share; permits are held alike.
pub(crate) struct LockInner {
    pub(crate) client: Arc<ClientCore>,
    pub(crate) names: Names,
    /// The kind's name.
    pub(crate) word: &'static str,
    pub(crate) form: &'static dyn Form,
    pub(crate) servers: Servers,
}

/// Every hold has it, so that it says no more than which lock it is.
impl fmt::Debug for LockInner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?} of {:?}", self.word, self.names.key, self.client)
    }
}

impl LockInner {
    pub(crate) fn labels(&self) -> LockLabels<'_> {
        LockLabels {
            kind: self.word,
            name: &self.names.key,
            servers: self.client.set(),
        }
    }

    /// For questions to one server set.
    pub(crate) fn subject(&self) -> Subject<'_> {
        Subject {
            client: &self.client,
            names: &self.names,
        }
    }

    pub(crate) fn publish(&self) -> &'static str {
        self.client.publish_command()
    }
}

impl Lock {
    /// Its name, which is the Redis key itself.
    pub fn name(&self) -> &str {
        &self.inner.names.key
    }

    /// Its kind.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    short_forms!(Guard);

    /// Acquires as `how` says; `ErrorKind::Busy` when the wait ran out while another held it.
    ///
    /// A lost answer is asked for again on the spot, as long as the wait lasts; the repetition is recognised by the
    /// server. If the wait ends before it is known, the error is `ErrorKind::Unknown` and whatever may have been
    /// taken is given back in the background. The same happens when the future is dropped.
    pub async fn acquire_with(&self, how: Acquire) -> Result<Guard, LockError> {
        acquire::acquire(&self.inner, &how).await
    }

    /// Whether anybody holds it, by the word of its master; of a redlock, by the word of a majority. A read lock is held by
    /// who reads, a write lock by who writes. Errors: `Failed`, also where no answer came, as of everything that only looks.
    pub async fn is_locked(&self) -> Result<bool, LockError> {
        let deadline = Instant::now() + self.inner.client.options.response_timeout;
        let asked = self.inner.servers.is_locked(&self.inner, deadline).await;
        asked.map_err(|error| self.unseen(error))
    }

    /// Who holds it now, by the word of its master; of a redlock, whom a majority names; of several readers the one with the
    /// longest lease. One command for each server, and only a look: it may be over when it is read.
    pub async fn holder(&self) -> Result<Option<Holder>, LockError> {
        let deadline = Instant::now() + self.inner.client.options.response_timeout;
        let asked = self.inner.servers.holder(&self.inner, deadline).await;
        let held = asked.map_err(|error| self.unseen(error))?;
        Ok(held.map(Holder::from))
    }

    /// All who hold it now: several where readers share it. As [`holder`](Lock::holder) in all else.
    pub async fn holders(&self) -> Result<Vec<Holder>, LockError> {
        let deadline = Instant::now() + self.inner.client.options.response_timeout;
        let asked = self.inner.servers.holders(&self.inner, deadline).await;
        let held = asked.map_err(|error| self.unseen(error))?;
        Ok(held.into_iter().map(Holder::from).collect())
    }

    /// How many times this client's `owner` holds it, by the word of the servers; 0 if another does or nobody.
    ///
    /// Errors: `Invalid` for a number that is no caller's, else as [`holder`](Lock::holder).
    pub async fn holds_of(&self, owner: Owner) -> Result<u64, LockError> {
        if let Some(why) = owner.mistake() {
            return Err(LockError::invalid("look at", self.name(), why));
        }
        let text = self.inner.client.owner_text(owner);
        let holders = self.holders().await?;
        let ours = holders.iter().find(|holder| holder.owner == text);
        Ok(ours.map_or(0, |holder| holder.holds))
    }

    /// Takes it away from its holder; true if somebody did. The holder learns at its next renewal, extension or release; also
    /// where its owner has taken the lock anew meanwhile, which the old guard does not touch.
    pub async fn force_release(&self) -> Result<bool, LockError> {
        let deadline = Instant::now() + self.inner.client.options.response_timeout;
        let asked = self.inner.servers.force_release(&self.inner, deadline);
        asked
            .await
            .map_err(|error| LockError::asked("take away", self.name(), error))
    }

    fn unseen(&self, error: NodeError) -> LockError {
        LockError::looked("look at", self.name(), error)
    }
}
