//! The commands of a lock on one key, by its recipe: taking, giving back, extending, renewing.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant, SystemTime};

use redis::Cmd;

use super::common::{LockClientParts, extended, lost};
use super::recipe::{AcquireStep, CLAIMED, Extend, Recipe, ReleaseStep, Renewal};
use crate::links::{CommandError, NO_SCRIPT, Script, cmd};
use crate::protocol::whole_ms;

/// Deletes the key if it is ours: 1, else 0.
pub(super) static COMPARE_DELETE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0",
    )
});
/// Extends the lease if the key is ours: 1, else 0.
static COMPARE_EXPIRE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0",
    )
});

// RLock's scripts, as this project's library sends them.
static HASH_ACQUIRE: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("../../../lock-core/scripts/acquire.lua")));
static HASH_RELEASE: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("../../../lock-core/scripts/release.lua")));
static HASH_EXTEND: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("../../../lock-core/scripts/extend.lua")));
/// The longest blocking of one BLPOP, well below the time after which an answer counts as lost.
const BLOCK: Duration = Duration::from_secs(1);

/// The list that has a lock's token while nobody holds it.
fn token_key(key: &str) -> String {
    format!("{{{key}}}:token")
}

pub(super) struct Steps {
    pub(super) recipe: &'static Recipe,
    pub(super) own: LockClientParts,
    /// Locks whose token is known to have been made.
    made: Mutex<BTreeSet<String>>,
    /// A command has failed, in a recipe that renews nothing from then on.
    renewer_ended: AtomicBool,
    /// The script of the release was loaded, in a recipe that never loads it again.
    loaded: AtomicBool,
}

impl Steps {
    pub(super) fn new(recipe: &'static Recipe, mut own: LockClientParts) -> Self {
        if recipe.renewal == Renewal::Claimed {
            own.lease = CLAIMED;
        }
        Steps {
            recipe,
            own,
            made: Mutex::default(),
            renewer_ended: AtomicBool::new(false),
            loaded: AtomicBool::new(false),
        }
    }

    /// One try: when the command was sent that set the lease, if the key was taken.
    pub(super) async fn take(
        &self,
        key: &str,
        value: &str,
        lease: Duration,
    ) -> Result<Option<Instant>, CommandError> {
        let lease = match self.recipe.take {
            AcquireStep::ShortLease(times) => lease / times,
            _ => lease,
        };
        let px = whole_ms(lease).to_string();
        let sent = Instant::now();
        let set = cmd(&["SET", key, value, "PX", &px]);
        let taken = match self.recipe.take {
            AcquireStep::SetNxThenExpire(gap) => return self.take_then_expire(key, value, &px, gap).await,
            AcquireStep::Watch => self.guarded(key, None, set).await?,
            AcquireStep::Script => {
                let args = [&px, value];
                let left: Option<i64> = self.own.links.script(&HASH_ACQUIRE, &[key], &args).await?;
                left.is_none()
            }
            other => {
                let set_nx_px = cmd(&["SET", key, value, "NX", "PX", &px]);
                let reply: Option<String> = self.own.links.query(key, &set_nx_px).await?;
                if reply.is_none() && other == AcquireStep::Steal {
                    let sent = Instant::now();
                    let reply: Option<String> = self.own.links.query(key, &set).await?;
                    return Ok(reply.map(|_| sent));
                }
                if reply.is_some() && other == AcquireStep::ThenWait {
                    let _unread: i64 = self.own.links.query(key, &cmd(&["WAIT", "1", "100"])).await?;
                }
                reply.is_some()
            }
        };
        Ok(taken.then_some(sent))
    }

    async fn take_then_expire(
        &self,
        key: &str,
        value: &str,
        px: &str,
        gap: Duration,
    ) -> Result<Option<Instant>, CommandError> {
        let set: i64 = self.own.links.query(key, &cmd(&["SETNX", key, value])).await?;
        if set == 0 {
            return Ok(None);
        }
        if !gap.is_zero() {
            tokio::time::sleep(gap).await;
        }
        // Until now the key had no lease at all: what was promised begins here.
        let sent = Instant::now();
        let expire = cmd(&["PEXPIRE", key, px]);
        // The key is taken already: whatever goes wrong now leaves it taken.
        match self.own.links.query::<i64>(key, &expire).await {
            Ok(_) => Ok(Some(sent)),
            Err(e) => Err(CommandError::Lost(e.to_string())),
        }
    }

    /// Changes the key in a transaction, if its value is the one expected and stays so meanwhile.
    async fn guarded(&self, key: &str, expected: Option<&str>, change: Cmd) -> Result<bool, CommandError> {
        let mut alone = self.own.links.alone(key).await?;
        self.own.links.over(&mut alone, &cmd(&["WATCH", key])).await?;
        let found = self.own.links.over(&mut alone, &cmd(&["GET", key])).await?;
        let found: Option<String> = found.and_then(|value| redis::from_redis_value(value).ok());
        if found.as_deref() != expected {
            self.own.links.over(&mut alone, &cmd(&["UNWATCH"])).await?;
            self.own.links.keep(alone);
            return Ok(false);
        }
        let done = self.own.links.commit(&mut alone, change).await?;
        self.own.links.keep(alone);
        Ok(done)
    }

    /// Waits for the token of a lock, in the server's own line: when the lock was taken.
    pub(super) async fn pop_token(&self, key: &str, wait: Duration) -> Result<Option<Instant>, CommandError> {
        let token = token_key(key);
        let known = self.made.lock().expect("no panic").contains(key);
        if !known {
            let make = cmd(&["SETNX", &format!("{token}:made"), "1"]);
            let made: i64 = self.own.links.query(key, &make).await?;
            if made == 1 {
                let _: i64 = self.own.links.query(key, &cmd(&["RPUSH", &token, "1"])).await?;
            }
            self.made.lock().expect("no panic").insert(key.to_owned());
        }
        let until = Instant::now() + wait;
        loop {
            let left = until.saturating_duration_since(Instant::now()).min(BLOCK);
            let sent = Instant::now();
            // Zero would block for ever.
            let popped = if left < Duration::from_millis(1) {
                self.own.links.query(key, &cmd(&["LPOP", &token])).await?
            } else {
                let seconds = format!("{:.3}", left.as_secs_f64());
                let mut alone = self.own.links.alone(key).await?;
                let popped = self.own.links.over(&mut alone, &cmd(&["BLPOP", &token, &seconds])).await?;
                self.own.links.keep(alone);
                popped
            };
            match popped {
                Some(_) => return Ok(Some(sent)),
                None if Instant::now() >= until => return Ok(None),
                None => {}
            }
        }
    }

    pub(super) async fn give(&self, key: &str, value: &str) -> Result<bool, CommandError> {
        let delete = cmd(&["DEL", key]);
        let deleted = match self.recipe.give {
            ReleaseStep::CompareAndDelete => {
                let (keys, args) = ([key], [value]);
                self.own.links.script(&COMPARE_DELETE, &keys, &args).await?
            }
            ReleaseStep::Watch => i64::from(self.guarded(key, Some(value), delete).await?),
            ReleaseStep::Token => {
                let push = cmd(&["RPUSH", &token_key(key), "1"]);
                i64::from(self.own.links.query::<i64>(key, &push).await? > 0)
            }
            ReleaseStep::Script => {
                let channel = format!("redisson_lock__channel:{{{key}}}");
                let (keys, args) = ([key, &channel], [value, "PUBLISH"]);
                let freed: Option<i64> = self.own.links.script(&HASH_RELEASE, &keys, &args).await?;
                freed.unwrap_or(0)
            }
            ReleaseStep::LoadedOnce if self.loaded.load(Ordering::Relaxed) => {
                let by_digest = cmd(&["EVALSHA", &COMPARE_DELETE.digest, "1", key, value]);
                match self.own.links.query(key, &by_digest).await {
                    Err(CommandError::Refused(why)) if why == NO_SCRIPT => 1,
                    answer => answer?,
                }
            }
            ReleaseStep::LoadedOnce => {
                let (keys, args) = ([key], [value]);
                let links = &self.own.links;
                let deleted = links.script(&COMPARE_DELETE, &keys, &args).await?;
                self.loaded.store(true, Ordering::Relaxed);
                deleted
            }
            ReleaseStep::Delete => self.own.links.query(key, &delete).await?,
            ReleaseStep::GetThenDelete(gap) => {
                let found: Option<String> = self.own.links.query(key, &cmd(&["GET", key])).await?;
                if found.as_deref() != Some(value) {
                    return Ok(false);
                }
                tokio::time::sleep(gap).await;
                self.own.links.query(key, &delete).await?
            }
            ReleaseStep::Nothing => 1,
        };
        Ok(deleted == 1)
    }

    pub(super) async fn extend(&self, key: &str, value: &str, lease: Duration) -> Result<bool, CommandError> {
        let px = whole_ms(lease).to_string();
        let compared = async || -> Result<bool, CommandError> {
            let args = [value, &px];
            let extended: i64 = self.own.links.script(&COMPARE_EXPIRE, &[key], &args).await?;
            Ok(extended == 1)
        };
        match self.recipe.extend {
            Extend::CompareAndExpire => compared().await,
            Extend::Script => {
                let args = [&px, value];
                let held: i64 = self.own.links.script(&HASH_EXTEND, &[key], &args).await?;
                Ok(held == 1)
            }
            Extend::Expire => {
                let extended: i64 = self.own.links.query(key, &cmd(&["PEXPIRE", key, &px])).await?;
                Ok(extended == 1)
            }
            Extend::OrTakeAgain => {
                if compared().await? {
                    return Ok(true);
                }
                let set_nx_px = cmd(&["SET", key, value, "NX", "PX", &px]);
                let reply: Option<String> = self.own.links.query(key, &set_nx_px).await?;
                Ok(reply.is_some())
            }
            Extend::Nothing => Ok(true),
        }
    }

    /// Extends each third of the lease until it cannot be done any more, and says so then.
    pub(super) async fn renew(
        self: Arc<Self>,
        grant: String,
        key: String,
        value: String,
        lease: Duration,
        sent: Instant,
    ) {
        let mut sure_until = sent + lease;
        let lost = |reason| drop(self.own.events.send(lost(&grant, reason)));
        loop {
            self.third(lease).await;
            if self.renewer_ended.load(Ordering::Relaxed) {
                return;
            }
            let sent_at = Instant::now();
            match tokio::time::timeout_at(sure_until.into(), self.extend(&key, &value, lease)).await {
                Ok(Ok(true)) => {
                    sure_until = sent_at + lease;
                    let _ = self.own.events.send(extended(&grant, lease, sent_at));
                }
                Ok(Err(_)) if self.recipe.renewal == Renewal::UntilFirstError => return self.failed(),
                Ok(Err(_)) | Err(_) if self.recipe.renewal == Renewal::UntilOwnError => return,
                _ if self.recipe.renewal == Renewal::NeverSaysLost => sure_until += lease,
                Ok(Ok(false)) => return lost("the server has it no more"),
                Ok(Err(_)) if Instant::now() < sure_until => {}
                Ok(Err(_)) | Err(_) => return lost("it could not be renewed before its end"),
            }
        }
    }

    /// A command has failed: that ends the renewer of a recipe whose renewer does not survive it.
    pub(super) fn failed(&self) {
        if self.recipe.renewal == Renewal::UntilFirstError {
            self.renewer_ended.store(true, Ordering::Relaxed);
        }
    }

    /// Sleeps until a third of the lease has passed, by the clock that the recipe trusts.
    async fn third(&self, lease: Duration) {
        if self.recipe.renewal != Renewal::ThirdsByWallClock {
            return tokio::time::sleep(lease / 3).await;
        }
        let due = SystemTime::now() + lease / 3;
        while SystemTime::now() < due {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}
