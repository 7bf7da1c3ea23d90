//! What a request may name, and how many there may be: grants and kinds that are not there, owners, several at once, a loop.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{
    A, B, Found, LONG_MS, MaybeFound, SHORT_MS, Trial, beside, expect, grant_of, granted,
    not_asked, shown,
};
use crate::{driver_loop::LoadReport, protocol::error_text};

impl Trial<'_> {
    pub(super) async fn unknown_grant(&mut self) -> Found {
        self.both().await?;
        let reply = self.release_of(A, "no-such-grant").await?;
        expect(&reply, &["not_held", "failed"], "it was")
    }

    pub(super) async fn unknown_kind(&mut self) -> Found {
        let lock = self.fresh_lock().await?;
        let mut request = self.asking(&lock, "t0", 0, Some(SHORT_MS));
        request["kind"] = json!("no-such-kind");
        let reply = self.ask(A, request).await?;
        expect(&reply, &["failed"], "it was")
    }

    pub(super) async fn owners(&mut self) -> MaybeFound {
        // What its name does not say of a kind, the driver says by the feature; a fenced lock is free to do either.
        let nests = match self.kind.as_str() {
            "reentrant" | "spin" | "fair" | "write" => Some(true),
            "plain" | "non-reentrant" | "fenced" if self.lists("reentrant") => Some(true),
            "plain" | "non-reentrant" => Some(false),
            "fenced" => None,
            other => return not_asked(&format!("the kind {other} may nest or not")),
        };
        Ok(self.enters(nests).await?)
    }

    async fn enters(&mut self, nests: Option<bool>) -> Found {
        let (lock, first) = self.granted(LONG_MS).await?;
        let reply = self.ask_for(A, &lock, "t1", 0, Some(LONG_MS)).await?;
        self.busy_or(&reply, "another owner in the same client was answered")?;
        let reply = self.ask_for(A, &lock, "t0", 0, Some(LONG_MS)).await?;
        let again = grant_of(&reply);
        match (&again, nests) {
            (Some(again), _) if *again == first => {
                return Err("a re-entry got the grant of the first hold".to_owned());
            }
            (None, Some(true)) => return Err(format!("a re-entry was answered {}", shown(&reply))),
            (Some(_), Some(false)) => {
                return Err(format!(
                    "the holder of a {} lock was granted it again",
                    self.kind
                ));
            }
            _ => {}
        }
        for grant in again.into_iter().chain([first]) {
            let reply = self.release_of(A, &grant).await?;
            expect(&reply, &["ok"], "a release was")?;
        }
        Ok(String::new())
    }

    pub(super) async fn concurrency(&mut self) -> Found {
        let (lock, held) = self.granted(LONG_MS).await?;
        let other = self.lock();
        let request = self.asking(&lock, "t0", 5_000, Some(LONG_MS));
        let waiting = self.raw(B).send(request).await;
        let request = self.asking(&other, "t1", 0, Some(LONG_MS));
        let within = self.patience() + Duration::from_secs(5);
        let asked = Instant::now();
        let reply = self.raw(B).ask(request, within).await?;
        let took = asked.elapsed();
        if self.raw(B).has(waiting) || took > Duration::from_secs(4) {
            return Err(format!(
                "while one request waited for a lock, another one was answered after {took:?}"
            ));
        }
        let got = granted(&reply, "a free lock")?;
        self.release_of(A, &held).await?;
        let reply = self.raw(B).reply(waiting, within).await?;
        for grant in [got, granted(&reply, "the waiter")?] {
            self.release_of(B, &grant).await?;
        }
        Ok(String::new())
    }

    pub(super) async fn many(&mut self) -> Found {
        self.both().await?;
        let mut asked = Vec::new();
        for n in 0..20 {
            let lock = self.lock();
            let request = self.asking(&lock, &format!("t{n}"), 2_000, Some(LONG_MS));
            asked.push(self.raw(A).send(request).await);
        }
        let within = self.patience() + Duration::from_secs(2);
        let mut grants = std::collections::BTreeSet::new();
        for id in &asked {
            let reply = self.raw(A).reply(*id, within).await?;
            let grant = granted(&reply, "a free lock")?;
            if !grants.insert(grant.clone()) {
                return Err(format!("the grant `{grant}` was given twice"));
            }
        }
        for grant in grants {
            self.release_of(A, &grant).await?;
        }
        Ok(String::new())
    }

    /// Each of several names is the holder's.
    pub(super) async fn names(&mut self) -> MaybeFound {
        if self.kind != "multi" {
            return not_asked(&format!("the kind {} takes one name at a time", self.kind));
        }
        let (lock, held) = self.granted(LONG_MS).await?;
        // It is the first name of this request, and the second one of the other.
        let both = beside(&lock);
        let reply = self.ask_for(B, &both, "t0", 0, Some(LONG_MS)).await?;
        self.taken_or(&reply, "the second name of two that are held was free")?;
        self.release_of(A, &held).await?;
        let reply = self.ask_for(B, &both, "t0", 2_000, Some(LONG_MS)).await?;
        let next = granted(&reply, "after its release the second name")?;
        self.release_of(B, &next).await?;
        Ok(String::new())
    }

    pub(super) async fn owner_moves(&mut self) -> MaybeFound {
        self.needs("owner_moves")?;
        let (lock, grant) = self.granted(LONG_MS).await?;
        let request = json!({"op": "release", "grant": grant, "owner": "t1"});
        let reply = self.ask(A, request).await?;
        expect(&reply, &["ok"], "the release by another owner was")?;
        let reply = self.ask_for(B, &lock, "t0", 0, Some(LONG_MS)).await?;
        let next = granted(&reply, "after its release by another owner the lock")?;
        self.release_of(B, &next).await?;
        Ok(String::new())
    }

    pub(super) async fn block(&mut self) -> MaybeFound {
        self.needs("block")?;
        const FOR_MS: u64 = 300;
        let request = json!({"op": "block", "for_ms": FOR_MS});
        let reply = self.ask(A, request).await?;
        expect(&reply, &["ok"], "it was")?;
        let said_ns = reply.body.get("blocked_ns").and_then(Value::as_u64);
        let said_ms = said_ns.unwrap_or(0) / 1_000_000;
        let took_ms = reply.took.as_millis();
        if said_ms < FOR_MS * 9 / 10 || u128::from(said_ms) > took_ms + 1 {
            return Err(format!(
                "a block of {FOR_MS} ms was said to have lasted {said_ms} ms, and was answered after {took_ms} ms"
            ).into());
        }
        Ok(format!("{said_ms} ms of {FOR_MS}"))
    }

    pub(super) async fn cancel(&mut self) -> MaybeFound {
        self.needs("cancel")?;
        const WAIT_MS: u64 = 60_000;
        let (lock, held) = self.granted(LONG_MS).await?;
        let request = self.asking(&lock, "t0", WAIT_MS, Some(LONG_MS));
        let waiting = self.raw(B).send(request).await;
        // It is under way by then, or is cancelled before it was sent: both must be answered.
        self.listen(B, Duration::from_millis(100)).await;
        let reply = self.ask(B, json!({"op": "cancel", "of": waiting})).await?;
        expect(&reply, &["ok"], "it was")?;
        let within = self.patience();
        let reply = self.raw(B).reply(waiting, within).await?;
        let given_up = ["busy", "failed", "unknown"];
        expect(&reply, &given_up, "a cancelled wait for a held lock was")?;
        let took_ms = reply.took.as_millis();
        self.release_of(A, &held).await?;
        Ok(format!(
            "after {took_ms} ms of {WAIT_MS}, as `{}`",
            reply.ending
        ))
    }

    /// The closed loop that a driver runs by itself.
    pub(super) async fn load(&mut self) -> MaybeFound {
        self.both().await?;
        let request = json!({
            "op": "load", "workload": "cycles", "kind": self.kind, "tasks": 2, "locks": 2, "warmup_ms": 50, "measure_ms": 300,
            "lease_ms": LONG_MS, "hold_us": 0, "think_us": 0,
        });
        let within = self.patience() + Duration::from_secs(5);
        let reply = self.raw(A).ask(request, within).await?;
        if reply.ending == "failed" && !self.lists("load") {
            return not_asked(&format!("not offered: {}", error_text(&reply.body)));
        }
        expect(&reply, &["ok"], "it was")?;
        let report = LoadReport::of_body(&reply.body, 2)
            .map_err(|wrong| format!("{wrong}: {}", shown(&reply)))?;
        if report.cycles > 0 && (report.acquire.is_empty() || report.release.is_empty()) {
            let empty = "cycles were counted, and a histogram of their times is empty";
            return Err(format!("{empty}: {}", shown(&reply)).into());
        }
        Ok(report.to_string())
    }
}
