//! Locks on one key that follow a recipe: the baselines, and the machinery that the flawed ones share.
//!
//! The key is the lock's name, its value names the hold. Waiting is polling with jitter, as most write it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, UNIX_EPOCH};

use async_trait::async_trait;

use super::common::{ByHand, Grants, UNBOUND, only_lock, try_again};
use super::recipe::{AcquireStep, BusyWait, EntryRule, READERS_UNSEEN, Recipe, Silence, Tokens};
use super::steps::Steps;
use crate::abilities::Abilities;
use crate::links::{CommandError, cmd};
use crate::subject::{AcquireEnd, AcquireRequest, LockClient, ReleaseEnd, Subject};

pub(super) fn subject(recipe: &'static Recipe) -> Arc<dyn Subject> {
    Arc::new(ByHand {
        name: recipe.name,
        about: recipe.about,
        kinds: recipe.kinds,
        response_timeout: Duration::from_secs(3),
        resolves_once: recipe.resolves_once,
        says_durable: recipe.take == AcquireStep::ThenWait,
        client: Box::new(move |own| {
            Box::new(NaiveClient {
                steps: Arc::new(Steps::new(recipe, own)),
                grants: Grants::default(),
                entered: Mutex::default(),
                busy_until: Mutex::default(),
                tokens: Mutex::default(),
            })
        }),
    })
}

/// One hold of the key on the server, of one owner, by several grants where owners may enter again.
struct Hold {
    key: String,
    value: String,
    /// Whose it is, where those may enter again.
    who: Option<String>,
    sent: Instant,
    depth: AtomicU64,
    renewals: Option<tokio::task::AbortHandle>,
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.stop_renewals();
    }
}

impl Hold {
    fn stop_renewals(&self) {
        if let Some(renewals) = &self.renewals {
            renewals.abort();
        }
    }
}

/// An acquire under way, which goes on when its caller drops it.
#[derive(Clone)]
struct GoesOn {
    steps: Arc<Steps>,
    key: String,
    value: String,
    lease: Duration,
    renews: bool,
}

impl Drop for GoesOn {
    fn drop(&mut self) {
        let own = std::mem::ManuallyDrop::new(self.clone());
        lock_core::machine::spawn(async move {
            let (steps, lease) = (&own.steps, own.lease);
            while !matches!(steps.take(&own.key, &own.value, lease).await, Ok(Some(_))) {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            if own.renews {
                loop {
                    tokio::time::sleep(lease / 3).await;
                    let _ = steps.extend(&own.key, &own.value, lease).await;
                }
            }
        });
    }
}

struct NaiveClient {
    steps: Arc<Steps>,
    /// Readers who leave no trace hold nothing.
    grants: Grants<Option<Arc<Hold>>>,
    entered: Mutex<HashMap<(String, String), Arc<Hold>>>,
    /// Locks that were found busy, and until when that is remembered.
    busy_until: Mutex<HashMap<String, Instant>>,
    /// Fencing tokens that were drawn and not used, the next one last.
    tokens: Mutex<Vec<u64>>,
}

/// Counts releases of a lock, for waiters who wait for nothing else.
fn released_key(key: &str) -> String {
    format!("{{{key}}}:released")
}

fn line_key(key: &str) -> String {
    format!("{{{key}}}:line")
}

impl NaiveClient {
    fn recipe(&self) -> &'static Recipe {
        self.steps.recipe
    }

    /// Whose hold it is: the part of the client that may enter again; `None` where nobody may.
    fn who(&self, request: &AcquireRequest<'_>) -> Option<String> {
        match self.recipe().enters {
            EntryRule::Nobody => None,
            EntryRule::Client => Some(String::new()),
            EntryRule::Owner | EntryRule::OwnerOnce => request.reenters.then(|| request.owner.to_owned()),
        }
    }

    /// The hold that this owner is in already, one grant deeper.
    fn enter(&self, key: &str, who: &str) -> Option<Arc<Hold>> {
        let hold = self.entered.lock().expect("no panic").get(&(key.to_owned(), who.to_owned()))?.clone();
        hold.depth.fetch_add(1, Ordering::Relaxed);
        Some(hold)
    }

    /// Asks until the key is ours, or the wait is over: when the lease began.
    async fn ask(
        &self,
        key: &str,
        value: &str,
        lease: Duration,
        wait: Option<Duration>,
    ) -> Result<Option<Instant>, CommandError> {
        let called = Instant::now();
        if self.recipe().take == AcquireStep::Token {
            return self.steps.pop_token(key, wait.unwrap_or(UNBOUND)).await;
        }
        let mut heard = None;
        loop {
            if self.worth_asking(key, value, &mut heard).await? {
                let taken = match self.recipe().silence {
                    Silence::Unknown => self.steps.take(key, value, lease).await?,
                    Silence::Granted => match self.steps.take(key, value, lease).await {
                        Ok(taken) => taken,
                        Err(_) => return Ok(Some(Instant::now())),
                    },
                    Silence::Busy(after) => {
                        match tokio::time::timeout(after, self.steps.take(key, value, lease)).await {
                            Ok(answer) => answer?,
                            Err(_) => None,
                        }
                    }
                };
                if taken.is_some() {
                    return Ok(taken);
                }
                if let BusyWait::Remembering(so_long) = self.recipe().waits {
                    let mut busy = self.busy_until.lock().expect("no panic");
                    busy.insert(key.to_owned(), Instant::now() + so_long);
                }
            }
            let pause = match self.recipe().waits {
                BusyWait::Every(pause) => self.steps.own.jitter.about(pause),
                _ => self.steps.own.jitter.pause(),
            };
            if !try_again(called, wait, pause).await {
                if self.recipe().waits == BusyWait::InLine {
                    self.leave_line(key, value).await?;
                }
                return Ok(None);
            }
        }
    }

    async fn leave_line(&self, key: &str, value: &str) -> Result<i64, CommandError> {
        let leave = cmd(&["LREM", &line_key(key), "1", value]);
        self.steps.own.links.query(key, &leave).await
    }

    /// Whether the recipe would try now. `heard`: releases heard of at the last look, or a place in line.
    async fn worth_asking(
        &self,
        key: &str,
        value: &str,
        heard: &mut Option<i64>,
    ) -> Result<bool, CommandError> {
        match self.recipe().waits {
            BusyWait::Polling | BusyWait::Every(_) => Ok(true),
            BusyWait::InLine => {
                let line = line_key(key);
                if heard.is_none() {
                    *heard = Some(self.steps.own.links.query(key, &cmd(&["RPUSH", &line, value])).await?);
                }
                let first = cmd(&["LINDEX", &line, "0"]);
                let first: Option<String> = self.steps.own.links.query(key, &first).await?;
                Ok(first.as_deref() == Some(value))
            }
            BusyWait::Remembering(_) => {
                let busy = self.busy_until.lock().expect("no panic");
                Ok(busy.get(key).is_none_or(|until| Instant::now() >= *until))
            }
            BusyWait::WhenNotifiedOnly => {
                let get = cmd(&["GET", &released_key(key)]);
                let now: Option<i64> = self.steps.own.links.query(key, &get).await?;
                let now = now.unwrap_or(0);
                // The first look is always news.
                Ok(heard.replace(now) != Some(now))
            }
        }
    }

    async fn token(&self, key: &str, number: u64) -> Result<Option<u64>, CommandError> {
        match self.recipe().tokens {
            Tokens::None => Ok(None),
            Tokens::Batches(size) => {
                let kept = self.tokens.lock().expect("no panic").pop();
                if kept.is_some() {
                    return Ok(kept);
                }
                let raise = cmd(&["INCRBY", &format!("{{{key}}}:token"), &size.to_string()]);
                let last: u64 = self.steps.own.links.query(key, &raise).await?;
                let mut kept = self.tokens.lock().expect("no panic");
                kept.extend((last.saturating_sub(size) + 1..=last).rev());
                Ok(kept.pop())
            }
            Tokens::WallClock => {
                let since_epoch = UNIX_EPOCH.elapsed().unwrap_or_default();
                Ok(u64::try_from(since_epoch.as_micros()).ok())
            }
            Tokens::OwnCounter => Ok(Some(number + 1)),
        }
    }
}

#[async_trait]
impl LockClient for NaiveClient {
    async fn acquire(&self, request: AcquireRequest<'_>) -> AcquireEnd {
        let key = or_end!(only_lock(&request));
        let recipe = self.recipe();
        if !request.kind.is_empty() && !recipe.kinds.contains(&request.kind) {
            return AcquireEnd::Failed(format!(
                "only {} is offered, not `{}`",
                recipe.kinds.join(" and "),
                request.kind
            ));
        }
        let number = self.grants.number();
        if recipe.kinds == READERS_UNSEEN && request.kind == "read" {
            return AcquireEnd::ok(self.grants.keep(number, None), None);
        }
        let who = self.who(&request);
        if let Some(hold) = who.as_ref().and_then(|who| self.enter(key, who)) {
            let sent_at = Some(hold.sent);
            return AcquireEnd::ok(self.grants.keep(number, Some(hold)), sent_at);
        }
        let lease = request.lease.unwrap_or(self.steps.own.lease);
        let identity = &self.steps.own.identity;
        let value = match self.steps.recipe.one_value {
            true => identity.clone(),
            false => format!("{identity}-{number}"),
        };
        let goes_on = recipe.goes_on.then(|| GoesOn {
            steps: self.steps.clone(),
            key: key.to_owned(),
            value: value.clone(),
            lease,
            renews: request.lease.is_none(),
        });
        let asked = self.ask(key, &value, lease, request.wait).await;
        // It was answered, so nobody has given it up.
        if let Some(answered) = goes_on.filter(|_| asked.is_ok()) {
            std::mem::forget(answered);
        }
        let sent = match asked {
            Ok(Some(sent)) => sent,
            Ok(None) => return AcquireEnd::Busy,
            Err(trouble) => {
                self.steps.failed();
                return trouble.into();
            }
        };
        let token = match self.token(key, number).await {
            Ok(token) => token,
            // The key is taken, and no caller has it: its lease frees it.
            Err(trouble) => return AcquireEnd::Unknown(trouble.to_string()),
        };
        let renewed = request.lease.is_none() && recipe.renewal.happens();
        let renewals = renewed.then(|| {
            let renewing =
                self.steps.clone().renew(format!("g{number}"), key.to_owned(), value.clone(), lease, sent);
            lock_core::machine::spawn(renewing).abort_handle()
        });
        let hold = Arc::new(Hold {
            key: key.to_owned(),
            value,
            who: who.clone(),
            sent,
            depth: AtomicU64::new(1),
            renewals,
        });
        if let Some(who) = who {
            self.entered.lock().expect("no panic").insert((key.to_owned(), who), hold.clone());
        }
        AcquireEnd::Ok {
            grant: self.grants.keep(number, Some(hold)),
            token,
            returned_at: None,
            lease: None,
            at: None,
            sent_at: Some(if recipe.from_reply { Instant::now() } else { sent }),
        }
    }

    async fn release(&self, grant: &str) -> ReleaseEnd {
        let held = match self.grants.take(grant) {
            Ok(Some(held)) => held,
            Ok(None) => return ReleaseEnd::Ok,
            Err(end) => return end,
        };
        let left = held.depth.fetch_sub(1, Ordering::Relaxed) - 1;
        if left > 0 && self.recipe().enters != EntryRule::OwnerOnce {
            return ReleaseEnd::Ok;
        }
        held.stop_renewals();
        if let Some(who) = &held.who {
            let place = (held.key.clone(), who.clone());
            self.entered.lock().expect("no panic").remove(&place);
        }
        if self.recipe().waits == BusyWait::InLine {
            // What this does not remove stays for ever: that is what is wrong with this line.
            let _ = self.leave_line(&held.key, &held.value).await;
        }
        let given = self.steps.give(&held.key, &held.value).await;
        if self.recipe().waits == BusyWait::WhenNotifiedOnly && given.is_ok() {
            let notify = cmd(&["INCR", &released_key(&held.key)]);
            // A waiter that misses the message goes on waiting: that is what is wrong with it.
            let _ = self.steps.own.links.query::<i64>(&held.key, &notify).await;
        }
        let end = release_end(given);
        if matches!(end, ReleaseEnd::Unknown(_)) {
            // Its caller may release once more.
            held.depth.fetch_add(1, Ordering::Relaxed);
            self.grants.put_back(grant, Some(held));
        }
        end
    }

    async fn release_as(&self, grant: &str, _owner: &str) -> ReleaseEnd {
        if self.recipe().bound { ReleaseEnd::Ok } else { self.release(grant).await }
    }

    async fn extend(&self, grant: &str, lease: Duration) -> ReleaseEnd {
        match self.grants.get(grant) {
            Ok(Some(held)) => release_end(self.steps.extend(&held.key, &held.value, lease).await),
            Ok(None) => ReleaseEnd::Ok,
            Err(end) => end,
        }
    }

    fn watchdog(&self) -> Option<Duration> {
        Some(self.steps.own.lease)
    }

    fn abilities(&self) -> Abilities {
        let durable = self.recipe().take == AcquireStep::ThenWait;
        Abilities {
            features: Some(Vec::from_iter(durable.then(|| "durability".to_owned()))),
            ..Abilities::default()
        }
    }

    /// One that never renews is held to what it was asked for: to keep the lock, or to say that it is lost.
    fn reports_renewals(&self) -> bool {
        self.recipe().renewal.happens()
    }

    async fn commands(&self) -> Option<u64> {
        Some(self.steps.own.links.commands())
    }
}

pub(super) fn release_end(done: Result<bool, CommandError>) -> ReleaseEnd {
    match done {
        Ok(true) => ReleaseEnd::Ok,
        Ok(false) => ReleaseEnd::NotHeld,
        Err(trouble) => trouble.into(),
    }
}
