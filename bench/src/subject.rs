//! The seam between a lock and what tries it: ours, a peer's, a naive or broken one, one in any language.

use std::fmt;
use std::path::PathBuf;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use async_trait::async_trait;
pub use lock_core::Durability;
use results::secrets::redact;
use tokio::sync::mpsc;

use crate::abilities::Abilities;
use crate::driver_loop::{LoadReport, LoadRequest};
use crate::exec::Processes;

/// A lock under test.
#[async_trait]
pub trait Subject: Send + Sync {
    /// Its name, e.g. `lock-core:reentrant`.
    fn name(&self) -> &str;
    /// A sentence for `locklab list subjects`.
    fn about(&self) -> &str;
    /// Kinds it offers, its default first. Empty for a driver of somebody else's, which says so only when it
    /// is connected: an empty kind in a request then means the driver's first.
    fn kinds(&self) -> Vec<String>;
    /// The driver program of somebody else's lock, and its arguments: each client is a process of its own.
    fn program(&self) -> Option<&[String]> {
        None
    }
    /// The system that it is a lock on, as in the scheme of its URLs; `None`: Redis.
    fn system(&self) -> Option<&str> {
        None
    }
    /// What its servers do, as shipped, before they answer a grant: `fsync`, `none`; `None`: clients ask.
    fn durability(&self) -> Option<&str> {
        None
    }
    /// What is to be built before it can be connected, and how; `None` where it is there.
    fn missing(&self) -> Option<&str> {
        None
    }
    /// The subjects that its clients are in turn; empty where all are alike.
    fn parts(&self) -> &[std::sync::Arc<dyn Subject>] {
        &[]
    }
    /// Whether its clients have callers that keep their holds ([`LockClient::caller`]).
    fn has_callers(&self) -> bool {
        false
    }
    /// A client of its own identity and connections.
    async fn connect(&self, to: &ConnectTo) -> Result<Connected, SubjectError>;
}

/// Where and as whom to connect. Shown without the target's password.
#[derive(Clone, Default)]
pub struct ConnectTo {
    /// The target URL.
    pub target: String,
    /// The client's name in the history, `c1`.
    pub client: String,
    /// Seed for its jitter.
    pub seed: u64,
    /// `none`, `wait:K`, `wait:all`.
    pub durability: String,
    /// Lease of a renewed lock, where the subject lets it be chosen.
    pub watchdog: Option<Duration>,
    /// Where a driver process writes its standard error; `None`: nowhere.
    pub log: Option<PathBuf>,
    /// Variables that a driver process finds in its environment besides ours.
    pub env: Vec<(String, String)>,
    /// Words before a driver's command, by which its process is put into surroundings of its own.
    pub within: Vec<String>,
}

impl ConnectTo {
    /// With the usual lease of its watchdog, and without a log or surroundings of its own.
    pub fn new(target: &str, client: &str, seed: u64, durability: &str) -> Self {
        ConnectTo {
            target: target.to_owned(),
            client: client.to_owned(),
            seed,
            durability: durability.to_owned(),
            ..ConnectTo::default()
        }
    }
}

/// `wait:all` and `wait:majority` by their number, where each master has so many replicas: who waits for them
/// is to be told how many there are. What the target's URL says of it (`?replicas=N`) counts instead.
pub fn counted_durability(durability: &str, target: &str, replicas: u32) -> String {
    let settings = target.split_once('?').map_or("", |(_, settings)| settings);
    let is_said = settings.split('&').any(|one| one.starts_with("replicas="));
    match durability.parse::<Durability>() {
        Ok(asked) if replicas > 0 && !is_said => asked.counted(replicas).to_string(),
        _ => durability.to_owned(),
    }
}

impl fmt::Debug for ConnectTo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectTo")
            .field("target", &redact(&self.target))
            .field("client", &self.client)
            .finish_non_exhaustive()
    }
}

/// A connected client and what it reports unasked.
pub struct Connected {
    /// The client.
    pub client: Box<dyn LockClient>,
    /// Lost signals and renewals.
    pub events: mpsc::UnboundedReceiver<ClientEvent>,
}

/// One client of a lock service. All calls may run concurrently.
#[async_trait]
pub trait LockClient: Send + Sync {
    /// Asks for a lock.
    async fn acquire(&self, request: AcquireRequest<'_>) -> AcquireEnd;
    /// Gives a grant back.
    async fn release(&self, grant: &str) -> ReleaseEnd;
    /// Extends a grant to `lease` from now.
    async fn extend(&self, _grant: &str, _lease: Duration) -> ReleaseEnd {
        ReleaseEnd::Failed("this lock cannot be extended".to_owned())
    }
    /// Gives a grant back as another of its callers than the one that acquired it. A library whose holds
    /// belong to no caller does as always.
    async fn release_as(&self, grant: &str, _owner: &str) -> ReleaseEnd {
        self.release(grant).await
    }
    /// Extends as another of its callers than the one that acquired.
    async fn extend_as(&self, grant: &str, lease: Duration, _owner: &str) -> ReleaseEnd {
        self.extend(grant, lease).await
    }
    /// The processes that are this client; `None` if it lives in ours.
    fn processes(&self) -> Option<&Processes> {
        None
    }
    /// The first of them.
    fn pid(&self) -> Option<u32> {
        self.processes().map(Processes::first)
    }
    /// The lease of renewed locks, where known.
    fn watchdog(&self) -> Option<Duration> {
        None
    }
    /// Whether what its library renews by itself is among its events, each time.
    fn reports_renewals(&self) -> bool {
        true
    }
    /// The kinds that it has, where it says so; an empty [`AcquireRequest::kind`] means the first.
    fn kinds(&self) -> &[String] {
        &[]
    }
    /// What it says that it has.
    fn abilities(&self) -> Abilities {
        Abilities::default()
    }
    /// What the library believes of a grant, without asking a server; `None` where it cannot be asked.
    async fn held(&self, _grant: &str) -> Option<bool> {
        None
    }
    /// Runs a closed loop where the client is, beyond any pipe; `None` where that is not offered, an error
    /// where it went wrong. It is the client's own word: no history of it is seen here.
    async fn load(&self, _asked: &LoadRequest) -> Option<Result<LoadReport, String>> {
        None
    }
    /// Blocks what the library's own work runs on (an event loop, the threads of a runtime) for so long,
    /// while other threads of the process go on. Returns when that is over, with the longest time for which
    /// nothing ran there; an error where it cannot be done.
    async fn block(&self, _time: Duration) -> Result<Duration, String> {
        Err("it is no process of its own".to_owned())
    }
    /// Tells the client that its process is stopped (or goes on): waiting for its answers is then not
    /// counted. Nothing to do for a client that lives in our own process.
    fn set_paused(&self, _paused: bool) {}
    /// How its process ended, with the line that broke the protocol and its log's end; `None` while it lives.
    fn ended(&self) -> Option<String> {
        None
    }
    /// The first request that was given up unanswered, and how many followed; `None` where all were answered.
    fn unanswered(&self) -> Option<String> {
        None
    }
    /// Commands sent so far, asked of the client's process where it has one; `None`: they cannot be counted.
    async fn commands(&self) -> Option<u64> {
        None
    }
    /// A caller that keeps what it holds itself, for requests of these kinds; `None`: grants go by names.
    fn caller(&self, _kinds: &[&str]) -> Option<Box<dyn Caller>> {
        None
    }
    /// Ends in an orderly way.
    async fn close(self: Box<Self>) {}
}

/// A caller of a client in this process that holds one lock at a time, and that nobody else asks about it:
/// its grants have no names that would have to be looked up, and all of its calls are made in the same place
/// in memory.
pub trait Caller: Send {
    /// Begins an acquire, without regard to the request's owner and permits. An error: it has ended already.
    fn begin_acquire(&mut self, request: AcquireRequest<'_>) -> Result<(), AcquireEnd>;
    /// Goes on with the acquire that was begun: held, for how long if that is less, or how else it ended.
    fn poll_acquire(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Duration>, AcquireEnd>>;
    /// When the attempt was sent that led to the hold.
    fn sent_at(&self) -> Option<Instant>;
    /// Begins to give back what is held.
    fn begin_release(&mut self);
    /// Goes on with the release that was begun.
    fn poll_release(&mut self, context: &mut Context<'_>) -> Poll<ReleaseEnd>;
}

/// Whether several may hold a lock of this kind at once: its holder only reads what is protected.
pub(crate) fn is_shared(kind: &str) -> bool {
    matches!(kind, "read" | "semaphore" | "permits" | "latch")
}

/// An acquire, as PROTOCOL's.
#[derive(Debug, Clone, Copy, Default)]
pub struct AcquireRequest<'a> {
    /// The lock's name.
    pub lock: &'a str,
    /// Locks taken together with it; none but for `multi`.
    pub others: &'a [&'a str],
    /// The kind; empty: the client's own.
    pub kind: &'a str,
    /// The caller inside the client.
    pub owner: &'a str,
    /// Whether that caller may ask again for what it holds. Of one that never does nobody need know who it
    /// is, and a library that has a cheaper way for callers without a name takes that.
    pub reenters: bool,
    /// `None`: without bound; zero: one try.
    pub wait: Option<Duration>,
    /// `None`: renewed.
    pub lease: Option<Duration>,
    /// For semaphores.
    pub permits: Option<u32>,
    /// The caller gives up so long after its call, as its language cancels a call, and is answered with what
    /// became of it. Only a client that is a process of its own does so; in this one, the call is dropped.
    pub cancel: Option<Duration>,
}

/// How an acquire ended.
#[derive(Debug, Clone, PartialEq)]
pub enum AcquireEnd {
    /// Held.
    Ok {
        /// The hold's name, unique in the client.
        grant: String,
        /// Fencing token.
        token: Option<u64>,
        /// When the attempt that succeeded was sent, where known.
        sent_at: Option<Instant>,
        /// When the library returned to its caller, of a client that is a process of its own and says so.
        returned_at: Option<Instant>,
        /// What was granted, if that is less than what was asked for.
        lease: Option<Duration>,
        /// Where in the lock's own source it was granted, as `lock.py:41`, where it says so.
        at: Option<String>,
    },
    /// Certainly not acquired within the wait.
    Busy,
    /// Certainly not acquired.
    Failed(String),
    /// May or may not have been acquired.
    Unknown(String),
}

impl AcquireEnd {
    /// Held as it was asked for, without a token.
    pub(crate) fn ok(grant: String, sent_at: Option<Instant>) -> Self {
        AcquireEnd::Ok { grant, token: None, sent_at, returned_at: None, lease: None, at: None }
    }
}

/// How a release or an extend ended.
#[derive(Debug, Clone, PartialEq)]
pub enum ReleaseEnd {
    /// Done.
    Ok,
    /// The library says that it does not hold it.
    NotHeld,
    /// Certainly not done.
    Failed(String),
    /// May or may not be done.
    Unknown(String),
}

/// What a client reports unasked.
#[derive(Debug, Clone, PartialEq)]
pub enum ClientEvent {
    /// The library says to its caller that the lock is gone.
    Lost {
        /// The hold.
        grant: String,
        /// Why.
        reason: String,
        /// When the library said so.
        at: Instant,
    },
    /// The library renewed the lock.
    Extended {
        /// The hold.
        grant: String,
        /// The lease, from `sent_at` on.
        lease: Duration,
        /// When the renewal was sent; without it the contract is not extended.
        sent_at: Option<Instant>,
    },
    /// The client's process ended.
    Exited {
        /// How.
        how: String,
    },
}

/// A [`SubjectError::usage`] that is said as to `format!`.
macro_rules! usage {
    ($($message:tt)+) => { $crate::subject::SubjectError::usage(format!($($message)+)) };
}

/// Returns the error that [`usage!`] makes of the same.
macro_rules! bail {
    ($($message:tt)+) => { return Err(usage!($($message)+)) };
}

/// What is there, or returns how the call ended instead.
macro_rules! or_end {
    ($found:expr) => {
        match $found {
            Ok(found) => found,
            Err(end) => return end,
        }
    };
}

/// A table: of each row the name, the row that it differs from, in what, and a sentence about it.
macro_rules! rows {
    ($row:ident; $($name:literal: $base:ident { $($field:ident: $value:expr),* } $about:literal)*) => {
        &[$($row { name: $name, about: $about, $($field: $value,)* ..$base }),*]
    };
}

/// A subject that could not be found, started or connected.
#[derive(Debug, Clone, thiserror::Error)]
pub enum SubjectError {
    /// Something the user has to fix: a name, a URL, a kind on the wrong target.
    #[error("{0}")]
    Usage(String),
    /// No server answered, or the library is not built (exit 69).
    #[error("{0}")]
    Unreachable(String),
    /// It has nothing to lock with there, by its own word: neither its failure nor the user's.
    #[error("{0}")]
    NotApplicable(String),
    /// A driver answered hello with `failed`: it may know other servers than these.
    #[error("{0}")]
    Refused(String),
}

impl SubjectError {
    /// Something the user has to fix: a name, a URL, a kind on the wrong target.
    pub fn usage(message: impl Into<String>) -> Self {
        SubjectError::Usage(message.into())
    }

    /// No server answered, or the library is not built.
    pub fn unreachable(message: impl Into<String>) -> Self {
        SubjectError::Unreachable(message.into())
    }
}
