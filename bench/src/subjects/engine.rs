//! Turns each kind of the lock library into a subject, `lock-core:KIND`.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use lock_core::{
    Acquire, Client, ClientOptions, Durability, ErrorKind, Guard, GuardEvent, Kind, Lease,
    LockError, Owner, Shape, Target, UnknownDurability, Wait,
};
use tokio::sync::mpsc;

use crate::subject::{
    AcquireEnd, AcquireRequest, ClientEvent, ConnectTo, Connected, LockClient, ReleaseEnd, Subject,
    SubjectError,
};

/// One subject for every kind that the library has.
pub(super) fn subjects() -> impl Iterator<Item = Arc<dyn Subject>> {
    Kind::ALL.iter().map(|kind| {
        Arc::new(Engine {
            kind: *kind,
            name: format!("lock-core:{}", kind.name()),
            about: format!("the {} lock of this workspace's library", kind.name()),
        }) as Arc<dyn Subject>
    })
}

struct Engine {
    kind: Kind,
    name: String,
    about: String,
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
        let others = Kind::ALL.iter().filter(|kind| **kind != self.kind);
        let quorum = self.kind == Kind::Redlock;
        std::iter::once(&self.kind)
            .chain(others.filter(|kind| !quorum && **kind != Kind::Redlock))
            .map(|kind| kind.name().to_owned())
            .collect()
    }

    async fn connect(&self, to: &ConnectTo) -> Result<Connected, SubjectError> {
        let target: Target = to
            .target
            .parse()
            .map_err(|e| SubjectError::usage(format!("{e}")))?;
        let masters = target.shape() == Shape::Masters;
        if masters != (self.kind == Kind::Redlock) {
            return Err(SubjectError::usage(if masters {
                format!(
                    "{} takes one deployment; {target} is several independent masters: use lock-core:redlock",
                    self.name
                )
            } else {
                format!(
                    "lock-core:redlock needs several independent masters (redlock://h:p,h:p,h:p), and {target} is none"
                )
            }));
        }
        let mut options = ClientOptions::default().durability(durability(&to.durability)?);
        if let Some(watchdog) = to.watchdog {
            options = options.watchdog_lease(watchdog);
        }
        options.client_name = Some(format!("locklab-{}", to.client));
        let watchdog = options.watchdog_lease;
        let client = Client::connect(&target, options)
            .await
            .map_err(|e| SubjectError {
                unreachable: e.kind() != ErrorKind::Invalid,
                message: format!("{}: {e}", self.name),
            })?;
        let (events, receiver) = mpsc::unbounded_channel();
        Ok(Connected {
            client: Box::new(EngineClient {
                client,
                default_kind: self.kind,
                watchdog,
                owners: Mutex::default(),
                next_grant: AtomicU64::new(1),
                grants: Mutex::default(),
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
        named => named
            .parse()
            .map_err(|error: UnknownDurability| SubjectError::usage(error.to_string())),
    }
}

/// A hold. The guard is taken out by the release; an extend under way is waited for.
type Hold = Arc<tokio::sync::Mutex<Option<Guard>>>;

struct EngineClient {
    client: Client,
    default_kind: Kind,
    watchdog: Duration,
    owners: Mutex<HashMap<String, Owner>>,
    next_grant: AtomicU64,
    grants: Mutex<HashMap<String, Hold>>,
    events: mpsc::UnboundedSender<ClientEvent>,
}

impl EngineClient {
    /// The same owner for the same name, so that it enters again where the kind allows it.
    fn owner(&self, name: &str) -> Owner {
        let mut owners = self.owners.lock().expect("no panic");
        if let Some(owner) = owners.get(name) {
            return *owner;
        }
        let owner = Owner::numbered(owners.len() as u64 + 1);
        owners.insert(name.to_owned(), owner);
        owner
    }

    fn kind(&self, name: &str) -> Result<Kind, String> {
        if name.is_empty() {
            return Ok(self.default_kind);
        }
        Kind::ALL
            .iter()
            .copied()
            .find(|kind| kind.name() == name)
            .ok_or_else(|| format!("the library has no kind `{name}`"))
    }

    /// Passes on what a guard reports. Whoever wants no events drops the receiver and pays for none.
    fn watch(&self, grant: &str, guard: &Guard) {
        if self.events.is_closed() {
            return;
        }
        let mut from = guard.events();
        let (events, grant) = (self.events.clone(), grant.to_owned());
        tokio::spawn(async move {
            while let Some(event) = from.next().await {
                let grant = grant.clone();
                let event = match event {
                    GuardEvent::Extended { lease, sent_at } => ClientEvent::Extended {
                        grant,
                        lease,
                        sent_at: Some(sent_at),
                    },
                    GuardEvent::Lost { reason, at } => ClientEvent::Lost {
                        grant,
                        reason: format!("{reason:?}"),
                        at,
                    },
                    _ => continue,
                };
                if events.send(event).is_err() {
                    return;
                }
            }
        });
    }

    fn hold(&self, grant: &str) -> Result<Hold, ReleaseEnd> {
        let grants = self.grants.lock().expect("no panic");
        grants.get(grant).cloned().ok_or_else(|| no_grant(grant))
    }
}

fn no_grant(grant: &str) -> ReleaseEnd {
    ReleaseEnd::Failed(format!("no grant `{grant}`, or it was given back already"))
}

fn acquire_end(error: &LockError) -> AcquireEnd {
    match error.kind() {
        ErrorKind::Busy => AcquireEnd::Busy,
        _ if error.is_definite() => AcquireEnd::Failed(error.to_string()),
        _ => AcquireEnd::Unknown(error.to_string()),
    }
}

fn release_end(error: &LockError) -> ReleaseEnd {
    match error.kind() {
        ErrorKind::NotHeld => ReleaseEnd::NotHeld,
        _ if error.is_definite() => ReleaseEnd::Failed(error.to_string()),
        _ => ReleaseEnd::Unknown(error.to_string()),
    }
}

#[async_trait]
impl LockClient for EngineClient {
    async fn acquire(&self, request: AcquireRequest) -> AcquireEnd {
        let [name] = request.locks.as_slice() else {
            return AcquireEnd::Failed("several locks at once are not offered".into());
        };
        if request.permits.is_some_and(|permits| permits != 1) {
            return AcquireEnd::Failed("permits are not offered".into());
        }
        let lock = match self.kind(&request.kind) {
            Ok(kind) => self.client.lock(kind, name),
            Err(why) => return AcquireEnd::Failed(why),
        };
        let how = Acquire::default()
            .owner(self.owner(&request.owner))
            .wait(match request.wait {
                None => Wait::Forever,
                Some(wait) if wait.is_zero() => Wait::Try,
                Some(wait) => Wait::AtMost(wait),
            })
            .lease(request.lease.map_or(Lease::Renewed, Lease::Fixed));
        let acquired = match lock {
            Ok(lock) => lock.acquire(how).await,
            Err(e) => Err(e),
        };
        match acquired {
            Err(e) => acquire_end(&e),
            Ok(guard) => {
                let grant = format!("g{}", self.next_grant.fetch_add(1, Ordering::Relaxed));
                self.watch(&grant, &guard);
                let end = AcquireEnd::Ok {
                    grant: grant.clone(),
                    token: guard.token(),
                    sent_at: Some(guard.sent_at()),
                    lease: request
                        .lease
                        .map(|_| guard.granted_lease())
                        .filter(|granted| Some(*granted) < request.lease),
                };
                let hold = Arc::new(tokio::sync::Mutex::new(Some(guard)));
                self.grants.lock().expect("no panic").insert(grant, hold);
                end
            }
        }
    }

    async fn release(&self, grant: &str) -> ReleaseEnd {
        let hold = self.grants.lock().expect("no panic").remove(grant);
        let Some(hold) = hold else {
            return no_grant(grant);
        };
        let guard = hold.lock().await.take();
        match guard {
            None => no_grant(grant),
            Some(guard) => match guard.release().await {
                Ok(_) => ReleaseEnd::Ok,
                Err(e) => release_end(&e),
            },
        }
    }

    async fn extend(&self, grant: &str, lease: Duration) -> ReleaseEnd {
        let hold = match self.hold(grant) {
            Ok(hold) => hold,
            Err(end) => return end,
        };
        let guard = hold.lock().await;
        match guard.as_ref() {
            None => no_grant(grant),
            Some(guard) => match guard.extend(lease).await {
                Ok(()) => ReleaseEnd::Ok,
                Err(e) => release_end(&e),
            },
        }
    }

    async fn held(&self, grant: &str) -> Option<bool> {
        let Ok(hold) = self.hold(grant) else {
            return Some(false);
        };
        let guard = hold.lock().await;
        Some(guard.as_ref().is_some_and(|guard| !guard.is_lost()))
    }

    fn pid(&self) -> Option<u32> {
        None
    }

    fn watchdog(&self) -> Option<Duration> {
        Some(self.watchdog)
    }

    fn commands(&self) -> Option<u64> {
        Some(self.client.stats().commands)
    }

    async fn close(self: Box<Self>) {
        // Holds that nobody gave back are left to their leases, as a client that goes away leaves them.
        self.client.close().await;
    }
}
