//! What the subjects in this process have in common: names for grants, repeated tries, what they refuse.

use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant, UNIX_EPOCH};

use async_trait::async_trait;
use hashbrown::HashMap;
use lock_core::TopologyKind;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tokio::sync::mpsc;

use crate::links::{CommandError, Links, cmd};
use crate::per_thread::PerThread;
use crate::subject::{
    AcquireEnd, AcquireRequest, ClientEvent, ConnectTo, Connected, LockClient, ReleaseEnd, Subject,
    SubjectError,
};

/// Lease of a renewed lock, where the caller names none.
pub(super) const LEASE: Duration = Duration::from_secs(30);

/// What a client holds, by the number of the grant `g<number>`, which says in which thread's part it lies.
pub(super) struct Grants<T>(PerThread<GrantTable<T>, PARTS>);

/// More than a machine for measurements has threads at work; more share.
pub(super) const PARTS: usize = 16;

struct GrantTable<T> {
    given: u64,
    held: HashMap<u64, T>,
}

impl<T> GrantTable<T> {
    fn number(&mut self, here: usize) -> u64 {
        self.given += 1;
        self.given * PARTS as u64 + here as u64
    }
}

impl<T> Default for GrantTable<T> {
    fn default() -> Self {
        GrantTable { given: 0, held: HashMap::new() }
    }
}

impl<T> Default for Grants<T> {
    fn default() -> Self {
        Grants(PerThread::default())
    }
}

impl<T> Grants<T> {
    pub(super) fn number(&self) -> u64 {
        let (here, mut part) = self.0.own();
        part.number(here)
    }

    /// Keeps what is held under a new number, which it is made with: the grant's name.
    pub(super) fn keep_new(&self, held: impl FnOnce(u64) -> T) -> String {
        let (here, mut part) = self.0.own();
        let number = part.number(here);
        part.held.insert(number, held(number));
        name_of(number)
    }

    pub(super) fn keep(&self, number: u64, held: T) -> String {
        self.part(number).held.insert(number, held);
        name_of(number)
    }

    pub(super) fn put_back(&self, grant: &str, held: T) {
        number_of(grant).map(|number| self.keep(number, held));
    }

    pub(super) fn take(&self, grant: &str) -> Result<T, ReleaseEnd> {
        let held = number_of(grant).and_then(|number| self.part(number).held.remove(&number));
        held.ok_or_else(|| no_grant(grant))
    }

    fn part(&self, number: u64) -> MutexGuard<'_, GrantTable<T>> {
        self.0.part(number as usize % PARTS)
    }
}

impl<T: Clone> Grants<T> {
    pub(super) fn get(&self, grant: &str) -> Result<T, ReleaseEnd> {
        let held = number_of(grant).and_then(|number| self.part(number).held.get(&number).cloned());
        held.ok_or_else(|| no_grant(grant))
    }
}

fn name_of(number: u64) -> String {
    let mut digits = itoa::Buffer::new();
    ["g", digits.format(number)].concat()
}

fn number_of(grant: &str) -> Option<u64> {
    grant.strip_prefix('g')?.parse().ok()
}

pub(super) fn no_grant(grant: &str) -> ReleaseEnd {
    ReleaseEnd::Failed(format!("no grant `{grant}`, or it was given back already"))
}

/// The one lock that is asked for, of a client that takes no two together.
pub(super) fn only_lock<'a>(request: &AcquireRequest<'a>) -> Result<&'a str, AcquireEnd> {
    match request.others {
        [] => Ok(request.lock),
        _ => Err(AcquireEnd::Failed("several locks at once are not offered".into())),
    }
}

/// Draws pauses, so that waiters do not march in step.
pub(super) struct Jitter(Mutex<ChaCha8Rng>);

impl Jitter {
    pub(super) fn new(seed: u64) -> Self {
        Jitter(Mutex::new(ChaCha8Rng::seed_from_u64(seed)))
    }

    /// A pause between two tries: 1 to 3 ms.
    pub(super) fn pause(&self) -> Duration {
        let mut random = self.0.lock().expect("no panic");
        Duration::from_micros(random.random_range(1_000..3_000))
    }

    pub(super) fn about(&self, pause: Duration) -> Duration {
        let mut random = self.0.lock().expect("no panic");
        pause.mul_f64(random.random_range(0.95..1.05))
    }
}

pub(super) fn lost(grant: &str, reason: &str) -> ClientEvent {
    ClientEvent::Lost { grant: grant.to_owned(), reason: reason.to_owned(), at: Instant::now() }
}

pub(super) fn extended(grant: &str, lease: Duration, sent_at: Instant) -> ClientEvent {
    ClientEvent::Extended { grant: grant.to_owned(), lease, sent_at: Some(sent_at) }
}

/// A name that no other client has: two runs with one seed on one server must not take each other's keys.
pub(super) fn identity(client: &str) -> String {
    let since_epoch = UNIX_EPOCH.elapsed().unwrap_or_default().as_nanos();
    format!("{client}-{}-{since_epoch:x}", std::process::id())
}

/// A century is without bound.
pub(super) const UNBOUND: Duration = Duration::from_secs(3_153_600_000);

/// Pauses before the next try; false if the wait would be over by then.
pub(super) async fn try_again(called: Instant, wait: Option<Duration>, pause: Duration) -> bool {
    if wait.is_some_and(|wait| called.elapsed() + pause > wait) {
        return false;
    }
    tokio::time::sleep(pause).await;
    true
}

pub(super) struct ByHand {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) kinds: &'static [&'static str],
    /// Longest wait for a reply: more than the usual second, so that a slow link makes no acquire unknown.
    pub(super) response_timeout: Duration,
    /// Looks the names of its target up when it is connected, and never again.
    pub(super) resolves_once: bool,
    /// Says that a grant waits for replicas where that is asked of it.
    pub(super) says_durable: bool,
    pub(super) client: Box<dyn Fn(LockClientParts) -> Box<dyn LockClient> + Send + Sync>,
}

pub(super) struct LockClientParts {
    pub(super) links: Links,
    pub(super) events: mpsc::UnboundedSender<ClientEvent>,
    pub(super) name: String,
    /// See [`identity`].
    pub(super) identity: String,
    pub(super) lease: Duration,
    pub(super) jitter: Jitter,
}

impl ByHand {
    /// Refuses what none of these locks can do: another kind of target, and waiting for replicas.
    fn refuse(&self, links: &Links, to: &ConnectTo) -> Result<(), SubjectError> {
        let name = self.name;
        let masters = links.topology_kind() == TopologyKind::Masters;
        let refused = match (masters, self.kinds == ["redlock"]) {
            (true, false) => format!(
                "{name} lives in one deployment: it takes redis://, redis-sentinel:// and redis-cluster:// targets, not redlock://"
            ),
            (false, true) => format!("{name} takes several independent masters: a redlock:// target"),
            _ if !self.says_durable && !matches!(to.durability.as_str(), "" | "none") => {
                return Err(SubjectError::NotApplicable(format!(
                    "{name} does not wait for replicas: durability `{}` cannot be asked of it",
                    to.durability
                )));
            }
            _ => return Ok(()),
        };
        Err(SubjectError::NotApplicable(refused))
    }
}

#[async_trait]
impl Subject for ByHand {
    fn name(&self) -> &str {
        self.name
    }

    fn about(&self) -> &str {
        self.about
    }

    fn kinds(&self) -> Vec<String> {
        self.kinds.iter().map(|kind| (*kind).to_owned()).collect()
    }

    async fn connect(&self, to: &ConnectTo) -> Result<Connected, SubjectError> {
        let mut links = Links::parse(&to.target, self.response_timeout)?;
        if self.resolves_once {
            links.resolve().await;
        }
        self.refuse(&links, to)?;
        if links.topology_kind() != TopologyKind::Masters {
            // One look at the server, so that an unreachable one is said now and not by the first acquire.
            match links.query("locklab", &cmd(&["GET", "locklab:hello"])).await {
                Ok::<Option<String>, _>(_) => {}
                // A cluster's key may lie elsewhere; an error reply is an answer too.
                Err(CommandError::Refused(why))
                    if !why.contains("cannot connect") && !why.contains("cannot tell") => {}
                Err(e) => return Err(SubjectError::unreachable(format!("{}: {e}", self.name))),
            }
        }
        let (events, receiver) = mpsc::unbounded_channel();
        let client = (self.client)(LockClientParts {
            links,
            events,
            name: to.client.clone(),
            identity: identity(&to.client),
            lease: to.watchdog.unwrap_or(LEASE),
            jitter: Jitter::new(to.seed),
        });
        Ok(Connected { client, events: receiver })
    }
}
