//! Turns a recipe for a lock on one key into a subject: the baselines, and the machinery that the flawed ones share.
//!
//! The key is the lock's name and its value names the hold. Waiting is polling with jitter, the way most people write it.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use async_trait::async_trait;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use redis::Cmd;
use tokio::sync::mpsc;

use crate::{
    links::{Links, Script, Shape, Trouble},
    protocol::whole_ms,
    subject::{
        AcquireEnd, AcquireRequest, ClientEvent, ConnectTo, Connected, LockClient, ReleaseEnd,
        Subject, SubjectError,
    },
};

/// Longest wait for a reply. Longer than the usual second, so that a slow link makes an acquire late before it makes it unknown.
const RESPONSE: Duration = Duration::from_secs(3);
/// Lease of a renewed lock, where the caller names none.
const WATCHDOG: Duration = Duration::from_secs(30);

/// How the key is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Take {
    /// `SET key value NX PX lease`: one step.
    SetNxPx,
    /// `SETNX`, then `PEXPIRE`, so long apart.
    SetNxThenExpire(Duration),
    /// As `SetNxPx`, but a busy answer is followed by a plain `SET`.
    Steal,
}

/// How the key is given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Give {
    /// A script: delete only if the value is ours.
    CompareAndDelete,
    /// `DEL`, whoever holds.
    Delete,
    /// `GET`, compare here, so long apart, `DEL`.
    GetThenDelete(Duration),
}

/// How the lease is lengthened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lengthen {
    /// A script: only if the value is ours.
    CompareAndExpire,
    /// `PEXPIRE`, whoever holds.
    Expire,
}

/// What a lock that is asked to renew itself does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Renewal {
    /// Lengthens each third of the lease, and says lost when it cannot.
    Thirds,
    /// Sets the lease once and believes in it for ever.
    Never,
}

/// When a lease is taken to begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Begins {
    /// When the attempt that succeeded was sent: never too late.
    AtSending,
    /// When its reply came: too late by as much as the reply took.
    AtReply,
}

/// A lock on one key, as data.
#[derive(Debug)]
pub(super) struct Recipe {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) take: Take,
    pub(super) give: Give,
    pub(super) lengthen: Lengthen,
    pub(super) renewal: Renewal,
    pub(super) begins: Begins,
}

/// The usual correct recipe; the others differ from it in what they name.
pub(super) const SET_NX_PX: Recipe = Recipe {
    name: "baseline:set-nx-px",
    about: "SET NX PX and a compare-and-delete script, polled each 1 to 3 ms: what most people write",
    take: Take::SetNxPx,
    give: Give::CompareAndDelete,
    lengthen: Lengthen::CompareAndExpire,
    renewal: Renewal::Thirds,
    begins: Begins::AtSending,
};

/// Locks that people write by hand.
pub(super) static BASELINES: &[Recipe] = &[
    SET_NX_PX,
    Recipe {
        name: "baseline:setnx-expire",
        about: "SETNX, then PEXPIRE at once, and a compare-and-delete script: the old recipe, in two steps",
        take: Take::SetNxThenExpire(Duration::ZERO),
        ..SET_NX_PX
    },
];

/// The recipe as a subject.
pub(super) fn subject(recipe: &'static Recipe) -> Arc<dyn Subject> {
    Arc::new(Naive { recipe })
}

struct Naive {
    recipe: &'static Recipe,
}

#[async_trait]
impl Subject for Naive {
    fn name(&self) -> &str {
        self.recipe.name
    }

    fn about(&self) -> &str {
        self.recipe.about
    }

    fn kinds(&self) -> Vec<String> {
        vec!["plain".into()]
    }

    async fn connect(&self, to: &ConnectTo) -> Result<Connected, SubjectError> {
        let name = self.recipe.name;
        let links = Links::parse(&to.target, RESPONSE)?;
        if links.shape() == Shape::Masters {
            return Err(SubjectError::usage(format!(
                "{name} is a lock on one key: it takes redis://, redis-sentinel:// and redis-cluster:// targets, not redlock://"
            )));
        }
        if !matches!(to.durability.as_str(), "" | "none") {
            return Err(SubjectError::usage(format!(
                "{name} does not wait for replicas: durability `{}` cannot be asked of it",
                to.durability
            )));
        }
        // One look at the server, so that an unreachable one is said now and not by the first acquire.
        links
            .query::<Option<String>>("locklab", &cmd(&["GET", "locklab:hello"]))
            .await
            .or_else(|e| match e {
                // A cluster's key may lie elsewhere; an error reply is an answer too.
                Trouble::Refused(why)
                    if !why.contains("cannot connect") && !why.contains("cannot tell") =>
                {
                    Ok(None)
                }
                e => Err(e),
            })
            .map_err(|e| SubjectError::unreachable(format!("{name}: {}", e.text())))?;
        let (events, receiver) = mpsc::unbounded_channel();
        Ok(Connected {
            client: Box::new(NaiveClient {
                inner: Arc::new(Inner {
                    recipe: self.recipe,
                    links,
                    events,
                    compare_delete: Script::new(COMPARE_DELETE),
                    compare_expire: Script::new(COMPARE_EXPIRE),
                }),
                watchdog: to.watchdog.unwrap_or(WATCHDOG),
                identity: identity(&to.client),
                jitter: Mutex::new(ChaCha8Rng::seed_from_u64(to.seed)),
                next_grant: AtomicU64::new(1),
                grants: Mutex::default(),
            }),
            events: receiver,
        })
    }
}

/// Deletes the key if it is ours: 1, else 0.
const COMPARE_DELETE: &str =
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
/// Lengthens the lease if the key is ours: 1, else 0.
const COMPARE_EXPIRE: &str = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0";

/// A name that no other client has: two runs with one seed on one server must not take each other's keys for their own.
pub(super) fn identity(client: &str) -> String {
    let since_epoch = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
    format!(
        "{client}-{}-{:x}",
        std::process::id(),
        since_epoch.as_nanos()
    )
}

pub(super) fn cmd(words: &[&str]) -> Cmd {
    let mut cmd = redis::cmd(words[0]);
    for word in &words[1..] {
        cmd.arg(word);
    }
    cmd
}

/// A pause between tries: 1 to 3 ms, drawn anew so that waiters do not march in step.
pub(super) fn poll_pause(jitter: &Mutex<ChaCha8Rng>) -> Duration {
    Duration::from_micros(jitter.lock().expect("no panic").random_range(1_000..3_000))
}

struct Inner {
    recipe: &'static Recipe,
    links: Links,
    events: mpsc::UnboundedSender<ClientEvent>,
    compare_delete: Script,
    compare_expire: Script,
}

struct Grant {
    key: String,
    value: String,
    /// Ends the renewals when it is dropped.
    renewals: Option<tokio::task::AbortHandle>,
}

impl Drop for Grant {
    fn drop(&mut self) {
        if let Some(renewals) = &self.renewals {
            renewals.abort();
        }
    }
}

struct NaiveClient {
    inner: Arc<Inner>,
    watchdog: Duration,
    identity: String,
    jitter: Mutex<ChaCha8Rng>,
    next_grant: AtomicU64,
    grants: Mutex<HashMap<String, Arc<Grant>>>,
}

impl Inner {
    /// One try: whether the key was taken.
    async fn take(&self, key: &str, value: &str, lease: Duration) -> Result<bool, Trouble> {
        let px = whole_ms(lease).to_string();
        let set_nx_px = cmd(&["SET", key, value, "NX", "PX", &px]);
        let taken = |reply: Option<String>| reply.is_some();
        match self.recipe.take {
            Take::SetNxPx => self.links.query(key, &set_nx_px).await.map(taken),
            Take::SetNxThenExpire(gap) => {
                let set: i64 = self.links.query(key, &cmd(&["SETNX", key, value])).await?;
                if set == 0 {
                    return Ok(false);
                }
                if !gap.is_zero() {
                    tokio::time::sleep(gap).await;
                }
                let expire = cmd(&["PEXPIRE", key, &px]);
                // The key is taken already: whatever goes wrong now leaves it taken.
                match self.links.query::<i64>(key, &expire).await {
                    Ok(_) => Ok(true),
                    Err(e) => Err(Trouble::Lost(e.text())),
                }
            }
            Take::Steal => {
                if self.links.query(key, &set_nx_px).await.map(taken)? {
                    return Ok(true);
                }
                let set = cmd(&["SET", key, value, "PX", &px]);
                self.links.query(key, &set).await.map(taken)
            }
        }
    }

    /// Whether something of ours was deleted.
    async fn give(&self, key: &str, value: &str) -> Result<bool, Trouble> {
        let delete = cmd(&["DEL", key]);
        let deleted = match self.recipe.give {
            Give::CompareAndDelete => {
                let script = &self.compare_delete;
                self.links.script::<i64>(script, key, &[value]).await?
            }
            Give::Delete => self.links.query(key, &delete).await?,
            Give::GetThenDelete(gap) => {
                let found: Option<String> = self.links.query(key, &cmd(&["GET", key])).await?;
                if found.as_deref() != Some(value) {
                    return Ok(false);
                }
                tokio::time::sleep(gap).await;
                self.links.query(key, &delete).await?
            }
        };
        Ok(deleted == 1)
    }

    /// Whether the lease was lengthened.
    async fn lengthen(&self, key: &str, value: &str, lease: Duration) -> Result<bool, Trouble> {
        let px = whole_ms(lease).to_string();
        let lengthened: i64 = match self.recipe.lengthen {
            Lengthen::CompareAndExpire => {
                let script = &self.compare_expire;
                self.links.script(script, key, &[value, &px]).await?
            }
            Lengthen::Expire => self.links.query(key, &cmd(&["PEXPIRE", key, &px])).await?,
        };
        Ok(lengthened == 1)
    }

    /// Lengthens each third of the lease until it cannot be done any more, and says so then.
    async fn renew(
        self: Arc<Self>,
        grant: String,
        key: String,
        value: String,
        lease: Duration,
        sent: Instant,
    ) {
        let mut sure_until = sent + lease;
        let lost = |reason: &str| {
            let _ = self.events.send(ClientEvent::Lost {
                grant: grant.clone(),
                reason: reason.to_owned(),
                at: Instant::now(),
            });
        };
        loop {
            tokio::time::sleep(lease / 3).await;
            let sent_at = Instant::now();
            let lengthened =
                tokio::time::timeout_at(sure_until.into(), self.lengthen(&key, &value, lease));
            match lengthened.await {
                Ok(Ok(true)) => {
                    sure_until = sent_at + lease;
                    let _ = self.events.send(ClientEvent::Extended {
                        grant: grant.clone(),
                        lease,
                        sent_at: Some(sent_at),
                    });
                }
                Ok(Ok(false)) => return lost("the server has it no more"),
                Ok(Err(_)) if Instant::now() < sure_until => {}
                Ok(Err(_)) | Err(_) => return lost("it could not be renewed before its end"),
            }
        }
    }
}

impl NaiveClient {
    fn grant(&self, grant: &str) -> Option<Arc<Grant>> {
        self.grants.lock().expect("no panic").get(grant).cloned()
    }
}

#[async_trait]
impl LockClient for NaiveClient {
    async fn acquire(&self, request: AcquireRequest) -> AcquireEnd {
        let [key] = request.locks.as_slice() else {
            return AcquireEnd::Failed("several locks at once are not offered".into());
        };
        if !matches!(request.kind.as_str(), "plain" | "") {
            return AcquireEnd::Failed(format!(
                "only kind `plain` is offered, not `{}`",
                request.kind
            ));
        }
        let called = Instant::now();
        let lease = request.lease.unwrap_or(self.watchdog);
        let number = self.next_grant.fetch_add(1, Ordering::Relaxed);
        let value = format!("{}-{number}", self.identity);
        let sent = loop {
            let sent = Instant::now();
            match self.inner.take(key, &value, lease).await {
                Ok(true) => break sent,
                Ok(false) => {}
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
        };
        let grant = format!("g{number}");
        let renewed = request.lease.is_none() && self.inner.recipe.renewal == Renewal::Thirds;
        let renewals = renewed.then(|| {
            let renewing =
                self.inner
                    .clone()
                    .renew(grant.clone(), key.clone(), value.clone(), lease, sent);
            tokio::spawn(renewing).abort_handle()
        });
        let hold = Arc::new(Grant {
            key: key.clone(),
            value,
            renewals,
        });
        self.grants
            .lock()
            .expect("no panic")
            .insert(grant.clone(), hold);
        AcquireEnd::Ok {
            grant,
            token: None,
            lease: None,
            sent_at: Some(match self.inner.recipe.begins {
                Begins::AtSending => sent,
                Begins::AtReply => Instant::now(),
            }),
        }
    }

    async fn release(&self, grant: &str) -> ReleaseEnd {
        let held = self.grants.lock().expect("no panic").remove(grant);
        let Some(held) = held else {
            return no_grant(grant);
        };
        if let Some(renewals) = &held.renewals {
            renewals.abort();
        }
        release_end(self.inner.give(&held.key, &held.value).await)
    }

    async fn extend(&self, grant: &str, lease: Duration) -> ReleaseEnd {
        match self.grant(grant) {
            None => no_grant(grant),
            Some(held) => release_end(self.inner.lengthen(&held.key, &held.value, lease).await),
        }
    }

    fn pid(&self) -> Option<u32> {
        None
    }

    fn watchdog(&self) -> Option<Duration> {
        Some(self.watchdog)
    }

    fn commands(&self) -> Option<u64> {
        Some(self.inner.links.commands())
    }

    async fn close(self: Box<Self>) {}
}

pub(super) fn no_grant(grant: &str) -> ReleaseEnd {
    ReleaseEnd::Failed(format!("no grant `{grant}`, or it was given back already"))
}

fn release_end(done: Result<bool, Trouble>) -> ReleaseEnd {
    match done {
        Ok(true) => ReleaseEnd::Ok,
        Ok(false) => ReleaseEnd::NotHeld,
        Err(Trouble::Refused(why)) => ReleaseEnd::Failed(why),
        Err(Trouble::Lost(why)) => ReleaseEnd::Unknown(why),
    }
}
