//! Distributed locks on Redis, in the wire format of the Redisson family.
//!
//! A lock is a key on a Redis server that one holder at a time has, for a lease that is renewed while the
//! holder lives. This crate takes, keeps and gives back such locks on a single server, a sentinel group, a
//! cluster or a majority of independent masters, beside Java clients or without them.
//!
//! ```
//! use std::time::Duration;
//! use lock_core::{Client, ClientOptions, Kind};
//!
//! # #[path = "../tests/support/example.rs"] mod example; example::run(async |server, client| {
//! # let url = server.url();
//! let target = url.parse()?; // such as redis://127.0.0.1:6379
//! let client = Client::connect(&target, ClientOptions::default()).await?;
//! let orders = client.lock(Kind::Reentrant, "orders")?;
//! let guard = orders.acquire_timeout(Duration::from_secs(5)).await?;
//! tokio::select! {
//!     () = work() => { guard.release().await?; }
//!     reason = guard.lost() => eprintln!("stopped: {reason}"),
//! }
//! # assert_eq!(server.ok(&["EXISTS", "orders"]), "0");
//! client.close().await;
//! # Ok(()) });
//! # async fn work() {}
//! ```
//!
//! # What is promised
//!
//! - **Three endings.** An operation is done, certainly not done, or unknown; [`LockError::is_definite`] says
//!   which. A lost answer is unknown, never failed. Within the caller's time it is asked for again, and the
//!   server recognises the repetition: a lock is never counted twice, a release is never reported as somebody
//!   else's.
//! - **The caller's bound is kept**, whatever the network does (to about 20 ms), and a future may be dropped
//!   anywhere: what may have been taken is given back in the background.
//! - **A holder is notified in time.** [`Guard::lost`] completes before the lease can have ended on a server,
//!   or when a renewal finds the lock gone. A lapsed or missing lock is never revived.
//! - **A waiter never depends on a message.** Releases wake it at once; without a message it looks again when
//!   the holder's lease ends, and after [`ClientOptions::poll_bound`] at the latest.
//! - **Each hold is its own.** Renewals of one never outlive it and never end with another; one silent server
//!   does not delay renewals on the others. Re-entry happens only for an equal [`Owner`] that the caller
//!   names, and then each hold is given back and extended by its own acquire alone: a release that comes late
//!   takes nothing of what the owner was given since.
//! - **Beside Redisson**: keys, fields, channels and payloads of `reentrant`, `non-reentrant`, `spin`,
//!   `fenced`, `fair`, `read` and `write` are those of its locks. A release sends no DEL for its unlock
//!   latch: a hold of a fresh owner needs none, since its owner never comes again, and the latches of a named
//!   owner end by themselves, with the lock or within 30 s. `read` and `write` wait for a key that another
//!   kind of lock holds; Redisson's take it beside the holder, who loses it when they are released.
//!
//! # What is not
//!
//! - **Replication is asynchronous.** A master that dies may take a grant with it, and its successor may
//!   grant the lock again. [`Durability`] makes a grant wait for replicas; with fewer than all, a failover
//!   may still choose one that had not acknowledged. A server without persistence that restarts has forgotten
//!   its locks.
//! - **A token rises as long as its counter lives.** The counter of a fenced lock is one key on one server
//!   set: a failover to a replica that had not seen its last steps, or the loss of the data, issues tokens
//!   again. [`Durability`] narrows that; [`Acquire::token_life`] survives the loss of the counter (a new one
//!   begins above all tokens before it), and a queued lock does so without it, but not a replica that has an
//!   old one. The resource must refuse equal tokens as well as smaller ones.
//! - **Belief is not contract.** A process that is paused in the middle of its work goes on after its lease
//!   believing that it holds the lock. Where that matters, use [`Client::fenced`] and let the resource refuse
//!   older tokens. Time in which the machine is suspended counts as far as its clocks know of it (`FAULTS.md`
//!   says when they do not).
//! - Waiters of one client are served in their order; between clients there is no order, but for
//!   [`Kind::Queued`] and [`Kind::Fair`]. Of a lock whose release says how many listen (plain, re-entrant,
//!   fenced, write, and several in one call) a client that has had it lets as many others look first as
//!   listened, for 20 ms at most: who waits farther away gets its share too. A caller of [`Wait::Try`], or
//!   with less than 100 ms left, looks at once. Readers, semaphores, permits and [`Kind::Spin`] know no such
//!   thing.
//!
//! # How to use it well
//!
//! - **End with [`Client::close`]**, or [`Client::close_and_release`] where tasks still hold something. A
//!   guard that is dropped writes its release where it is dropped, also at the end of `main`; but nobody is
//!   left to repeat a release that the network lost.
//! - **Compute elsewhere.** Long computations belong in `tokio::task::spawn_blocking` or in threads of their
//!   own, as everywhere in Tokio. A holder that computes on a worker of a multi-threaded runtime keeps its
//!   lock, since the task that renews runs on the others; on a runtime of one thread nothing is renewed
//!   meanwhile. [`Guard::run`] ends work that waits when the hold is lost, and work that computes asks
//!   [`Guard::check`] between its steps.
//! - **Poll what you keep.** An acquire that is neither polled nor dropped, as one that lost a `select!` and
//!   is still in scope, has a place in its client's line. Others of the client look past it after two poll
//!   bounds; until then they wait behind it. A [queued](Kind::Queued) lock may be given to it, and is then
//!   held by nobody who works for as long as its lease. Drop such a future, or spawn it.
//! - **Sizes that change by a deploy.** Each instance calls [`Permits::set_permits`] when it starts: the
//!   number that was set last holds, whatever is taken then. A [`Semaphore`] is a counter that does not know
//!   what is taken: one process changes it, by [`Semaphore::add_permits`].
//! - **Within Tokio.** A client's futures are polled on a Tokio runtime; elsewhere each call is refused as
//!   `Invalid`, and what a guard gives back is given back in the background.
//!
//! # Servers
//!
//! A [`Target`] is a URL: `redis://`, `redis-sentinel://`, `redis-cluster://`, `redlock://` for independent
//! masters (by TLS `rediss://`, `rediss-sentinel://`, `rediss-cluster://`, `redlocks://`), with user,
//! password and database in the usual places. [`ClientOptions`] has the rest: time limits,
//! [durability](Durability), [TLS](TlsOptions), [pub/sub](PubSub), [keys that are followed](KeyTracking).
//! [`Client::concerns`] lists dangerous settings of the servers, read at connect.
//!
//! # Which lock to choose
//!
//! | you want | kind |
//! |---|---|
//! | the fewest commands, nothing else | [`Kind::Plain`] |
//! | a mutex beside Java clients, or with re-entry | [`Kind::Reentrant`] |
//! | the same, and a mistake to enter twice | [`Kind::NonReentrant`] |
//! | no subscriptions: very short holds, few waiters | [`Kind::Spin`] |
//! | writes that must never be overtaken | [`Client::fenced`], which is [`Kind::Fenced`] |
//! | first come, first served, with many waiters | [`Client::queued`], which is [`Kind::Queued`] |
//! | first come, first served, beside Java clients or with re-entry | [`Kind::Fair`] |
//! | many readers or one writer | [`ReadWrite`], which is [`Kind::Read`] and [`Kind::Write`] |
//! | several locks, all of them or none | [`MultiLock`], of any kinds on any servers |
//! | the same, in one call, with names of one tag | [`Client::all_of`] |
//! | one of many processes that does the jobs | [`Client::election`] |
//! | to survive the loss of a minority of servers that do not replicate | [`Kind::Redlock`] |
//! | up to so many at once, counted and nothing else | [`Client::semaphore`] |
//! | up to so many at once, and the permits of the dead come back | [`Client::permits`] |
//! | to wait until so many things are done | [`Client::latch`] |
//!
//! [`Kind`] shows each in a few lines.
//!
//! # Where to read on
//!
//! `FAULTS.md` says what each kind promises under each fault, with the test that shows it; `README.md` says
//! what stays as it is from version to version, names and [codes](LockError::code) among it.

mod bounds;
mod client;
mod clock;
pub mod diagnostics;
mod durability;
mod error;
mod hold;
mod kind;
mod locks;
#[doc(hidden)]
pub mod machine;
mod named_enum;
mod names;
mod servers;
mod sync;
mod telemetry;
mod topology;
mod waiting;

pub use client::credentials::{Credentials, CredentialsProvider};
pub use client::options::{KeyTracking, Pem, PubSub, TlsOptions, UnknownPubSub};
pub use client::target::{Endpoint, Target, TargetError, TopologyKind};
pub use client::{AddressMap, Client, ClientOptions, ClientStats, connect};
pub use durability::{Durability, UnknownDurability};
pub use error::{ErrorKind, LockError};
pub use hold::acquire_options::{Acquire, Lease, Owner, Wait};
pub use hold::guard::{Guard, GuardEvents};
pub use hold::guard_event::{GuardEvent, LostReason, Released};
pub use kind::{Holder, Kind, UnknownKind};
pub use locks::election::{Election, Leader, Leadership};
pub use locks::fenced_lock::{FencedGuard, FencedLock};
pub use locks::latch::Latch;
pub use locks::lock::Lock;
pub use locks::multi::{LostMember, MultiGuard, MultiLock, MultiReleased};
pub use locks::permit_id::{PermitId, UnknownPermitId};
pub use locks::permits::{Permit, PermitGuard, Permits};
pub use locks::read_write::ReadWrite;
pub use locks::semaphore::{Semaphore, SemaphoreGuard};
pub use topology::slot;
