//! One client of a lock service: its identity, its connections, its renewals.
//!
//! | file | what it is for |
//! |---|---|
//! | `target.rs`, `parameters.rs`, `redis_1.rs` | the servers' URL, and what else makes one |
//! | `options.rs` | how a client behaves |
//! | `credentials.rs` | users and passwords that change |
//! | `client_core.rs` | what everything of one client shares |
//! | `background.rs` | work that nobody waits for |

pub(crate) mod background;
pub(crate) mod client_core;
pub(crate) mod credentials;
pub(crate) mod options;
pub(crate) mod parameters;
#[cfg(feature = "redis-1")]
mod redis_1;
pub(crate) mod target;

use std::sync::{Arc, Weak};

use futures_util::future::join_all;
use uuid::{Builder, Uuid, Version};

use crate::client::background::Background;
use crate::client::client_core::ClientCore;
pub use crate::client::options::{AddressMap, ClientOptions};
use crate::client::target::{Target, TargetError, TopologyKind};
use crate::clock::Instant;
use crate::diagnostics::Concern;
use crate::error::{ErrorKind, LockError};
use crate::hold::idempotent_requests;
use crate::hold::release;
use crate::hold::watchdog;
use crate::kind::all_of::AllOf;
use crate::kind::{Kind, LockFormat};
use crate::locks::lock::Lock;
use crate::locks::lock_inner::LockInner;
use crate::locks::semaphore;
use crate::machine::ClientRuntime;
use crate::names::{self, Names};
use crate::servers::server_set::Servers;
use crate::telemetry::degraded;
use crate::topology::{self, Route, Secure, survey};
use crate::waiting::line::Lines;

/// What a client has sent so far.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct ClientStats {
    /// Commands written to servers: scripts count as one, WAIT counts, PING and discovery count.
    pub commands: u64,
}

/// A client of a lock service. Cheap to clone; clones are the same client.
///
/// Guards keep working after the last clone is dropped; [`close`](Client::close) ends them too.
#[derive(Debug, Clone)]
pub struct Client {
    inner: Arc<ClientCore>,
}

/// Open holds of a route are kept in one word.
const MOST_MASTERS: usize = 64;

impl Client {
    /// Connects and discovers the topology. Must be called on a Tokio runtime, which then carries the
    /// client's connections, subscriptions and renewals, whichever runtime asks for them: somebody has to
    /// drive it. Once it has ended, acquires are refused with `Failed`, waits are cut off, and renewed holds
    /// are [lost](crate::LostReason::RuntimeEnded); what is held can be released from another.
    ///
    /// What passes by itself is waited for within the connect timeout: a script that runs, a file that is
    /// read, a failover. Errors: `Failed` without an answer of a server or a majority; `Invalid` if a setting
    /// cannot work.
    pub async fn connect(target: &Target, options: ClientOptions) -> Result<Self, LockError> {
        let (options, tls, runtime) = prepared(target, options)?;
        let routes = topology::connect(target, &options, tls, &runtime).await;
        let routes = routes.map_err(|mut error| {
            let kind = match error.message.contains("DB index is out of range") {
                true => {
                    let known = "; a server has those from 0 to one less than CONFIG GET databases says";
                    error.message.push_str(known);
                    ErrorKind::Invalid
                }
                false => ErrorKind::Failed,
            };
            LockError::at_node(kind, CONNECT, &target.to_string(), error)
        })?;
        let concerns = concerns(&routes, &options).await;
        concerns.iter().for_each(degraded);
        Client::of(target, options, routes, concerns, runtime)
    }

    /// As [`connect`](Client::connect), for a service that starts before its Redis: nobody is dialled before
    /// the first use, whose bound counts for the connecting too. An acquire waits for a server as it waits
    /// for the lock. [`survey`](Client::survey) says what [`concerns`](Client::concerns) would have.
    ///
    /// ```
    /// # use lock_core::{Client, ClientOptions, ErrorKind, Kind};
    /// # #[path = "../../tests/support/example.rs"] mod example; example::run(async |server, client| {
    /// # let url = format!("redis://127.0.0.1:{}", example::support::free_port());
    /// let client = Client::new(&url.parse()?, ClientOptions::default())?;
    /// let refused = client.lock(Kind::Reentrant, "orders")?.try_acquire().await;
    /// assert_eq!(refused.unwrap_err().kind(), ErrorKind::Failed); // nobody listens there yet
    /// client.close().await;
    /// # Ok(()) });
    /// ```
    ///
    /// Errors: `Invalid` if the target or a setting cannot work, outside of a Tokio runtime, and for a
    /// cluster where neither says how messages are published ([`ClientOptions::pub_sub`]).
    pub fn new(target: &Target, options: ClientOptions) -> Result<Self, LockError> {
        let (options, tls, runtime) = prepared(target, options)?;
        let routes = topology::unconnected(target, &options, tls, &runtime);
        let routes = routes.map_err(|why| LockError::invalid(CONNECT, &target.to_string(), why))?;
        Client::of(target, options, routes, Vec::new(), runtime)
    }

    fn of(
        target: &Target,
        options: ClientOptions,
        routes: Vec<Arc<Route>>,
        concerns: Vec<Concern>,
        runtime: ClientRuntime,
    ) -> Result<Self, LockError> {
        if routes.is_empty() || routes.len() > MOST_MASTERS {
            let why = format!("{} masters; 1 to {MOST_MASTERS} can work", routes.len());
            return Err(LockError::invalid(CONNECT, &target.to_string(), why));
        }
        let background = Background::new(runtime);
        Ok(Client {
            inner: Arc::new(ClientCore {
                id: fresh_id(),
                options,
                shape: target.topology_kind(),
                set: target.set(),
                concerns,
                routes: routes.into(),
                gates: Lines::new(),
                turns: Default::default(),
                wait_queues: Default::default(),
                renewals: watchdog::start(&background),
                guarded: Default::default(),
                guarded_permits: Default::default(),
                undos: Default::default(),
                background,
                returns: Default::default(),
                server_clock: Default::default(),
            }),
        })
    }

    /// This client's identity, a UUID in lower case. It is of version 8, by which a fair lock tells our
    /// waiters from those of a Java client, whose identity is of version 4.
    pub fn id(&self) -> &str {
        &self.inner.id
    }

    /// How it behaves.
    pub fn options(&self) -> &ClientOptions {
        &self.inner.options
    }

    /// What is dangerous for locks about the servers that [`connect`](Client::connect) reached, as they were
    /// then; the worst of each server first. Empty where there is nothing to say. Settings that this user may
    /// not read are reported as unknown, and servers that were not reached are not judged:
    /// [`survey`](Client::survey) asks all. Keys that this user may not have are there once a lock has wanted
    /// them, or from the start where [`name_prefix`](ClientOptions::name_prefix) says how all names begin,
    /// until the next connection. A refused subscription is there once a waiter has wanted it, while it is
    /// refused; so is what [`KeyTracking`](crate::KeyTracking) needs, once a hold is to be
    /// followed.
    pub fn concerns(&self) -> Vec<Concern> {
        let masters = self.inner.routes.iter().flat_map(|route| route.masters());
        let found: Vec<Vec<_>> = masters.map(|node| node.concerns().collect()).collect();
        self.inner.concerns.iter().cloned().chain(found.into_iter().flatten()).collect()
    }

    /// A lock of a kind by its name, which is the Redis key itself. Nothing is sent.
    ///
    /// Errors: `Invalid` for an empty name, for a kind that does not live on this topology, and on a cluster
    /// for a name whose braces would put its companion keys into another slot, unless
    /// [`ClientOptions::retag_names`] has them renamed.
    pub fn lock(&self, kind: Kind, name: &str) -> Result<Lock, LockError> {
        let invalid = |why: String| LockError::invalid("use the lock", name, why);
        let names = self.names(name, kind.format().naming()).map_err(invalid)?;
        let servers = match kind.is_voted() {
            true => Servers::Majority(Arc::clone(&self.inner.routes)),
            false if self.inner.shape == TopologyKind::Masters => {
                return Err(invalid(format!(
                    "a {kind} lock lives in one server set, and redlock:// is several; redlock is the kind for those"
                )));
            }
            false => Servers::One(Arc::clone(&self.inner.routes[0])),
        };
        let inner = self.lock_of(names, kind.name(), kind.format(), servers);
        Ok(Lock { inner, kind })
    }

    /// The keys of something of one server set, by its name.
    pub(crate) fn in_one_set(
        &self,
        word: &str,
        name: &str,
        of: fn(&str) -> Names,
    ) -> Result<Names, LockError> {
        let invalid = |why: String| LockError::invalid("use", name, why);
        if self.inner.shape == TopologyKind::Masters {
            return Err(invalid(format!("a {word} lives in one server set, and redlock:// is several")));
        }
        self.names(name, of).map_err(invalid)
    }

    /// Several re-entrant locks as one, taken, renewed and given back in one call each: all of them or none,
    /// and each also an [RLock](Kind::Reentrant) by its own name, for clients of other libraries too. Nothing
    /// is sent. It is called by the first of its names in order; who waits for it waits until all are free at
    /// once, in which a crowd on single ones can keep it waiting.
    ///
    /// Errors: `Invalid` for no name, for one that comes twice, and for names that do not lie in one slot,
    /// also where there is no cluster, so that what works on one server works on many; else as
    /// [`lock`](Client::lock). Locks of several slots or servers are for [`MultiLock`](crate::MultiLock).
    pub fn all_of(&self, names: &[&str]) -> Result<Lock, LockError> {
        const WORD: &str = "all-of";
        let each = names.iter().map(|name| self.in_one_set(WORD, name, Names::new));
        let together = Names::together(each.collect::<Result<_, LockError>>()?);
        let first = names.first().copied().unwrap_or_default();
        let invalid = |why| LockError::invalid("use all of", first, why);
        let servers = Servers::One(Arc::clone(&self.inner.routes[0]));
        Ok(Lock {
            inner: self.lock_of(together.map_err(invalid)?, WORD, &AllOf, servers),
            kind: Kind::Reentrant,
        })
    }

    /// What the holds of something lockable share.
    pub(crate) fn lock_of(
        &self,
        names: Names,
        word: &'static str,
        format: &'static dyn LockFormat,
        servers: Servers,
    ) -> Arc<LockInner> {
        Arc::new(LockInner { client: Arc::clone(&self.inner), names, word, format, servers })
    }

    pub(crate) fn shared(&self) -> &Arc<ClientCore> {
        &self.inner
    }

    /// The keys and channel of a name, in one slot where that matters; or why there are none.
    fn names(&self, name: &str, of: fn(&str) -> Names) -> Result<Names, String> {
        if name.is_empty() {
            return Err("it needs a name".to_owned());
        }
        let name = &[&self.inner.options.name_prefix, name].concat();
        let publish = self.inner.route().channels().publish_command();
        let of = |name: &str| of(name).publish_by(publish);
        let names = of(name);
        if self.inner.shape != TopologyKind::Cluster {
            return Ok(names);
        }
        let Some(why) = names.split_slots() else {
            return Ok(names);
        };
        let whole = of(&names::retagged(name));
        match whole.split_slots() {
            None if self.inner.options.retag_names => Ok(whole),
            None => Err(format!(
                "{why} or with one pair around a part of it; a program may also have such names put in braces as a whole \
                 (ClientOptions::retag_names)"
            )),
            Some(_) => Err(why),
        }
    }

    /// What was sent so far.
    pub fn stats(&self) -> ClientStats {
        ClientStats { commands: self.inner.routes.iter().map(|route| route.dialer().commands()).sum() }
    }

    /// Ends renewals and waits, lets background releases finish for twice the response timeout at most, and
    /// closes the connections. Holds are left to their leases; their guards say lost when those run out.
    /// Permits of a [`Semaphore`](crate::Semaphore) have none: those of a guard stay taken, since somebody
    /// may still work under them, unless [`close_and_release`](Client::close_and_release) gives them back.
    ///
    /// Every task that waits for anything of this client gets an error at once: `Failed`, or `Unknown` where
    /// it may have been given it, and that or its place in a line is given back before the connections close.
    /// A wait whose future nobody polls cannot end, and delays the closing by its bound. What is asked for
    /// afterwards is refused with `Failed`, and nothing is sent.
    pub async fn close(self) {
        self.end().await;
        for route in self.inner.routes.iter() {
            route.close();
        }
    }

    /// As [`close`](Client::close), and gives back what guards still hold, permits included: for a service
    /// that shuts down in order, while tasks of it may be in the middle of their work. Their guards say at
    /// once that they are [lost](crate::LostReason::Closed).
    ///
    /// ```
    /// # use lock_core::{Kind, LostReason};
    /// # #[path = "../../tests/support/example.rs"] mod example; example::run(async |server, client| {
    /// let guard = client.lock(Kind::Reentrant, "orders")?.acquire().await?;
    /// client.close_and_release().await;
    /// assert_eq!(guard.lost().await, LostReason::Closed);
    /// # assert_eq!(server.ok(&["EXISTS", "orders"]), "0");
    /// # Ok(()) });
    /// ```
    pub async fn close_and_release(self) {
        // Waiters first: what they get from now on is given back by themselves.
        self.inner.background.close();
        self.take_back();
        self.end().await;
        // An acquire that was under way may have been granted meanwhile.
        if self.take_back() {
            self.end().await;
        }
        self.close().await;
    }

    fn take_back(&self) -> bool {
        let holds = self.inner.guarded.take();
        let permits = self.inner.guarded_permits.take();
        let had_any = !holds.is_empty() || !permits.is_empty();
        holds.iter().filter_map(Weak::upgrade).for_each(|hold| release::take_back(&hold));
        for (of, count) in permits {
            if let Some(of) = of.upgrade() {
                semaphore::give_back_unasked(&of, count);
            }
        }
        had_any
    }

    async fn end(&self) {
        self.inner.renewals.close();
        idempotent_requests::forget_finished(&self.inner);
        self.inner.background.finish(self.inner.options.response_timeout * 2).await;
    }
}

/// Connects by a URL with the usual options; in all else as [`Client::connect`].
///
/// ```
/// # #[path = "../../tests/support/example.rs"] mod example; example::run(async |server, client| {
/// # let url = server.url();
/// let client = lock_core::connect(&url).await?; // redis://127.0.0.1:6379
/// let guard = client.lock(lock_core::Kind::Reentrant, "orders")?.acquire().await?;
/// let sum = guard.hold_while(async { 1 + 1 }).await?;
/// # assert_eq!(sum, 2);
/// client.close().await;
/// # Ok(()) });
/// ```
pub async fn connect(url: &str) -> Result<Client, LockError> {
    let invalid =
        |error: TargetError| LockError::invalid("connect to", "the servers of a URL", error.to_string());
    let target: Target = url.parse().map_err(invalid)?;
    Client::connect(&target, ClientOptions::default()).await
}

const CONNECT: &str = "connect to";

/// What a client is made with, or why none can be made of it.
fn prepared(
    target: &Target,
    mut options: ClientOptions,
) -> Result<(ClientOptions, Option<Secure>, ClientRuntime), LockError> {
    let invalid = |why: String| LockError::invalid(CONNECT, &target.to_string(), why);
    options.replicas = options.replicas.or(target.parameters.replicas);
    options.check().map_err(invalid)?;
    if let Some(why) = target.mistake() {
        return Err(invalid(why.to_owned()));
    }
    let tls = match target.tls {
        false => None,
        true => Some(Secure::new(&options.tls.or(&target.parameters.tls)).map_err(invalid)?),
    };
    let runtime = ClientRuntime::current();
    let runtime =
        runtime.map_err(|_| invalid("it needs a Tokio runtime, and is called outside of one".to_owned()))?;
    Ok((options, tls, runtime))
}

fn fresh_id() -> String {
    Builder::from_bytes(Uuid::new_v4().into_bytes()).with_version(Version::Custom).into_uuid().to_string()
}

/// What is dangerous about the connected servers. Nobody is dialled, and one answer is waited for.
async fn concerns(routes: &[Arc<Route>], options: &ClientOptions) -> Vec<Concern> {
    let deadline = Instant::now() + options.response_timeout;
    let masters: Vec<_> = routes.iter().flat_map(|route| route.masters()).collect();
    let reports =
        join_all(masters.iter().map(|node| survey::ask_connected(node, &options.name_prefix, deadline)))
            .await;
    reports.iter().flatten().flat_map(|report| report.concerns(options.durability)).collect()
}
