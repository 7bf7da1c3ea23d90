//! Each kind of the lock library as a subject, `lock-core:KIND`; several locks as one are `lock-core:multi`,
//! permits `lock-core:semaphore` and `lock-core:permits`, terms of leading `lock-core:election`.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use futures_util::future::Either;
use hashbrown::HashMap;
use lock_core::{
    Acquire, Client, ClientOptions, Credentials, CredentialsProvider, Durability, ErrorKind, Guard,
    GuardEvent, Kind, Lease, Lock, LockError, MultiLock, Owner, Released, Target, TopologyKind,
    UnknownDurability, Wait,
};
use tokio::sync::mpsc;

use super::CHANGED_PASSWORD;
use super::common::{Grants, PARTS, no_grant};
use super::library_hold::LibraryHold;
use crate::abilities::Abilities;
use crate::per_thread::PerThread;
use crate::servers::consent;
use crate::subject::{
    AcquireEnd, AcquireRequest, Caller, ClientEvent, ConnectTo, Connected, LockClient, ReleaseEnd, Subject,
    SubjectError,
};

/// So many locks a client keeps by name in each part: who takes more hardly takes one again.
const MOST_KEPT: usize = 256;

/// So often a client tries to connect to servers that are silent.
const TRIES: u32 = 3;

pub(super) fn subjects() -> impl Iterator<Item = Arc<dyn Subject>> {
    let kinds = SubjectKind::all().map(|kind| Engine {
        kind,
        name: format!("lock-core:{}", kind.name()),
        about: kind.about(),
        vault: None,
    });
    let election = Engine {
        kind: SubjectKind::Election,
        name: "lock-core:election".to_owned(),
        about: SubjectKind::Election.about(),
        vault: None,
    };
    let vaults = VAULTS.map(|(vault, name, does)| Engine {
        kind: SubjectKind::One(Kind::Reentrant),
        name: format!("lock-core:{name}"),
        about: format!("the re-entrant lock, with a provider of its password that {does}"),
        vault: Some(vault),
    });
    kinds.chain([election]).chain(vaults).map(|engine| Arc::new(engine) as Arc<dyn Subject>)
}

/// Where a client asks for its password: what the fault `change-password` sets, or any where none is set.
#[derive(Clone, Copy)]
enum Vault {
    Slow,
    Failing,
    Silent,
}

const VAULTS: [(Vault, &str, &str); 3] = [
    (Vault::Slow, "slow-vault", "answers after 400 ms"),
    (Vault::Failing, "failing-vault", "fails each other time"),
    (Vault::Silent, "silent-vault", "answers twice and never again"),
];

impl Vault {
    fn provider(self) -> CredentialsProvider {
        let asked = AtomicU32::new(0);
        CredentialsProvider::new(move || {
            let before = asked.fetch_add(1, Ordering::Relaxed);
            async move {
                match self {
                    Vault::Slow => tokio::time::sleep(Duration::from_millis(400)).await,
                    Vault::Failing if before.is_multiple_of(2) => return Err("the vault is sealed".into()),
                    Vault::Silent if before > 1 => std::future::pending().await,
                    Vault::Failing | Vault::Silent => {}
                }
                Ok(Credentials::new(CHANGED_PASSWORD).user("default").valid_for(Duration::from_secs(1)))
            }
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SubjectKind {
    One(Kind),
    /// A queued lock of which each hold is a term of leading: the same promises, by the calls of an election.
    Election,
    /// Re-entrant locks, held together.
    Multi,
    /// A permit of as many as the request says.
    Semaphore,
    Permits,
}

impl SubjectKind {
    fn all() -> impl Iterator<Item = Self> {
        let kinds = Kind::ALL.iter().copied().map(SubjectKind::One);
        kinds.chain([SubjectKind::Multi, SubjectKind::Semaphore, SubjectKind::Permits])
    }

    fn name(self) -> &'static str {
        match self {
            SubjectKind::One(kind) => kind.name(),
            SubjectKind::Election => Kind::Queued.name(),
            SubjectKind::Multi => "multi",
            SubjectKind::Semaphore => "semaphore",
            SubjectKind::Permits => "permits",
        }
    }

    fn about(self) -> String {
        match self {
            SubjectKind::One(kind) => format!("the {} lock of this workspace's library", kind.name()),
            SubjectKind::Election => "a term of leading in an election of this workspace's library".into(),
            SubjectKind::Multi => "several re-entrant locks of this workspace's library as one".into(),
            SubjectKind::Semaphore => {
                "a permit of this workspace's semaphore, which has as many as the request says".into()
            }
            SubjectKind::Permits => {
                "a permit with a lease of this workspace's library, of as many as the request says".into()
            }
        }
    }

    fn has_permits(self) -> bool {
        matches!(self, SubjectKind::Semaphore | SubjectKind::Permits)
    }

    /// What a client of this kind is asked for by a name.
    fn or_named(self, name: &str) -> Result<Self, String> {
        if name.is_empty() || name == self.name() {
            return Ok(self);
        }
        SubjectKind::all()
            .find(|kind| kind.name() == name)
            .ok_or_else(|| format!("the library has no kind `{name}`"))
    }

    fn is_quorum(self) -> bool {
        self == SubjectKind::One(Kind::Redlock)
    }
}

struct Engine {
    kind: SubjectKind,
    name: String,
    about: String,
    vault: Option<Vault>,
}

#[async_trait]
impl Subject for Engine {
    fn name(&self) -> &str {
        &self.name
    }

    fn about(&self) -> &str {
        &self.about
    }

    fn kinds(&self) -> Vec<String> {
        // A scenario may mix kinds, e.g. read and write; the one it is named for is the default.
        let others = SubjectKind::all().filter(|kind| kind.name() != self.kind.name());
        let quorum = self.kind.is_quorum();
        std::iter::once(self.kind)
            .chain(others.filter(|kind| !quorum && !kind.is_quorum()))
            .map(|kind| kind.name().to_owned())
            .collect()
    }

    fn has_callers(&self) -> bool {
        matches!(self.kind, SubjectKind::One(_))
    }

    async fn connect(&self, to: &ConnectTo) -> Result<Connected, SubjectError> {
        let target: Target = to.target.parse().map_err(|e| usage!("{e}"))?;
        let masters = target.topology_kind() == TopologyKind::Masters;
        match (masters, self.kind.is_quorum()) {
            (true, false) => bail!(
                "{} takes one deployment; {target} is several independent masters: use lock-core:redlock",
                self.name
            ),
            (false, true) => bail!(
                "lock-core:redlock needs several independent masters (redlock://h:p,h:p,h:p), and {target} is none"
            ),
            _ => {}
        }
        let mut options = ClientOptions::default().durability(durability(&to.durability)?);
        options.only_named_addresses = consent::is_for_named_alone();
        if let Some(watchdog) = to.watchdog {
            options = options.watchdog_lease(watchdog);
        }
        options.client_name = Some(format!("locklab-{}", to.client));
        options.credentials = self.vault.map(Vault::provider);
        let watchdog = options.watchdog_lease;
        let mut tries = 0;
        let client = loop {
            let began = Instant::now();
            tries += 1;
            match Client::connect(&target, options.clone()).await {
                Ok(client) => break client,
                Err(e) if e.kind() == ErrorKind::Invalid => bail!("{}: {e}", self.name),
                // On a busy machine servers are slow to answer, and a run that cannot begin shows nothing.
                Err(_) if tries < TRIES && began.elapsed() >= options.connect_timeout => {}
                Err(e) => return Err(SubjectError::unreachable(format!("{}: {e}", self.name))),
            }
        };
        let (events, receiver) = mpsc::unbounded_channel();
        Ok(Connected {
            client: Box::new(EngineClient {
                locks: Arc::new(Locks { client: client.clone(), kept: PerThread::default() }),
                client,
                default_kind: self.kind,
                is_told: self.vault.is_some(),
                watchdog,
                owners: Mutex::default(),
                begun: Mutex::default(),
                grants: Grants::default(),
                events,
            }),
            events: receiver,
        })
    }
}

/// `none`, `wait:K`, `wait:all`; nothing said is `none`.
fn durability(text: &str) -> Result<Durability, SubjectError> {
    match text {
        "" => Ok(Durability::None),
        named => named.parse().map_err(|error: UnknownDurability| SubjectError::usage(error.to_string())),
    }
}

/// A hold. The guard is taken out by the release; an extend under way is waited for.
type Hold = Arc<tokio::sync::Mutex<Option<LibraryHold>>>;

/// Locks by name, which are kept as a caller that takes one again and again would keep it.
struct Locks {
    client: Client,
    kept: PerThread<HashMap<String, Lock>, PARTS>,
}

impl Locks {
    fn get(&self, kind: Kind, name: &str) -> Result<Lock, LockError> {
        let (_, mut kept) = self.kept.own();
        match kept.get(name) {
            Some(lock) if lock.kind() == kind => Ok(lock.clone()),
            _ => {
                let lock = self.client.lock(kind, name)?;
                if kept.len() < MOST_KEPT {
                    kept.insert(name.to_owned(), lock.clone());
                }
                Ok(lock)
            }
        }
    }
}

struct EngineClient {
    client: Client,
    default_kind: SubjectKind,
    /// A provider tells it its password.
    is_told: bool,
    watchdog: Duration,
    owners: Mutex<HashMap<String, Owner>>,
    locks: Arc<Locks>,
    begun: Mutex<BTreeSet<(&'static str, String)>>,
    grants: Grants<Hold>,
    events: mpsc::UnboundedSender<ClientEvent>,
}

impl EngineClient {
    /// The same owner for the same name, so that it enters again where the kind allows it. A name that is a
    /// number of the engine's own is that one, which it refuses.
    fn owner(&self, name: &str) -> Owner {
        if let Some(reserved) = name.parse().ok().filter(|number| *number >= 1_u64 << 63) {
            return Owner::numbered(reserved);
        }
        let mut owners = self.owners.lock().expect("no panic");
        if let Some(owner) = owners.get(name) {
            return *owner;
        }
        let owner = Owner::numbered(owners.len() as u64 + 1);
        owners.insert(name.to_owned(), owner);
        owner
    }

    async fn take(
        &self,
        kind: SubjectKind,
        request: &AcquireRequest<'_>,
        how: Acquire,
    ) -> Result<LibraryHold, LockError> {
        if let SubjectKind::One(kind) = kind {
            let lock = self.locks.get(kind, request.lock)?;
            return Ok(LibraryHold::One(lock.acquire_with(how).await?));
        }
        // Apart, so that what is taken most often is not as large as what is largest.
        Box::pin(async move {
            if kind == SubjectKind::Semaphore {
                let held = self.client.semaphore(request.lock)?.acquire_with(1, how.wait).await?;
                return Ok(LibraryHold::Counted(held));
            }
            if kind == SubjectKind::Election {
                let election = self.client.election(request.lock)?;
                return Ok(LibraryHold::Leading(election.campaign_with(how).await?));
            }
            if kind == SubjectKind::Permits {
                let permits = self.client.permits(request.lock)?;
                return Ok(LibraryHold::One(permits.acquire_with(how).await?.into_guard()));
            }
            let members = std::iter::once(&request.lock).chain(request.others);
            let members = members.map(|name| self.client.lock(Kind::Reentrant, name));
            let members: Vec<_> = members.collect::<Result<_, _>>()?;
            Ok(LibraryHold::Several(MultiLock::new(members)?.acquire_with(how).await?))
        })
        .await
    }

    /// Begins a semaphore with as many permits as the request says, if nobody has; once for each name.
    async fn begin(&self, kind: SubjectKind, request: &AcquireRequest<'_>) -> Result<(), LockError> {
        let name = request.lock;
        let key = (kind.name(), name.to_owned());
        if self.begun.lock().expect("no panic").contains(&key) {
            return Ok(());
        }
        let permits = request.permits.unwrap_or(1);
        if kind == SubjectKind::Semaphore {
            self.client.semaphore(name)?.try_set_permits(permits, None).await?;
        } else {
            self.client.permits(name)?.try_set_permits(permits).await?;
        }
        self.begun.lock().expect("no panic").insert(key);
        Ok(())
    }

    /// Passes on what is reported of a hold; a caller that wants none drops the receiver and pays nothing.
    fn watch(&self, number: u64, held: &LibraryHold) {
        if self.events.is_closed() {
            return;
        }
        let grant = &format!("g{number}");
        // The whole is extended when its last member is, which no event says; it is lost with the first.
        if let LibraryHold::Several(guard) = held {
            guard.members().iter().for_each(|guard| self.watch_one(grant, guard, false));
        }
        held.guard().into_iter().for_each(|guard| self.watch_one(grant, guard, true));
    }

    fn watch_one(&self, grant: &str, guard: &Guard, renewals: bool) {
        let mut from = guard.events();
        let (events, grant) = (self.events.clone(), grant.to_owned());
        lock_core::machine::spawn(async move {
            while let Some(event) = from.next().await {
                let grant = grant.clone();
                let event = match event {
                    GuardEvent::Extended { .. } if !renewals => continue,
                    GuardEvent::Extended { lease, sent_at } => {
                        ClientEvent::Extended { grant, lease, sent_at: Some(sent_at) }
                    }
                    GuardEvent::Lost { reason, at } => {
                        ClientEvent::Lost { grant, reason: format!("{reason:?}"), at }
                    }
                    _ => continue,
                };
                if events.send(event).is_err() {
                    return;
                }
            }
        });
    }
}

fn how(wait: Option<Duration>, lease: Option<Duration>) -> Acquire {
    Acquire::default()
        .wait(wait.map_or(Wait::Forever, Wait::AtMost))
        .lease(lease.map_or(Lease::Renewed, Lease::Fixed))
}

fn acquire_end(error: &LockError) -> AcquireEnd {
    match error.kind() {
        ErrorKind::Busy => AcquireEnd::Busy,
        _ if error.is_definite() => AcquireEnd::Failed(error.to_string()),
        _ => AcquireEnd::Unknown(error.to_string()),
    }
}

pub(super) fn release_end(error: &LockError) -> ReleaseEnd {
    match error.kind() {
        ErrorKind::NotHeld => ReleaseEnd::NotHeld,
        _ if error.is_definite() => ReleaseEnd::Failed(error.to_string()),
        _ => ReleaseEnd::Unknown(error.to_string()),
    }
}

#[async_trait]
impl LockClient for EngineClient {
    async fn acquire(&self, request: AcquireRequest<'_>) -> AcquireEnd {
        let kind = or_end!(self.default_kind.or_named(request.kind).map_err(AcquireEnd::Failed));
        if !request.others.is_empty() && kind != SubjectKind::Multi {
            return AcquireEnd::Failed(format!("a {} lock is one; several at once are multi", kind.name()));
        }
        if !kind.has_permits() && request.permits.is_some_and(|permits| permits != 1) {
            return AcquireEnd::Failed(format!("a {} lock has no permits", kind.name()));
        }
        let mut wait = request.wait;
        if kind.has_permits() {
            let called = Instant::now();
            let begun = Box::pin(self.begin(kind, &request));
            let begun = match request.wait.filter(|wait| !wait.is_zero()) {
                None => begun.await,
                // A semaphore that cannot be begun in time has no permit free either.
                Some(wait) => tokio::time::timeout(wait, begun).await.unwrap_or(Ok(())),
            };
            if let Err(e) = begun {
                return acquire_end(&e);
            }
            wait = request.wait.map(|wait| {
                // None at all would be one try, of the response timeout.
                wait.saturating_sub(called.elapsed()).max(wait.min(Duration::from_millis(1)))
            });
        }
        let mut how = how(wait, request.lease);
        // A permit has no owner but its id; all else is nobody's in particular, unless that may come again.
        if request.reenters && !kind.has_permits() {
            how = how.owner(self.owner(request.owner));
        }
        match self.take(kind, &request, how).await {
            Err(e) => acquire_end(&e),
            Ok(held) => {
                let (token, sent_at) = (held.token(), held.sent_at());
                let lease = held.less_than(request.lease.unwrap_or(self.watchdog));
                AcquireEnd::Ok {
                    grant: self.grants.keep_new(|number| {
                        self.watch(number, &held);
                        Arc::new(tokio::sync::Mutex::new(Some(held)))
                    }),
                    token,
                    sent_at,
                    returned_at: None,
                    lease,
                    at: None,
                }
            }
        }
    }

    async fn release(&self, grant: &str) -> ReleaseEnd {
        let held = match Arc::try_unwrap(or_end!(self.grants.take(grant))) {
            Ok(alone) => alone.into_inner(),
            Err(extended) => extended.lock().await.take(),
        };
        match held {
            None => no_grant(grant),
            Some(held) => match held.release().await {
                Ok(()) => ReleaseEnd::Ok,
                Err(e) => release_end(&e),
            },
        }
    }

    async fn extend(&self, grant: &str, lease: Duration) -> ReleaseEnd {
        let hold = or_end!(self.grants.get(grant));
        let guard = hold.lock().await;
        match guard.as_ref() {
            None => no_grant(grant),
            Some(held) => held.extend(lease).await,
        }
    }

    async fn held(&self, grant: &str) -> Option<bool> {
        let Ok(hold) = self.grants.get(grant) else { return Some(false) };
        let guard = hold.lock().await;
        Some(guard.as_ref().is_some_and(|guard| !guard.is_lost()))
    }

    fn watchdog(&self) -> Option<Duration> {
        Some(self.watchdog)
    }

    fn caller(&self, kinds: &[&str]) -> Option<Box<dyn Caller>> {
        let is_lock = |kind: &&str| matches!(self.default_kind.or_named(kind), Ok(SubjectKind::One(_)));
        // What is reported of a hold names its grant.
        let has_names = !self.events.is_closed();
        (!has_names && kinds.iter().all(is_lock)).then(|| {
            Box::new(EngineCaller {
                locks: self.locks.clone(),
                default_kind: self.default_kind,
                last: None,
                lease: None,
                held: None,
                ask: |lock: Lock, how| async move { lock.acquire_with(how).await },
                give: |guard: Guard| async move { guard.release().await },
                call: Box::pin(None),
            }) as Box<dyn Caller>
        })
    }

    fn abilities(&self) -> Abilities {
        Abilities {
            features: Some(
                (["durability", "lost", "nested_leases"].into_iter())
                    .chain(self.is_told.then_some("credentials"))
                    .map(str::to_owned)
                    .collect(),
            ),
            leaseless: vec!["semaphore".to_owned()],
            ..Abilities::default()
        }
    }

    async fn commands(&self) -> Option<u64> {
        Some(self.client.stats().commands)
    }

    async fn close(self: Box<Self>) {
        // Holds that nobody gave back are left to their leases, as a client that goes away leaves them.
        self.client.close().await;
    }
}

/// A caller of single locks. `A` and `R` are the futures of its acquire and release, which have no names.
struct EngineCaller<A, R> {
    locks: Arc<Locks>,
    default_kind: SubjectKind,
    /// The lock that it asked for last, which most callers ask for again.
    last: Option<Lock>,
    lease: Option<Duration>,
    held: Option<Guard>,
    ask: fn(Lock, Acquire) -> A,
    give: fn(Guard) -> R,
    /// The call that was begun; each has the room of the one before.
    call: Pin<Box<Option<Either<A, R>>>>,
}

impl<A, R> EngineCaller<A, R> {
    fn begun(&mut self) -> Option<Either<Pin<&mut A>, Pin<&mut R>>> {
        self.call.as_mut().as_pin_mut().map(Either::as_pin_mut)
    }

    fn lock(&mut self, request: &AcquireRequest<'_>) -> Result<Lock, AcquireEnd> {
        let kind = match self.default_kind.or_named(request.kind) {
            Ok(SubjectKind::One(kind)) => kind,
            Ok(other) => {
                return Err(AcquireEnd::Failed(format!("a caller of single locks has no {}", other.name())));
            }
            Err(why) => return Err(AcquireEnd::Failed(why)),
        };
        let is_it = |lock: &&Lock| lock.kind() == kind && lock.name() == request.lock;
        if let Some(last) = self.last.as_ref().filter(is_it) {
            return Ok(last.clone());
        }
        Ok(self.last.insert(self.locks.get(kind, request.lock).map_err(|error| acquire_end(&error))?).clone())
    }
}

impl<A, R> Caller for EngineCaller<A, R>
where
    A: Future<Output = Result<Guard, LockError>> + Send,
    R: Future<Output = Result<Released, LockError>> + Send,
{
    fn begin_acquire(&mut self, request: AcquireRequest<'_>) -> Result<(), AcquireEnd> {
        let lock = self.lock(&request)?;
        self.lease = request.lease;
        self.call.set(Some(Either::Left((self.ask)(lock, how(request.wait, request.lease)))));
        Ok(())
    }

    fn poll_acquire(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Duration>, AcquireEnd>> {
        let Some(Either::Left(call)) = self.begun() else { panic!("no acquire was begun") };
        let ended = ready!(call.poll(context));
        self.call.set(None);
        Poll::Ready(match ended {
            Ok(guard) => {
                let granted = self.lease.map(|asked| (asked, guard.granted_lease()));
                self.held = Some(guard);
                Ok(granted.and_then(|(asked, granted)| (granted < asked).then_some(granted)))
            }
            Err(error) => Err(acquire_end(&error)),
        })
    }

    fn sent_at(&self) -> Option<Instant> {
        self.held.as_ref().map(Guard::sent_at)
    }

    fn begin_release(&mut self) {
        self.call.set(Some(Either::Right((self.give)(self.held.take().expect("acquired before")))));
    }

    fn poll_release(&mut self, context: &mut Context<'_>) -> Poll<ReleaseEnd> {
        let Some(Either::Right(call)) = self.begun() else { panic!("no release was begun") };
        let ended = ready!(call.poll(context));
        self.call.set(None);
        Poll::Ready(ended.map_or_else(|error| release_end(&error), |_| ReleaseEnd::Ok))
    }
}
