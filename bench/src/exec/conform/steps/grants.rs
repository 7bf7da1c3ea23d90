//! One lock after the other: granted, asked about, refused, waited for, extended, given back.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{
    super::scripted_driver::ScriptedDriver, A, B, LONG_MS, Reply, SHORT_MS, SLACK, SkippableResult,
    StepResult, Trial, WATCHDOG_MS, expect, granted, shown, skip,
};
use crate::exec::pipe::{PipeCost, QUESTIONS};
use crate::{monotonic, protocol::error_text};

impl Trial<'_> {
    pub(super) async fn acquire(&mut self) -> StepResult {
        let lock = self.fresh_lock().await?;
        let reply = self.ask_for(A, &lock, "t0", 0, Some(LONG_MS)).await?;
        let grant = granted(&reply, "a free lock")?;
        let said = |field: &str| reply.body.get(field).filter(|value| !value.is_null());
        if let Some(token) = said("token")
            && token.as_i64().is_none_or(|token| token < 0)
        {
            return Err(format!("the token {token} is no whole number from 0 to 2^63-1"));
        }
        if let Some(age) = said("age_ms") {
            let age_ms = age.as_f64().filter(|age| *age >= 0.0).ok_or_else(|| format!("age_ms is {age}"))?;
            let took_ms = reply.took.as_secs_f64() * 1000.0;
            if age_ms > took_ms + SLACK.as_secs_f64() * 1000.0 {
                return Err(format!("age_ms is {age_ms}, and the whole request took {took_ms:.1} ms"));
            }
        }
        for field in ["sent_mono_ns", "returned_mono_ns"] {
            if let Some(stamp) = said(field) {
                check_stamp(&reply, field, stamp)?;
            }
        }
        self.release_of(A, &grant).await?;
        Ok(format!("in {:.1} ms", reply.took.as_secs_f64() * 1000.0))
    }

    /// Grants of one lock, to two clients in turn, that have a token each.
    pub(super) async fn tokens(&mut self) -> SkippableResult {
        if self.kind != "fenced" {
            return skip(&format!("the kind {} need not give tokens", self.kind));
        }
        let lock = self.fresh_lock().await?;
        let mut tokens = Vec::new();
        for which in [A, B, A] {
            let reply = self.ask_for(which, &lock, "t0", 2_000, Some(LONG_MS)).await?;
            let grant = granted(&reply, "a free lock")?;
            let token = reply.body.get("token").and_then(Value::as_u64);
            tokens.push(token.ok_or_else(|| format!("no token in {}", shown(&reply)))?);
            self.release_of(which, &grant).await?;
        }
        let three = tokens.iter().map(u64::to_string).collect::<Vec<_>>();
        let three = three.join(", ");
        match tokens.is_sorted_by(|earlier, later| earlier < later) {
            true => Ok(three),
            false => Err(format!("three grants of one lock had the tokens {three}").into()),
        }
    }

    pub(super) async fn held(&mut self) -> StepResult {
        let (_, grant) = self.granted(LONG_MS).await?;
        let request = json!({"op": "held", "grant": grant});
        let reply = self.ask(A, request.clone()).await?;
        match (reply.ending.as_str(), reply.body.get("held")) {
            ("ok", Some(Value::Bool(true))) => {}
            // A library that cannot be asked says so.
            ("failed", _) => {
                self.release_of(A, &grant).await?;
                return Ok("cannot be asked".to_owned());
            }
            _ => return Err(format!("a lock that is held was answered {}", shown(&reply))),
        }
        let mut round_trips = Vec::new();
        for _ in 0..QUESTIONS {
            round_trips.push(self.ask(A, request.clone()).await?.took);
        }
        let pipe = PipeCost::of(round_trips);
        self.result.pipe = Some(pipe);
        self.release_of(A, &grant).await?;
        Ok(format!("the pipe costs {:?} per round trip (99 %: {:?})", pipe.median, pipe.p99))
    }

    pub(super) async fn busy(&mut self) -> StepResult {
        let (lock, grant) = self.granted(LONG_MS).await?;
        let reply = self.ask_for(B, &lock, "t0", 0, Some(LONG_MS)).await?;
        self.expect_busy(&reply, "a lock that another client has was answered")?;
        self.release_of(A, &grant).await?;
        Ok(String::new())
    }

    pub(super) async fn wait(&mut self) -> StepResult {
        const WAIT_MS: u64 = 500;
        /// What the holder would have waited itself, which its lock outlives.
        const HOLDER_WAIT_MS: u64 = 1_000;
        let lock = self.fresh_lock().await?;
        let reply = self.ask_for(A, &lock, "t0", HOLDER_WAIT_MS, Some(LONG_MS)).await?;
        let grant = granted(&reply, "a free lock")?;
        let reply = self.ask_for(B, &lock, "t0", WAIT_MS, Some(LONG_MS)).await?;
        self.expect_busy(&reply, "a lock that another client has was answered")?;
        if reply.took + SLACK < Duration::from_millis(WAIT_MS) {
            return Err(format!("it gave up after {:?} of {WAIT_MS} ms", reply.took));
        }
        if reply.took > Duration::from_millis(WAIT_MS) + Duration::from_secs(2) {
            return Err(format!("it took {:?} instead of {WAIT_MS} ms", reply.took));
        }
        let request = self.acquire_request(&lock, "t0", 8_000, Some(LONG_MS));
        let waiting = self.driver(B).send(request).await;
        // If the waiter takes longer to begin, the step only gets easier.
        self.listen(B, Duration::from_millis(HOLDER_WAIT_MS - WAIT_MS + 200)).await;
        if self.driver(B).has(waiting) {
            return Err("a waiter was answered while the lock was held".to_owned());
        }
        let reply = self.answer_after_release(&grant, waiting, 8_000).await?;
        self.release_of(B, &granted(&reply, "a waiter for a lock that was released")?).await?;
        Ok(String::new())
    }

    /// Again and again a lock is released while another client begins to wait for it, each time a little
    /// later.
    pub(super) async fn hand_off(&mut self) -> StepResult {
        const WAIT_MS: u64 = 5_000;
        const ROUNDS: u32 = 100;
        const ROUNDS_WITHIN: Duration = Duration::from_secs(2);
        const LATER: Duration = Duration::from_micros(20);
        let (lock, mut held) = self.granted(LONG_MS).await?;
        let began = Instant::now();
        let mut rounds = 0;
        while rounds < ROUNDS && began.elapsed() < ROUNDS_WITHIN {
            let request = self.acquire_request(&lock, "t0", WAIT_MS, Some(LONG_MS));
            let waiting = self.driver(B).send(request).await;
            let sent = Instant::now();
            // Timers count whole milliseconds.
            while sent.elapsed() < LATER * rounds {
                tokio::task::yield_now().await;
            }
            let reply = self.answer_after_release(&held, waiting, WAIT_MS).await?;
            let who = "a waiter that came while the lock was released";
            let next = granted(&reply, who).map_err(|wrong| format!("{wrong} after {:?}", reply.took))?;
            self.release_of(B, &next).await?;
            let reply = self.ask_for(A, &lock, "t0", 2_000, Some(LONG_MS)).await?;
            held = granted(&reply, "a free lock")?;
            rounds += 1;
        }
        self.release_of(A, &held).await?;
        Ok(format!("{rounds} times"))
    }

    /// Longer than the holder's lease, where the driver renews a short one.
    pub(super) async fn endless_wait(&mut self) -> SkippableResult {
        let renewed_ms = self.hello.watchdog_ms.filter(|ms| *ms <= WATCHDOG_MS);
        let lock = self.fresh_lock().await?;
        let lease_ms = renewed_ms.is_none().then_some(LONG_MS);
        let reply = self.ask_for(A, &lock, "t0", 2_000, lease_ms).await?;
        let held = granted(&reply, "a free lock")?;
        let mut request = self.acquire_request(&lock, "t0", 0, lease_ms);
        request["wait_ms"] = Value::Null;
        let waiting = self.driver(B).send(request).await;
        let lasts_ms = renewed_ms.map_or(300, |ms| ms + ms / 3);
        let answered = |driver: &ScriptedDriver| driver.has(waiting);
        self.driver(B).listen(Duration::from_millis(lasts_ms), answered).await;
        let is_early = self.driver(B).has(waiting);
        let reply = self.answer_after_release(&held, waiting, 8_000).await?;
        if is_early && reply.ending == "failed" {
            return skip(&format!("no wait without a bound: {}", error_text(&reply.body)));
        }
        if is_early {
            return Err(format!("while another client had the lock it was answered {}", shown(&reply)).into());
        }
        let grant = granted(&reply, "a waiter for a lock that was released")?;
        let reply = self.ask_for(A, &lock, "t0", 0, Some(LONG_MS)).await?;
        self.expect_taken(&reply, "what a wait without a bound was granted was free at once")?;
        self.release_of(B, &grant).await?;
        Ok(format!("after {lasts_ms} ms"))
    }

    pub(super) async fn extend(&mut self) -> SkippableResult {
        self.require_extend()?;
        let (lock, grant) = self.granted(SHORT_MS).await?;
        let reply = self.extend_of(A, &grant, LONG_MS).await?;
        expect(&reply, &["ok"], "an extend of a lock that is held was")?;
        self.listen(A, Duration::from_millis(SHORT_MS + 300)).await;
        let reply = self.ask_for(B, &lock, "t0", 0, Some(LONG_MS)).await?;
        let free = format!("extended by {LONG_MS} ms, the lock was free after its first {SHORT_MS} ms");
        self.expect_taken(&reply, &free)?;
        self.release_of(A, &grant).await?;
        Ok(self.extended_lease_ends().await?)
    }

    /// Extended again and again to its first lease, and no longer than that.
    async fn extended_lease_ends(&mut self) -> StepResult {
        let (lock, grant) = self.granted(SHORT_MS).await?;
        for _ in 0..3 {
            let reply = self.extend_of(A, &grant, SHORT_MS).await?;
            expect(&reply, &["ok"], "an extend of a lock that is held was")?;
        }
        self.short_lease_ends(&lock, "a lock was extended to").await
    }

    pub(super) async fn release(&mut self) -> StepResult {
        let (lock, grant) = self.granted(LONG_MS).await?;
        let reply = self.release_of(A, &grant).await?;
        expect(&reply, &["ok"], "the release of a lock that is held was")?;
        let reply = self.ask_for(B, &lock, "t0", 2_000, Some(LONG_MS)).await?;
        let next = granted(&reply, "after its release the lock")?;
        let reply = self.release_of(A, &grant).await?;
        let good: &[&str] = match self.has_feature("release_blind") {
            true => &["not_held", "failed", "ok"],
            false => &["not_held", "failed"],
        };
        expect(&reply, good, "a second release was")?;
        self.release_of(B, &next).await?;
        Ok(String::new())
    }
}

/// Expects that a stamp of the machine's clock lies between the request and its answer.
fn check_stamp(reply: &Reply, field: &str, stamp: &Value) -> Result<(), String> {
    let ns = stamp.as_u64().ok_or_else(|| format!("{field} is {stamp}, no whole number"))?;
    let (first, last) = (reply.at.checked_sub(reply.took + SLACK), reply.at + SLACK);
    let Some((first, last)) = first.and_then(monotonic::ns).zip(monotonic::ns(last)) else { return Ok(()) };
    match (first..=last).contains(&ns) {
        true => Ok(()),
        false => Err(format!(
            "{field} is {ns}, which is not between the request and its answer ({first} to {last})"
        )),
    }
}
