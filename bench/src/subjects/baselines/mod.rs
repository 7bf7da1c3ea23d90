//! The locks of other systems, each behind its cargo feature: their table, and what their clients share.
//!
//! A [`Store`] asks its servers; the client here does what must not differ between them: who holds what,
//! heartbeats, the end of a lease, and the moment from which a holder is notified not to believe any more,
//! which is decided by its own clock whatever a library says.
//!
//! | file | what it is for |
//! |---|---|
//! | `table.rs` | all of them, and what is known to be wrong with the broken ones |
//! | `etcd.rs`, `zookeeper.rs` | locks of consensus systems |
//! | `postgres.rs`, `mysql.rs`, `mongodb.rs` | locks of databases |

#![cfg_attr(
    not(feature = "baselines"),
    allow(dead_code, reason = "each system uses a part, and the default build none")
)]

#[cfg(feature = "etcd")]
mod etcd;
#[cfg(feature = "mongodb")]
mod mongodb;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
mod table;
#[cfg(feature = "zookeeper")]
mod zookeeper;

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout, timeout_at};

use table::{BASELINES, BROKEN};

use super::common::{Grants, Jitter, UNBOUND, extended, identity, lost, only_lock, try_again};
use crate::abilities::Abilities;
use crate::links::CommandError;
use crate::subject::{
    AcquireEnd, AcquireRequest, ClientEvent, ConnectTo, Connected, LockClient, ReleaseEnd, Subject,
    SubjectError,
};

/// The session of a client, and the lease of a row that is renewed, where the caller names none.
const SESSION: Duration = Duration::from_secs(5);
const ANSWER: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HoldExpiry {
    Lease,
    /// The session, which the server ends when it has not heard of the client for long enough. A lease is
    /// then only the holder's own wish, and the client gives the lock back when it is over.
    Session,
}

pub(super) struct Baseline {
    name: &'static str,
    about: &'static str,
    /// Its cargo feature, its URL's scheme and its first topology.
    system: &'static str,
    topologies: &'static [&'static str],
    kept: HoldExpiry,
    /// What a server does before it answers a grant, as it is shipped.
    durability: &'static str,
    /// Connects a client; `None` where the feature is not built in.
    connect: Option<Connect>,
}

type Connect = fn(SystemClientParts) -> BoxFuture<'static, Result<Arc<dyn Store>, SubjectError>>;

/// The system whose URL this is; `None` for Redis.
pub fn system_of(target: &str) -> Option<&'static str> {
    let (scheme, _) = target.split_once("://")?;
    BASELINES.iter().find(|row| row.system == scheme).map(|row| row.system)
}

pub(crate) fn topologies() -> impl Iterator<Item = &'static str> {
    let mut all: Vec<_> = BASELINES.iter().flat_map(|row| row.topologies).collect();
    all.dedup();
    all.into_iter().copied()
}

/// The locks of a system, that of the recipe that is usual first.
pub fn of_system(system: &str) -> Vec<&'static str> {
    BASELINES.iter().filter(|row| row.system == system).map(|row| row.name).collect()
}

/// Removes what a run left on a system's own servers: rows and documents, which keep their fences, and the
/// containers of ZooKeeper, which it would remove by itself minutes later. Keys of etcd go with their leases.
/// An empty table, its sequence and its index stay.
pub async fn remove_keys(target: &str, prefix: &str) -> Result<(), SubjectError> {
    let own = SystemClientParts { target: target.to_owned(), session: SESSION, jitter: Jitter::new(0) };
    match system_of(target) {
        #[cfg(feature = "mongodb")]
        Some("mongodb") => mongodb::remove(&own, prefix).await,
        #[cfg(feature = "mysql")]
        Some("mysql") => mysql::remove(&own, prefix).await,
        #[cfg(feature = "postgres")]
        Some("postgres") => postgres::remove(&own, prefix).await,
        #[cfg(feature = "zookeeper")]
        Some("zookeeper") => zookeeper::remove(&own, prefix).await,
        _ => {
            let _ = (own, prefix);
            Ok(())
        }
    }
}

/// Whether every address of a system's URL is on this machine.
pub fn is_loopback(target: &str) -> bool {
    addresses(target).iter().all(|address| {
        let (host, _) = address.rsplit_once(':').unwrap_or((address, ""));
        let ip = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
        host == "localhost" || ip.is_ok_and(|ip| ip.is_loopback())
    })
}

/// The addresses of a system's URL, each `host:port`, with the system's usual port where the URL names none.
pub fn addresses(target: &str) -> Vec<String> {
    let (scheme, rest) = target.split_once("://").unwrap_or_default();
    let hosts = rest.split(['/', '?']).next().unwrap_or_default();
    let (_, hosts) = hosts.rsplit_once('@').unwrap_or(("", hosts));
    let port = match scheme {
        "etcd" => 2379,
        "zookeeper" => 2181,
        "mysql" => 3306,
        "postgres" => 5432,
        _ => 27017,
    };
    let has_port = |host: &str| host.rsplit(']').next().is_some_and(|end| end.contains(':'));
    let full = |host: &str| if has_port(host) { host.to_owned() } else { format!("{host}:{port}") };
    hosts.split(',').map(full).collect()
}

pub(super) fn subjects() -> impl Iterator<Item = Arc<dyn Subject>> {
    BASELINES.iter().map(Baseline::subject)
}

pub(super) fn broken() -> impl Iterator<Item = Arc<dyn Subject>> {
    BROKEN.iter().map(Baseline::subject)
}

struct SystemClientParts {
    target: String,
    session: Duration,
    jitter: Jitter,
}

impl SystemClientParts {
    fn unreachable(&self, why: impl std::fmt::Display) -> SubjectError {
        let target = results::secrets::redact(&self.target);
        SubjectError::unreachable(format!("{target} does not answer: {why}"))
    }

    fn reached<T>(&self, answer: Result<T, impl std::fmt::Display>) -> Result<T, SubjectError> {
        answer.map_err(|why| self.unreachable(why))
    }
}

struct SystemAcquire<'a> {
    key: &'a str,
    /// What names this hold; no other has it.
    value: String,
    /// For how long the server is to keep it without hearing of its holder.
    lease: Duration,
    called: Instant,
    wait: Option<Duration>,
}

impl SystemAcquire<'_> {
    fn until(&self) -> Instant {
        self.called + self.wait.unwrap_or(UNBOUND)
    }

    fn left(&self) -> Duration {
        self.until().saturating_duration_since(Instant::now())
    }

    fn is_one_try(&self) -> bool {
        self.wait == Some(Duration::ZERO)
    }
}

/// The answer, if it comes within a time.
async fn answered<T>(patience: Duration, asked: impl IntoFuture<Output = T>) -> Result<T, CommandError> {
    let silent = |_| CommandError::Lost(format!("no answer within {patience:?}"));
    timeout(patience, asked.into_future()).await.map_err(silent)
}

struct SystemGrant {
    hold: Box<dyn Hold>,
    token: Option<u64>,
    /// From when the lease counts, or the part of the session that is trusted.
    sent: Instant,
}

#[async_trait]
trait Store: Send + Sync {
    /// Asks until it has the lock or the wait is over. A dropped call leaves nothing beyond the session.
    async fn take(&self, want: &SystemAcquire<'_>) -> Result<Option<SystemGrant>, CommandError>;
    async fn close(&self) {}
}

#[async_trait]
trait Hold: Send + Sync {
    /// Tells the server that the holder is there, which has it for so long from now on; false: no more.
    async fn keep(&self, lease: Duration) -> Result<bool, CommandError>;
    /// Gives it back, and nothing of anybody else: whether it was there.
    async fn give(&self) -> Result<bool, CommandError>;
    /// Ends when the server is known to have ended it, where that is heard of between two signs of life.
    fn ended(&self) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }
}

/// Tries each 1 to 3 ms until the wait is over: the server has no queue. A try may be repeated.
async fn poll<F>(
    jitter: &Jitter,
    want: &SystemAcquire<'_>,
    once: impl Fn() -> F,
) -> Result<Option<SystemGrant>, CommandError>
where
    F: Future<Output = Result<Option<SystemGrant>, CommandError>>,
{
    loop {
        let tried = once().await;
        if let Ok(Some(taken)) = tried {
            return Ok(Some(taken));
        }
        if !try_again(want.called, want.wait, jitter.pause()).await {
            return tried;
        }
    }
}

#[derive(Debug, Clone)]
struct RowKey {
    lock: String,
    owner: String,
}

/// A row or a document for each lock: its owner, its end by the server's clock, a fence that grants raise.
#[async_trait]
trait Rows: Send + Sync + 'static {
    /// Takes over what is free, over or the owner's already: when that was sent, and the fence.
    async fn take(&self, row: &RowKey, lease: Duration) -> Result<Option<Fence>, CommandError>;
    /// Moves the end on; false if the row is not the owner's.
    async fn keep(&self, row: &RowKey, lease: Duration) -> Result<bool, CommandError>;
    async fn give(&self, row: &RowKey) -> Result<bool, CommandError>;
}

/// When a row was asked for, and its token.
type Fence = (Instant, Option<u64>);

struct RowStore<R> {
    rows: Arc<R>,
    jitter: Jitter,
}

#[async_trait]
impl<R: Rows> Store for RowStore<R> {
    async fn take(&self, want: &SystemAcquire<'_>) -> Result<Option<SystemGrant>, CommandError> {
        let row = &RowKey { lock: want.key.to_owned(), owner: want.value.clone() };
        let once = || async move {
            Ok(self.rows.take(row, want.lease).await?.map(|(sent, token)| SystemGrant {
                hold: Box::new(RowHold { rows: self.rows.clone(), row: row.clone() }),
                token,
                sent,
            }))
        };
        poll(&self.jitter, want, once).await
    }
}

struct RowHold<R> {
    rows: Arc<R>,
    row: RowKey,
}

#[async_trait]
impl<R: Rows> Hold for RowHold<R> {
    async fn keep(&self, lease: Duration) -> Result<bool, CommandError> {
        self.rows.keep(&self.row, lease).await
    }

    async fn give(&self) -> Result<bool, CommandError> {
        self.rows.give(&self.row).await
    }
}

/// Connections that nobody uses now, each with when it was used last.
struct IdleConnections<C>(Mutex<Vec<(Instant, C)>>);

impl<C> IdleConnections<C> {
    /// The one that was used last, if not longer ago than `idle`: the server may have closed it since.
    fn take(&self, idle: Duration) -> Option<C> {
        let (used, connection) = self.0.lock().expect("no panic").pop()?;
        (used.elapsed() < idle).then_some(connection)
    }

    fn keep(&self, connection: C) {
        self.0.lock().expect("no panic").push((Instant::now(), connection));
    }
}

impl Baseline {
    fn subject(&'static self) -> Arc<dyn Subject> {
        Arc::new(BaselineSubject {
            row: self,
            missing: self.connect.is_none().then(|| {
                format!(
                    "{} is not in this build: `cargo build -p cli --features {}` has it",
                    self.name, self.system
                )
            }),
        })
    }

    /// For how long a holder believes after its last sign of life was sent that a server answered. Of a
    /// session two thirds: the server may have counted from the sign before that one, which was up to a third
    /// older.
    fn trusts(&self, lease: Duration) -> Duration {
        match self.kept {
            HoldExpiry::Lease => lease,
            HoldExpiry::Session => lease * 2 / 3,
        }
    }
}

struct BaselineSubject {
    row: &'static Baseline,
    missing: Option<String>,
}

#[async_trait]
impl Subject for BaselineSubject {
    fn name(&self) -> &str {
        self.row.name
    }

    fn about(&self) -> &str {
        self.row.about
    }

    fn kinds(&self) -> Vec<String> {
        vec!["plain".to_owned()]
    }

    fn system(&self) -> Option<&str> {
        Some(self.row.system)
    }

    fn durability(&self) -> Option<&str> {
        Some(self.row.durability)
    }

    fn missing(&self) -> Option<&str> {
        self.missing.as_deref()
    }

    async fn connect(&self, to: &ConnectTo) -> Result<Connected, SubjectError> {
        let Baseline { name, system, .. } = self.row;
        let scheme = to.target.split("://").next().unwrap_or_default();
        if scheme != *system {
            let why = format!("{name} is a lock on {system}: its target is {system}://…, not {scheme}://…");
            return Err(SubjectError::NotApplicable(why));
        }
        if !matches!(to.durability.as_str(), "" | "none") {
            let why = format!(
                "{name} is as durable as its servers make it: durability `{}` cannot be asked of it",
                to.durability
            );
            return Err(SubjectError::NotApplicable(why));
        }
        let missing = || SubjectError::unreachable(self.missing().unwrap_or_default());
        let connect = self.row.connect.ok_or_else(missing)?;
        let (events, receiver) = mpsc::unbounded_channel();
        let session = to.watchdog.unwrap_or(SESSION);
        let store =
            connect(SystemClientParts { target: to.target.clone(), session, jitter: Jitter::new(to.seed) });
        let client = Box::new(BaselineClient {
            row: self.row,
            store: store.await?,
            session,
            identity: identity(&to.client),
            events,
            grants: Grants::default(),
        });
        Ok(Connected { client, events: receiver })
    }
}

struct CallerHold {
    hold: Box<dyn Hold>,
    belief: Mutex<Belief>,
    keeper: Mutex<Option<AbortHandle>>,
}

/// Until when a holder may believe that it holds.
#[derive(Debug, Clone, Copy)]
struct Belief {
    sure_until: Instant,
    ends: Option<Instant>,
    lost: bool,
}

impl Drop for CallerHold {
    fn drop(&mut self) {
        self.stop();
    }
}

impl CallerHold {
    fn belief(&self) -> Belief {
        *self.belief.lock().expect("no panic")
    }

    fn believes(&self) -> bool {
        let (now, belief) = (Instant::now(), self.belief());
        !belief.lost && now < belief.sure_until && belief.ends.is_none_or(|ends| now < ends)
    }

    fn believe(&self, change: impl FnOnce(&mut Belief)) {
        change(&mut self.belief.lock().expect("no panic"));
    }

    fn stop(&self) {
        if let Some(keeper) = self.keeper.lock().expect("no panic").take() {
            keeper.abort();
        }
    }
}

/// Heartbeats of a hold, until it is given back, lost, or over.
struct Keeper {
    held: std::sync::Weak<CallerHold>,
    grant: String,
    lease: Duration,
    trusts: Duration,
    events: mpsc::UnboundedSender<ClientEvent>,
}

impl Keeper {
    async fn run(self) {
        let mut next = Instant::now() + self.trusts / 3;
        loop {
            let now = |held: Arc<CallerHold>| (held.belief().ends, held.hold.ended());
            let Some((ends, ended)) = self.held.upgrade().map(now) else { return };
            let next_or_end = ends.map_or(next, |ends| next.min(ends));
            let broke = timeout_at(next_or_end.into(), ended).await.is_ok();
            let Some(held) = self.held.upgrade() else { return };
            if broke {
                return self.lost(&held, "the connection that held it has ended");
            }
            let (sent, belief) = (Instant::now(), held.belief());
            let (sure_until, ends) = (belief.sure_until, belief.ends);
            if ends.is_some_and(|ends| ends <= sent) {
                return self.gives(&held).await;
            }
            let kept = timeout_at(sure_until.into(), held.hold.keep(self.lease)).await;
            next = sent + self.trusts / 3;
            match kept {
                Ok(Ok(true)) => {
                    held.believe(|belief| belief.sure_until = sent + self.trusts);
                    let left = ends.map_or(self.trusts, |ends| self.trusts.min(ends - sent));
                    let _ = self.events.send(extended(&self.grant, left, sent));
                    continue;
                }
                Ok(Err(_)) if Instant::now() < sure_until => {
                    next = (Instant::now() + self.trusts / 12).min(sure_until);
                    continue;
                }
                Ok(Ok(false)) => self.lost(&held, "the server has it no more"),
                Ok(Err(_)) | Err(_) => self.lost(&held, "no sign of life was answered in time"),
            }
            return self.gives(&held).await;
        }
    }

    fn lost(&self, held: &CallerHold, reason: &str) {
        held.believe(|belief| belief.lost = true);
        let _ = self.events.send(lost(&self.grant, reason));
    }

    /// What is over for its holder is not to be kept from others by a session that goes on.
    async fn gives(&self, held: &CallerHold) {
        let until = Instant::now() + self.lease;
        while held.hold.give().await.is_err() && Instant::now() < until {
            sleep(self.trusts / 12).await;
        }
    }
}

struct BaselineClient {
    row: &'static Baseline,
    store: Arc<dyn Store>,
    session: Duration,
    identity: String,
    events: mpsc::UnboundedSender<ClientEvent>,
    grants: Grants<Arc<CallerHold>>,
}

#[async_trait]
impl LockClient for BaselineClient {
    async fn acquire(&self, request: AcquireRequest<'_>) -> AcquireEnd {
        let key = or_end!(only_lock(&request));
        if !matches!(request.kind, "" | "plain") {
            return AcquireEnd::Failed(format!("only plain is offered, not `{}`", request.kind));
        }
        let number = self.grants.number();
        let by_session = self.row.kept == HoldExpiry::Session;
        let lease = match request.lease {
            Some(lease) if !by_session => lease,
            _ => self.session,
        };
        let trusts = self.row.trusts(lease);
        let want = SystemAcquire {
            key,
            value: format!("{}-{number}", self.identity),
            lease,
            called: Instant::now(),
            wait: request.wait,
        };
        let taken = match self.store.take(&want).await {
            Ok(Some(taken)) => taken,
            Ok(None) => return AcquireEnd::Busy,
            Err(trouble) => return trouble.into(),
        };
        let SystemGrant { hold, token, sent } = taken;
        let own_end = request.lease.filter(|_| by_session);
        let held = Arc::new(CallerHold {
            hold,
            belief: Mutex::new(Belief {
                sure_until: sent + trusts,
                ends: own_end.map(|lease| sent + lease),
                lost: false,
            }),
            keeper: Mutex::default(),
        });
        if by_session || request.lease.is_none() {
            let keeper = Keeper {
                held: Arc::downgrade(&held),
                grant: format!("g{number}"),
                lease,
                trusts,
                events: self.events.clone(),
            };
            let keeper = tokio::spawn(keeper.run()).abort_handle();
            *held.keeper.lock().expect("no panic") = Some(keeper);
        }
        AcquireEnd::Ok {
            grant: self.grants.keep(number, held),
            token,
            sent_at: Some(sent),
            returned_at: None,
            at: None,
            lease: request.lease.is_some_and(|asked| asked > trusts).then_some(trusts),
        }
    }

    async fn release(&self, grant: &str) -> ReleaseEnd {
        let held = or_end!(self.grants.take(grant));
        held.stop();
        match held.hold.give().await {
            Ok(true) if !held.belief().lost => ReleaseEnd::Ok,
            Ok(_) => ReleaseEnd::NotHeld,
            Err(trouble) => trouble.into(),
        }
    }

    async fn extend(&self, grant: &str, lease: Duration) -> ReleaseEnd {
        let held = or_end!(self.grants.get(grant));
        if !held.believes() {
            return ReleaseEnd::NotHeld;
        }
        let by_session = self.row.kept == HoldExpiry::Session;
        let trusts = self.row.trusts(self.session);
        if by_session && lease > trusts {
            return ReleaseEnd::Failed(format!("its session is trusted for {trusts:?} only"));
        }
        let sent = Instant::now();
        let asked = if by_session { self.session } else { lease };
        match held.hold.keep(asked).await {
            Ok(true) => {
                held.believe(|belief| {
                    belief.sure_until = sent + self.row.trusts(asked);
                    belief.ends = belief.ends.map(|_| sent + lease);
                });
                ReleaseEnd::Ok
            }
            Ok(false) => ReleaseEnd::NotHeld,
            Err(trouble) => trouble.into(),
        }
    }

    async fn held(&self, grant: &str) -> Option<bool> {
        Some(self.grants.get(grant).is_ok_and(|held| held.believes()))
    }

    fn watchdog(&self) -> Option<Duration> {
        Some(self.row.trusts(self.session))
    }

    fn abilities(&self) -> Abilities {
        let topologies = self.row.topologies.iter();
        Abilities {
            features: Some(vec!["lost".to_owned()]),
            topologies: Some(topologies.map(|name| (*name).to_owned()).collect()),
            ..Abilities::default()
        }
    }

    async fn close(self: Box<Self>) {
        self.store.close().await;
    }
}
