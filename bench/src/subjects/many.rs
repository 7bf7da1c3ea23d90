//! Locks that hold several names or count, known to be wrong, each in one thing.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use async_trait::async_trait;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use tokio::sync::mpsc;

use super::{
    naive::{identity, no_grant, poll_pause, release_end},
    recipe::SET_NX_PX,
    steps::{Steps, cmd},
};
use lock_core::TopologyKind;

use crate::{
    links::{Links, Trouble},
    subject::{
        AcquireEnd, AcquireRequest, ConnectTo, Connected, LockClient, ReleaseEnd, Subject,
        SubjectError,
    },
};

const RESPONSE: Duration = Duration::from_secs(3);
const LEASE: Duration = Duration::from_secs(30);

/// What is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flaw {
    /// Several locks are held as soon as the first of them is.
    FirstIsEnough,
    /// A permit is taken by a look and, a moment later, a count.
    LooksThenCounts,
}

/// Each is wrong in one thing.
pub(super) fn subjects() -> impl Iterator<Item = Arc<dyn Subject>> {
    [
        Many {
            name: "broken:multi-first-is-enough",
            about: "holds several locks as one as soon as it has the first; the others it takes if they are free",
            kinds: &["multi"],
            flaw: Flaw::FirstIsEnough,
        },
        Many {
            name: "broken:semaphore-looks-then-counts",
            about: "a semaphore that looks whether a permit is free and counts itself in a moment later",
            kinds: &["semaphore", "permits"],
            flaw: Flaw::LooksThenCounts,
        },
    ]
    .into_iter()
    .map(|many| Arc::new(many) as Arc<dyn Subject>)
}

struct Many {
    name: &'static str,
    about: &'static str,
    kinds: &'static [&'static str],
    flaw: Flaw,
}

#[async_trait]
impl Subject for Many {
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
        let links = Links::parse(&to.target, RESPONSE)?;
        if links.topology_kind() == TopologyKind::Masters {
            return Err(SubjectError::usage(format!(
                "{} lives in one deployment, not behind redlock://",
                self.name
            )));
        }
        let (events, receiver) = mpsc::unbounded_channel();
        Ok(Connected {
            client: Box::new(ManyClient {
                flaw: self.flaw,
                steps: Steps::new(&SET_NX_PX, links, events),
                lease: to.watchdog.unwrap_or(LEASE),
                identity: identity(&to.client),
                jitter: Mutex::new(ChaCha8Rng::seed_from_u64(to.seed)),
                next_grant: AtomicU64::new(1),
                grants: Mutex::default(),
            }),
            events: receiver,
        })
    }
}

struct ManyClient {
    flaw: Flaw,
    steps: Steps,
    lease: Duration,
    identity: String,
    jitter: Mutex<ChaCha8Rng>,
    next_grant: AtomicU64,
    /// The keys of each grant and the value in them.
    grants: Mutex<HashMap<String, (Vec<String>, String)>>,
}

impl ManyClient {
    /// One try: when it was sent and what was taken, if it worked.
    async fn attempt(
        &self,
        request: &AcquireRequest,
        value: &str,
    ) -> Result<Option<(Instant, Vec<String>)>, Trouble> {
        let lease = request.lease.unwrap_or(self.lease);
        let first = &request.locks[0];
        if self.flaw == Flaw::LooksThenCounts {
            let counter = format!("{{{first}}}:inside");
            let inside: Option<u32> = self
                .steps
                .links
                .query(first, &cmd(&["GET", &counter]))
                .await?;
            if inside.unwrap_or(0) >= request.permits.unwrap_or(1) {
                return Ok(None);
            }
            let sent = Instant::now();
            tokio::time::sleep(poll_pause(&self.jitter)).await;
            let _: i64 = self
                .steps
                .links
                .query(first, &cmd(&["INCR", &counter]))
                .await?;
            return Ok(Some((sent, vec![counter])));
        }
        let Some(sent) = self.steps.take(first, value, lease).await? else {
            return Ok(None);
        };
        let mut taken = vec![first.clone()];
        for other in &request.locks[1..] {
            if self.steps.take(other, value, lease).await?.is_some() {
                taken.push(other.clone());
            }
        }
        Ok(Some((sent, taken)))
    }
}

#[async_trait]
impl LockClient for ManyClient {
    async fn acquire(&self, request: AcquireRequest) -> AcquireEnd {
        if request.locks.is_empty() {
            return AcquireEnd::Failed("no lock is named".into());
        }
        let number = self.next_grant.fetch_add(1, Ordering::Relaxed);
        let value = format!("{}-{number}", self.identity);
        let called = Instant::now();
        loop {
            match self.attempt(&request, &value).await {
                Ok(Some((sent, taken))) => {
                    let grant = format!("g{number}");
                    let mut grants = self.grants.lock().expect("no panic");
                    grants.insert(grant.clone(), (taken, value));
                    return AcquireEnd::Ok {
                        grant,
                        token: None,
                        lease: None,
                        sent_at: Some(sent),
                    };
                }
                Ok(None) => {}
                Err(Trouble::Refused(why)) => return AcquireEnd::Failed(why),
                Err(Trouble::Lost(why)) => return AcquireEnd::Unknown(why),
            }
            let pause = poll_pause(&self.jitter);
            if request
                .wait
                .is_some_and(|wait| called.elapsed() + pause > wait)
            {
                return AcquireEnd::Busy;
            }
            tokio::time::sleep(pause).await;
        }
    }

    async fn release(&self, grant: &str) -> ReleaseEnd {
        let held = self.grants.lock().expect("no panic").remove(grant);
        let Some((taken, value)) = held else {
            return no_grant(grant);
        };
        for key in taken {
            let given = match self.flaw {
                Flaw::FirstIsEnough => self.steps.give(&key, &value).await,
                Flaw::LooksThenCounts => {
                    let count = cmd(&["DECR", &key]);
                    self.steps
                        .links
                        .query::<i64>(&key, &count)
                        .await
                        .map(|_| true)
                }
            };
            // Whether the key was there still is not looked at.
            let end = release_end(given.map(|_| true));
            if end != ReleaseEnd::Ok {
                return end;
            }
        }
        ReleaseEnd::Ok
    }

    async fn extend(&self, _grant: &str, _lease: Duration) -> ReleaseEnd {
        ReleaseEnd::Failed("nothing is extended here".into())
    }

    fn pid(&self) -> Option<u32> {
        None
    }

    fn watchdog(&self) -> Option<Duration> {
        Some(self.lease)
    }

    fn commands(&self) -> Option<u64> {
        Some(self.steps.links.commands())
    }

    async fn close(self: Box<Self>) {}
}
