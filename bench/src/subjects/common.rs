//! What the subjects that live in this process have in common: names for grants, tries one after the other, and what they refuse.

use std::{
    collections::HashMap,
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant, UNIX_EPOCH},
};

use async_trait::async_trait;
use lock_core::TopologyKind;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tokio::sync::mpsc;

use super::steps::cmd;
use crate::{
    links::{Links, Trouble},
    subject::{
        AcquireEnd, AcquireRequest, ClientEvent, ConnectTo, Connected, LockClient, ReleaseEnd,
        Subject, SubjectError,
    },
};

/// What is there, or returns how the call ended instead.
macro_rules! or_end {
    ($found:expr) => {
        match $found {
            Ok(found) => found,
            Err(end) => return end,
        }
    };
}

/// Lease of a renewed lock, where the caller names none.
pub(super) const LEASE: Duration = Duration::from_secs(30);

/// Parts of what a client's tasks look up by name, so that they seldom wait for each other.
pub(super) struct Parted<K, V>([Mutex<HashMap<K, V>>; 16]);

impl<K, V> Default for Parted<K, V> {
    fn default() -> Self {
        Parted(std::array::from_fn(|_| Mutex::default()))
    }
}

impl<K, V> Parted<K, V> {
    /// The part of everything that has this number.
    pub(super) fn part(&self, number: u64) -> MutexGuard<'_, HashMap<K, V>> {
        let at = number as usize % self.0.len();
        self.0[at].lock().expect("no panic")
    }
}

/// What a client holds, by the number of the grant; its name is `g` and the number.
pub(super) struct Grants<T> {
    next: AtomicU64,
    held: Parted<u64, T>,
}

impl<T> Default for Grants<T> {
    fn default() -> Self {
        Grants {
            next: AtomicU64::new(1),
            held: Parted::default(),
        }
    }
}

impl<T> Grants<T> {
    /// The number of a grant to come; no other has it.
    pub(super) fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Keeps what is held under a number: the grant's name.
    pub(super) fn keep(&self, number: u64, held: T) -> String {
        self.held.part(number).insert(number, held);
        format!("g{number}")
    }

    /// What was held, which is held no more.
    pub(super) fn take(&self, grant: &str) -> Result<T, ReleaseEnd> {
        let held = number_of(grant).and_then(|number| self.held.part(number).remove(&number));
        held.ok_or_else(|| no_grant(grant))
    }
}

impl<T: Clone> Grants<T> {
    pub(super) fn get(&self, grant: &str) -> Result<T, ReleaseEnd> {
        let held = number_of(grant).and_then(|number| self.held.part(number).get(&number).cloned());
        held.ok_or_else(|| no_grant(grant))
    }
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
        _ => Err(AcquireEnd::Failed(
            "several locks at once are not offered".into(),
        )),
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

    /// A pause of about this length.
    pub(super) fn about(&self, pause: Duration) -> Duration {
        let mut random = self.0.lock().expect("no panic");
        pause.mul_f64(random.random_range(0.95..1.05))
    }
}

/// Pauses before the next try; false if the wait would be over by then.
pub(super) async fn try_again(called: Instant, wait: Option<Duration>, pause: Duration) -> bool {
    if wait.is_some_and(|wait| called.elapsed() + pause > wait) {
        return false;
    }
    tokio::time::sleep(pause).await;
    true
}

/// A lock that is made here by hand.
pub(super) struct ByHand {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    /// Its default first.
    pub(super) kinds: &'static [&'static str],
    /// Whether it takes several independent masters, and not one deployment.
    pub(super) masters: bool,
    /// Makes a client.
    pub(super) client: Box<dyn Fn(Own) -> Box<dyn LockClient> + Send + Sync>,
}

/// What each client of such a lock has for itself.
pub(super) struct Own {
    pub(super) links: Links,
    pub(super) events: mpsc::UnboundedSender<ClientEvent>,
    /// Its name in the history.
    pub(super) name: String,
    /// A name that no other client has: two runs with one seed on one server must not take each other's keys for their own.
    pub(super) identity: String,
    /// Lease of a renewed lock.
    pub(super) lease: Duration,
    pub(super) jitter: Jitter,
}

impl ByHand {
    /// Longest wait for a reply. Longer than the usual second, so that a slow link makes an acquire late before it makes it unknown; of one master
    /// among several longer than the leases of tests, so that slow replies are counted instead of given up.
    fn response_timeout(&self) -> Duration {
        Duration::from_secs(if self.masters { 10 } else { 3 })
    }

    /// Refuses what none of these locks can do: another kind of target than it is for, and waiting for replicas.
    fn refuse(&self, links: &Links, to: &ConnectTo) -> Result<(), SubjectError> {
        let name = self.name;
        let masters = links.topology_kind() == TopologyKind::Masters;
        let refused = match (masters, self.masters) {
            (true, false) => format!(
                "{name} lives in one deployment: it takes redis://, redis-sentinel:// and redis-cluster:// targets, not redlock://"
            ),
            (false, true) => {
                format!("{name} takes several independent masters: a redlock:// target")
            }
            _ if !matches!(to.durability.as_str(), "" | "none") => {
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
        let links = Links::parse(&to.target, self.response_timeout())?;
        self.refuse(&links, to)?;
        if !self.masters {
            // One look at the server, so that an unreachable one is said now and not by the first acquire.
            match links
                .query("locklab", &cmd(&["GET", "locklab:hello"]))
                .await
            {
                Ok::<Option<String>, _>(_) => {}
                // A cluster's key may lie elsewhere; an error reply is an answer too.
                Err(Trouble::Refused(why))
                    if !why.contains("cannot connect") && !why.contains("cannot tell") => {}
                Err(e) => {
                    let why = format!("{}: {}", self.name, e.text());
                    return Err(SubjectError::unreachable(why));
                }
            }
        }
        let (events, receiver) = mpsc::unbounded_channel();
        let since_epoch = UNIX_EPOCH.elapsed().unwrap_or_default().as_nanos();
        let client = (self.client)(Own {
            links,
            events,
            name: to.client.clone(),
            identity: format!("{}-{}-{since_epoch:x}", to.client, std::process::id()),
            lease: to.watchdog.unwrap_or(LEASE),
            jitter: Jitter::new(to.seed),
        });
        Ok(Connected {
            client,
            events: receiver,
        })
    }
}
