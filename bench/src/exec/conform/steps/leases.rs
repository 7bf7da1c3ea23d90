//! What becomes of a lease that nobody keeps: it lapses, its lock is lost, its client is killed.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{
    super::scripted_driver::ScriptedDriver, A, B, LONG_MS, NOTICE_MAX_MS, SHORT_MS, SLACK, SkippableResult,
    StepResult, Trial, WATCHDOG_MAX_MS, WATCHDOG_MS, expect, grant_of, granted, shown, skip,
};
use crate::protocol::error_text;

/// How long another client waits for a lock whose lease ends.
pub(super) const NEXT_MS: u64 = 6_000;
/// A wrong `lost` comes right after the grant.
const AT_ONCE: Duration = Duration::from_millis(300);

struct LapsedLease {
    lock: String,
    first: String,
    next: String,
    after: Duration,
}

impl Trial<'_> {
    async fn let_lapse(&mut self) -> Result<LapsedLease, String> {
        self.start_both().await?;
        let asked = Instant::now();
        let (lock, first) = self.granted(SHORT_MS).await?;
        let reply = self.ask_for(B, &lock, "t0", NEXT_MS, Some(LONG_MS)).await?;
        let after = asked.elapsed();
        let who = format!("after the lease of {SHORT_MS} ms another client");
        Ok(LapsedLease { lock, first, next: granted(&reply, &who)?, after })
    }

    pub(super) async fn expiry(&mut self) -> StepResult {
        let LapsedLease { next, after, .. } = self.let_lapse().await?;
        self.release_of(B, &next).await?;
        self.short_lease_ends_after = Some(after);
        if after + SLACK < Duration::from_millis(SHORT_MS) {
            return Err(format!("another client got the lock after {after:?} of a lease of {SHORT_MS} ms"));
        }
        Ok(format!("free after {} ms of {SHORT_MS}", after.as_millis()))
    }

    /// `A` has just been given a lease of `SHORT_MS`, as `what` says, and does nothing for it: the lock is
    /// free half of that later than others of this lease are. Nothing is asked where none of them ends.
    pub(super) async fn short_lease_ends(&mut self, lock: &str, what: &str) -> StepResult {
        let given = Instant::now();
        let ends_after = match self.short_lease_ends_after {
            Some(known) => known,
            None => {
                let Ok(LapsedLease { next, after, .. }) = self.let_lapse().await else {
                    return Ok(String::new());
                };
                self.release_of(B, &next).await?;
                *self.short_lease_ends_after.insert(after)
            }
        };
        let long = ends_after + Duration::from_millis(SHORT_MS / 2);
        self.listen(A, long.saturating_sub(given.elapsed())).await;
        let reply = self.ask_for(B, lock, "t0", 0, Some(LONG_MS)).await?;
        let who = format!("{:?} after {what} {SHORT_MS} ms another client", given.elapsed());
        self.release_of(B, &granted(&reply, &who)?).await?;
        Ok(String::new())
    }

    pub(super) async fn lease_after_wait(&mut self) -> StepResult {
        let (lock, held) = self.granted(LONG_MS).await?;
        let request = self.acquire_request(&lock, "t0", NEXT_MS, Some(SHORT_MS));
        let waiting = self.driver(B).send(request).await;
        self.listen(B, Duration::from_millis(SHORT_MS + SHORT_MS / 2)).await;
        let reply = self.answer_after_release(&held, waiting, NEXT_MS).await?;
        let granted_at = Instant::now();
        let grant = granted(&reply, "a waiter for a lock that was released")?;
        let answer = self.ask(B, json!({"op": "held", "grant": grant})).await?;
        let said_it = said_lost(&grant);
        self.driver(B).listen(AT_ONCE / 3, &said_it).await;
        let reply = self.ask_for(A, &lock, "t0", 0, Some(LONG_MS)).await?;
        let is_whole = granted_at.elapsed() + SLACK < Duration::from_millis(SHORT_MS);
        if is_whole && (answer.body.get("held") == Some(&Value::Bool(false)) || said_it(self.driver(B))) {
            return Err(format!("a lease of {SHORT_MS} ms was over when its waiter was granted it"));
        }
        match grant_of(&reply) {
            Some(_) if is_whole => Err(format!("a lease of {SHORT_MS} ms ended right after its grant")),
            Some(next) => self.release_of(A, &next).await.map(|_| String::new()),
            None => self.release_of(B, &grant).await.map(|_| String::new()),
        }
    }

    pub(super) async fn late_extend(&mut self) -> SkippableResult {
        self.require_extend()?;
        let LapsedLease { first, next, .. } = self.let_lapse().await?;
        let reply = self.extend_of(A, &first, LONG_MS).await?;
        self.release_of(B, &next).await?;
        Ok(expect(&reply, &["not_held", "failed"], "an extend of a lapsed lease, with another holder, was")?)
    }

    pub(super) async fn late_release(&mut self) -> StepResult {
        let lapsed = self.let_lapse().await?;
        let late = self.release_of(A, &lapsed.first).await?.ending;
        let reply = self.ask_for(A, &lapsed.lock, "t2", 0, Some(LONG_MS)).await?;
        let freed = format!("a late release (answered `{late}`) freed the lock of the next client");
        self.expect_taken(&reply, &freed)?;
        self.release_of(B, &lapsed.next).await?;
        if late == "ok" && !self.has_feature("release_blind") {
            let wrong = "a release of a lapsed lease, with another holder, was answered `ok`";
            return Err(wrong.to_owned());
        }
        let reply = self.ask_for(A, &lapsed.lock, "t2", NEXT_MS, Some(LONG_MS)).await?;
        self.release_of(A, &granted(&reply, "when it was free again, the client of the late release")?)
            .await?;
        Ok(String::new())
    }

    /// `lost` must not come while a lock is held, and must for a lapsed lease if the features list it.
    pub(super) async fn notice(&mut self) -> SkippableResult {
        let (_, grant) = self.granted(LONG_MS).await?;
        let said_it = said_lost(&grant);
        self.driver(A).listen(AT_ONCE, &said_it).await;
        if said_it(self.driver(A)) {
            return Err(format!(
                "`lost` came within {AT_ONCE:?} of a grant with a lease of {LONG_MS} ms that nothing had happened to"
            )
            .into());
        }
        self.release_of(A, &grant).await?;
        if !self.has_feature("lost") {
            return Ok("no `lost` came too early; its hello does not list the feature `lost`".to_owned());
        }
        // A lease that does not end is another step's finding.
        let Ok(LapsedLease { first, next, .. }) = self.let_lapse().await else {
            return skip("no lease ended: see expiry");
        };
        let (within, said_it) = (self.patience(), said_lost(&first));
        self.driver(A).listen(within, &said_it).await;
        let said = said_it(self.driver(A));
        self.release_of(B, &next).await?;
        match said {
            true => Ok(String::new()),
            false => Err(format!(
                "the feature lost is listed, a lease of {SHORT_MS} ms ended, another client got the lock, and no `lost` came within {within:?}"
            )
            .into()),
        }
    }

    pub(super) async fn renewal(&mut self) -> SkippableResult {
        let Some(ms) = self.hello.watchdog_ms else {
            return skip("hello has no watchdog_ms: nothing is renewed");
        };
        if ms > WATCHDOG_MAX_MS {
            return skip(&format!(
                "the lease that it renews is {ms} ms, whatever is wished by options.watchdog_ms, and {WATCHDOG_MAX_MS} ms at most are waited for"
            ));
        }
        let lock = self.fresh_lock().await?;
        // Shorter than any time between two renewals. A library may refuse so short a lease.
        let short_ms = (ms / 4).min(SHORT_MS / 2);
        if let Some(short) = grant_of(&self.ask_for(A, &lock, "t0", 2_000, Some(short_ms)).await?) {
            self.release_of(A, &short).await?;
        }
        let reply = self.ask_for(A, &lock, "t0", 2_000, None).await?;
        if reply.ending == "failed" {
            return skip(&format!("no renewed lease: {}", error_text(&reply.body)));
        }
        let grant = granted(&reply, "a renewed lease")?;
        let soon = Duration::from_millis(short_ms) + SLACK / 3;
        self.listen(A, soon).await;
        let reply = self.ask_for(B, &lock, "t0", 0, Some(LONG_MS)).await?;
        let free = format!(
            "after a lease of {short_ms} ms on its name, a renewed lock was free {soon:?} after its grant"
        );
        self.expect_taken(&reply, &free)?;
        let long = Duration::from_millis(ms + ms / 2);
        self.listen(A, long.saturating_sub(soon)).await;
        let reply = self.ask_for(B, &lock, "t0", 0, Some(LONG_MS)).await?;
        let free = format!("a renewed lock was free {long:?} after its grant, though watchdog_ms is {ms}");
        self.expect_taken(&reply, &free)?;
        // A hold and its re-entry, where there are any, are no reason to renew what comes after them.
        let reply = self.ask_for(A, &lock, "t0", 0, None).await?;
        for grant in [grant_of(&reply), Some(grant)].into_iter().flatten() {
            self.release_of(A, &grant).await?;
        }
        let reply = self.ask_for(A, &lock, "t0", 2_000, Some(SHORT_MS)).await?;
        if grant_of(&reply).is_some() {
            self.short_lease_ends(&lock, "a lock that had been renewed was granted for").await?;
        }
        let heeds = match ms > WATCHDOG_MS {
            true => format!("; the wish for {WATCHDOG_MS} ms by options.watchdog_ms is not heeded"),
            false => String::new(),
        };
        Ok(format!("held after {} ms of {ms}{heeds}", long.as_millis()))
    }

    pub(super) async fn loss(&mut self) -> SkippableResult {
        self.require_own_single()?;
        let lock = self.fresh_lock().await?;
        let reply = self.ask_for(A, &lock, "t0", 2_000, None).await?;
        match grant_of(&reply) {
            Some(grant) => Ok(self.loss_is_noticed(&grant).await?),
            None if reply.ending == "failed" => {
                skip(&format!("no renewed lease: {}", error_text(&reply.body)))
            }
            None => Err(format!("a renewed lease was answered {}", shown(&reply)).into()),
        }
    }

    async fn loss_is_noticed(&mut self, grant: &str) -> StepResult {
        let renews_ms = self.hello.watchdog_ms.filter(|ms| *ms <= NOTICE_MAX_MS);
        send_to::<()>(&self.options.target, &redis::cmd("FLUSHALL")).await?;
        let said_lost = said_lost(grant);
        if let Some(ms) = renews_ms {
            self.driver(A).listen(Duration::from_millis(ms) + Duration::from_secs(2), &said_lost).await;
        }
        if said_lost(self.driver(A)) {
            return Ok("said lost".to_owned());
        }
        let reply = self.extend_of(A, grant, LONG_MS).await?;
        let deleted = "the lock was deleted at the server, no `lost` came, and an extend was";
        expect(&reply, &["not_held", "failed"], deleted)?;
        Ok("said so when it was asked".to_owned())
    }

    pub(super) async fn kill(&mut self) -> StepResult {
        let (lock, _) = self.granted(SHORT_MS).await?;
        self.driver(A).kill().await;
        let reply = self.ask_for(B, &lock, "t0", NEXT_MS, Some(LONG_MS)).await?;
        let took_ms = reply.took.as_millis();
        let next = granted(&reply, &format!("{took_ms} ms after its death another client"))?;
        self.release_of(B, &next).await?;
        Ok(format!("free after {took_ms} ms"))
    }
}

pub(super) fn said_lost(grant: &str) -> impl Fn(&ScriptedDriver) -> bool {
    move |driver| {
        driver.events.iter().any(|event| {
            let text = |field: &str| event.get(field).and_then(Value::as_str);
            text("event") == Some("lost") && text("grant") == Some(grant)
        })
    }
}

/// Sends a command to our own server, past its drivers.
pub(super) async fn send_to<T: redis::FromRedisValue>(
    target: &str,
    command: &redis::Cmd,
) -> Result<T, String> {
    let tried = async {
        let mut connection = redis::Client::open(target)?.get_multiplexed_async_connection().await?;
        command.query_async::<T>(&mut connection).await
    };
    tried.await.map_err(|e| format!("our own server did not answer a command: {e}"))
}
