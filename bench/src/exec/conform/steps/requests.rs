//! What a request may name, and how many there may be: unknown grants and kinds, owners, many, a loop.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{
    A, B, LONG_MS, SHORT_MS, SkippableResult, StepFailure, StepResult, Trial, expect, grant_of, granted,
    second_name, shown, skip,
};
use crate::{driver_loop::LoadReport, protocol::error_text};

impl Trial<'_> {
    pub(super) async fn unknown_grant(&mut self) -> StepResult {
        self.start_both().await?;
        expect(&self.release_of(A, "no-such-grant").await?, &["not_held", "failed"], "it was")
    }

    pub(super) async fn unknown_kind(&mut self) -> StepResult {
        let lock = self.fresh_lock().await?;
        let mut request = self.acquire_request(&lock, "t0", 0, Some(SHORT_MS));
        request["kind"] = json!("no-such-kind");
        expect(&self.ask(A, request).await?, &["failed"], "it was")
    }

    /// Some kinds nest by their name, others if the driver lists `reentrant`. A fenced lock may do either. Of
    /// the other kinds the protocol does not say it.
    pub(super) fn nests(&self) -> Option<Option<bool>> {
        match self.kind.as_str() {
            "reentrant" | "spin" | "fair" | "write" => Some(Some(true)),
            "plain" | "non-reentrant" | "fenced" if self.has_feature("reentrant") => Some(Some(true)),
            "plain" | "non-reentrant" => Some(Some(false)),
            "fenced" => Some(None),
            _ => None,
        }
    }

    pub(super) async fn owners(&mut self) -> SkippableResult {
        match self.nests() {
            Some(nests) => Ok(self.try_reentry(nests).await?),
            None => skip(&format!("the kind {} may nest or not", self.kind)),
        }
    }

    async fn try_reentry(&mut self, nests: Option<bool>) -> StepResult {
        let (lock, first) = self.granted(LONG_MS).await?;
        let reply = self.ask_for(A, &lock, "t1", 0, Some(LONG_MS)).await?;
        self.expect_busy(&reply, "another owner in the same client was answered")?;
        let reply = self.ask_for(A, &lock, "t0", 0, Some(LONG_MS)).await?;
        let again = grant_of(&reply);
        match (&again, nests) {
            (Some(again), _) if *again == first => {
                return Err("a re-entry got the grant of the first hold".to_owned());
            }
            (None, Some(true)) => return Err(format!("a re-entry was answered {}", shown(&reply))),
            (Some(_), Some(false)) => {
                return Err(format!("the holder of a {} lock was granted it again", self.kind));
            }
            _ => {}
        }
        if let Some(again) = again {
            expect(&self.release_of(A, &again).await?, &["ok"], "the release of a re-entry was")?;
            // A release that shortens the lease of the outer hold leaves less than this.
            self.listen(A, Duration::from_millis(SHORT_MS)).await;
            let reply = self.ask_for(B, &lock, "t0", 0, Some(LONG_MS)).await?;
            self.expect_taken(&reply, "the release of a re-entry freed the lock")?;
        }
        expect(&self.release_of(A, &first).await?, &["ok"], "a release was")
    }

    /// So many that a library which mixes up some of their names is likely to be found.
    pub(super) async fn many_locks(&mut self) -> StepResult {
        self.start_both().await?;
        let mut held = Vec::new();
        for _ in 0..32 {
            let lock = self.lock();
            let reply = self.ask_for(A, &lock, "t0", 2_000, Some(LONG_MS)).await?;
            held.push((lock, granted(&reply, "a free lock")?));
        }
        let (released, kept) = held.split_at(16);
        for (_, grant) in released {
            expect(&self.release_of(A, grant).await?, &["ok"], "the release of one of many locks was")?;
        }
        for (lock, _) in released {
            let reply = self.ask_for(B, lock, "t0", 2_000, Some(LONG_MS)).await?;
            self.release_of(B, &granted(&reply, "after its release one of many locks")?).await?;
        }
        for (lock, grant) in kept {
            let reply = self.ask_for(B, lock, "t0", 0, Some(LONG_MS)).await?;
            self.expect_taken(&reply, "the releases of many locks freed another one")?;
            expect(&self.release_of(A, grant).await?, &["ok"], "the release of one of many locks was")?;
        }
        Ok(String::new())
    }

    pub(super) async fn read_in_write(&mut self) -> SkippableResult {
        self.require_readers()?;
        let (lock, writing) = self.granted(LONG_MS).await?;
        let reply = self.ask(A, self.read_request(&lock, "t0", 0)).await?;
        let Some(reading) = grant_of(&reply) else {
            self.release_of(A, &writing).await?;
            return skip(&format!("a writer that would read was answered {}", shown(&reply)));
        };
        expect(&self.release_of(A, &reading).await?, &["ok"], "the release of what it reads was")?;
        let reply = self.ask_for(B, &lock, "t0", 0, Some(LONG_MS)).await?;
        self.expect_taken(&reply, "the release of what a writer reads freed what it writes")?;
        expect(&self.release_of(A, &writing).await?, &["ok"], "the release of what it writes was")?;
        let reply = self.ask_for(B, &lock, "t0", 2_000, Some(LONG_MS)).await?;
        self.release_of(B, &granted(&reply, "after both releases the lock")?).await?;
        Ok(String::new())
    }

    fn require_readers(&self) -> Result<(), StepFailure> {
        match self.kind == "write" && self.hello.kinds.iter().any(|kind| kind == "read") {
            true => Ok(()),
            false => skip("only a lock with two sides has readers and a writer").map(drop),
        }
    }

    fn read_request(&self, lock: &str, owner: &str, wait_ms: u64) -> Value {
        let mut request = self.acquire_request(lock, owner, wait_ms, Some(LONG_MS));
        request["kind"] = json!("read");
        request
    }

    /// Readers of both clients wait for one writer, and are granted the lock before any of them releases.
    pub(super) async fn readers(&mut self) -> SkippableResult {
        // Who has it only when the wait is over was not told of the release.
        let wait_ms = self.patience().as_millis() as u64 * 3;
        self.require_readers()?;
        let (lock, writing) = self.granted(LONG_MS).await?;
        let mut waiting = Vec::new();
        for (which, owner) in [(B, "t0"), (B, "t1"), (B, "t2"), (A, "t1")] {
            let request = self.read_request(&lock, owner, wait_ms);
            waiting.push((which, self.driver(which).send(request).await));
        }
        self.listen(B, Duration::from_millis(300)).await;
        if waiting.iter().any(|(which, id)| self.driver(*which).has(*id)) {
            return Err("a reader was answered while another owner was writing".to_owned().into());
        }
        self.release_of(A, &writing).await?;
        let (within, who) = (self.patience(), "when the writer had released, one of four readers");
        let mut reading = Vec::new();
        for (which, id) in waiting {
            let reply = self.driver(which).reply(id, within).await;
            let reply = reply.map_err(|why| format!("{who} had {why}, while others read"))?;
            reading.push((which, granted(&reply, who)?));
        }
        for (which, grant) in reading {
            expect(&self.release_of(which, &grant).await?, &["ok"], "the release of what it reads was")?;
        }
        Ok(String::new())
    }

    pub(super) async fn concurrency(&mut self) -> StepResult {
        let (lock, held) = self.granted(LONG_MS).await?;
        let other = self.lock();
        let request = self.acquire_request(&lock, "t0", 5_000, Some(LONG_MS));
        let waiting = self.driver(B).send(request).await;
        let request = self.acquire_request(&other, "t1", 0, Some(LONG_MS));
        let within = self.patience() + Duration::from_secs(5);
        let asked = Instant::now();
        let reply = self.driver(B).ask(request, within).await?;
        let took = asked.elapsed();
        if self.driver(B).has(waiting) || took > Duration::from_secs(4) {
            return Err(format!(
                "while one request waited for a lock, another one was answered after {took:?}"
            ));
        }
        let got = granted(&reply, "a free lock")?;
        let reply = self.answer_after_release(&held, waiting, 5_000).await?;
        for grant in [got, granted(&reply, "the waiter")?] {
            self.release_of(B, &grant).await?;
        }
        Ok(String::new())
    }

    pub(super) async fn many(&mut self) -> StepResult {
        self.start_both().await?;
        let mut asked = Vec::new();
        for n in 0..20 {
            let lock = self.lock();
            let request = self.acquire_request(&lock, &format!("t{n}"), 2_000, Some(LONG_MS));
            asked.push(self.driver(A).send(request).await);
        }
        let within = self.patience() + Duration::from_secs(2);
        let mut grants = std::collections::BTreeSet::new();
        for id in &asked {
            let grant = granted(&self.driver(A).reply(*id, within).await?, "a free lock")?;
            if !grants.insert(grant.clone()) {
                return Err(format!("the grant `{grant}` was given twice"));
            }
        }
        for grant in grants {
            self.release_of(A, &grant).await?;
        }
        Ok(String::new())
    }

    /// All names of a request are held.
    pub(super) async fn names(&mut self) -> SkippableResult {
        if self.kind != "multi" {
            return skip(&format!("the kind {} takes one name at a time", self.kind));
        }
        let (lock, held) = self.granted(LONG_MS).await?;
        // The second lock of A's request is the first of B's.
        let both = second_name(&lock);
        let reply = self.ask_for(B, &both, "t0", 0, Some(LONG_MS)).await?;
        self.expect_taken(&reply, "the second name of two that are held was free")?;
        self.release_of(A, &held).await?;
        let reply = self.ask_for(B, &both, "t0", 2_000, Some(LONG_MS)).await?;
        self.release_of(B, &granted(&reply, "after its release the second name")?).await?;
        Ok(String::new())
    }

    pub(super) async fn owner_moves(&mut self) -> SkippableResult {
        self.require_feature("owner_moves")?;
        let (lock, grant) = self.granted(LONG_MS).await?;
        let reply = self.ask(A, json!({"op": "release", "grant": grant, "owner": "t1"})).await?;
        expect(&reply, &["ok"], "the release by another owner was")?;
        let reply = self.ask_for(B, &lock, "t0", 0, Some(LONG_MS)).await?;
        self.release_of(B, &granted(&reply, "after its release by another owner the lock")?).await?;
        Ok(String::new())
    }

    pub(super) async fn block(&mut self) -> SkippableResult {
        self.require_feature("block")?;
        const FOR_MS: u64 = 300;
        let reply = self.ask(A, json!({"op": "block", "for_ms": FOR_MS})).await?;
        expect(&reply, &["ok"], "it was")?;
        let said_ms = reply.body.get("blocked_ns").and_then(Value::as_u64).unwrap_or(0) / 1_000_000;
        let took_ms = reply.took.as_millis();
        if said_ms < FOR_MS * 9 / 10 || u128::from(said_ms) > took_ms + 1 {
            return Err(format!(
                "a block of {FOR_MS} ms was said to have lasted {said_ms} ms, and was answered after {took_ms} ms"
            ).into());
        }
        Ok(format!("{said_ms} ms of {FOR_MS}"))
    }

    pub(super) async fn cancel(&mut self) -> SkippableResult {
        self.require_feature("cancel")?;
        const WAIT_MS: u64 = 60_000;
        let (lock, held) = self.granted(LONG_MS).await?;
        let request = self.acquire_request(&lock, "t0", WAIT_MS, Some(LONG_MS));
        let waiting = self.driver(B).send(request).await;
        // A cancel may come before or after the driver sends the acquire: both must be answered.
        self.listen(B, Duration::from_millis(100)).await;
        let reply = self.ask(B, json!({"op": "cancel", "of": waiting})).await?;
        expect(&reply, &["ok"], "it was")?;
        let within = self.patience();
        let reply = self.driver(B).reply(waiting, within).await?;
        let given_up = ["busy", "failed", "unknown"];
        expect(&reply, &given_up, "a cancelled wait for a held lock was")?;
        let took_ms = reply.took.as_millis();
        self.release_of(A, &held).await?;
        Ok(format!("after {took_ms} ms of {WAIT_MS}, as `{}`", reply.ending))
    }

    /// The closed loop that a driver runs by itself.
    pub(super) async fn load(&mut self) -> SkippableResult {
        self.start_both().await?;
        let request = json!({
            "op": "load", "workload": "cycles", "kind": self.kind, "tasks": 2, "locks": 2, "warmup_ms": 50, "measure_ms": 300,
            "lease_ms": LONG_MS, "hold_us": 0, "think_us": 0,
        });
        let within = self.patience() + Duration::from_secs(5);
        let reply = self.driver(A).ask(request, within).await?;
        if reply.ending == "failed" && !self.has_feature("load") {
            return skip(&format!("not offered: {}", error_text(&reply.body)));
        }
        expect(&reply, &["ok"], "it was")?;
        let report =
            LoadReport::of_body(&reply.body, 2).map_err(|wrong| format!("{wrong}: {}", shown(&reply)))?;
        if report.cycles > 0 && (report.acquire.is_empty() || report.release.is_empty()) {
            let empty = "cycles were counted, and a histogram of their times is empty";
            return Err(format!("{empty}: {}", shown(&reply)).into());
        }
        Ok(report.to_string())
    }
}
