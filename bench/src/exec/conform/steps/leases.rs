//! What becomes of a lease that nobody keeps: it lapses, its lock is lost, its client is killed.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Found, LONG_MS, NotAsked, SHORT_MS, SLACK, Trial, WATCHDOG_MAX_MS, grant_of, shown};

use super::super::raw::Raw;

use crate::protocol::error_text;

impl Trial<'_> {
    /// `a` lets a lease lapse, and `b` has the lock: both grants.
    pub(super) async fn lapsed(&mut self) -> Result<(String, String, Duration), String> {
        self.both().await?;
        let lock = self.lock();
        let within = self.patience();
        let asked = Instant::now();
        let first = self.granted(&lock, SHORT_MS).await?;
        let request = self.asking(&lock, "t0", 6_000, Some(LONG_MS));
        let reply = self
            .b()
            .ask(request, within + Duration::from_secs(6))
            .await?;
        let after = asked.elapsed();
        let next = grant_of(&reply).ok_or_else(|| {
            format!(
                "after the lease of {SHORT_MS} ms another client was answered {}",
                shown(&reply)
            )
        })?;
        Ok((first, next, after))
    }

    pub(super) async fn expiry(&mut self) -> Found {
        let (_, next, after) = self.lapsed().await?;
        let within = self.patience();
        self.b()
            .ask(json!({"op": "release", "grant": next}), within)
            .await?;
        if after + SLACK < Duration::from_millis(SHORT_MS) {
            return Err(format!(
                "another client got the lock after {after:?} of a lease of {SHORT_MS} ms"
            ));
        }
        Ok(format!("free after {} ms of {SHORT_MS}", after.as_millis()))
    }

    pub(super) async fn late_extend(&mut self) -> Found {
        let (first, next, _) = self.lapsed().await?;
        let within = self.patience();
        let reply = self
            .a()
            .ask(
                json!({"op": "extend", "grant": first, "lease_ms": LONG_MS}),
                within,
            )
            .await?;
        self.b()
            .ask(json!({"op": "release", "grant": next}), within)
            .await?;
        match reply.ending.as_str() {
            "not_held" | "failed" => Ok(String::new()),
            _ => Err(format!(
                "an extend of a lapsed lease, with another holder, was answered {}",
                shown(&reply)
            )),
        }
    }

    pub(super) async fn late_release(&mut self) -> Found {
        self.both().await?;
        let (first, next, _) = self.lapsed().await?;
        let lock = format!("{}conform-{}", self.options.prefix, self.locks);
        let within = self.patience();
        let reply = self
            .a()
            .ask(json!({"op": "release", "grant": first}), within)
            .await?;
        let late = reply.ending.clone();
        let request = self.asking(&lock, "t2", 0, Some(LONG_MS));
        let reply = self.a().ask(request, within).await?;
        if !self.is_busy(&reply) {
            return Err(format!(
                "a late release (answered `{late}`) freed the lock of another client: a third one was answered {}",
                shown(&reply)
            ));
        }
        self.b()
            .ask(json!({"op": "release", "grant": next}), within)
            .await?;
        if late == "ok" {
            return Err(
                "a release of a lapsed lease, with another holder, was answered `ok`".to_owned(),
            );
        }
        Ok(String::new())
    }

    pub(super) async fn loss(&mut self) -> Result<String, Result<NotAsked, String>> {
        if !self.options.may_flush {
            return Err(Ok(NotAsked(
                "the target is not ours: nothing is deleted there".to_owned(),
            )));
        }
        let tried = async {
            self.both().await?;
            let lock = self.lock();
            let within = self.patience();
            let request = self.asking(&lock, "t0", 2_000, None);
            let reply = self
                .a()
                .ask(request, within + Duration::from_secs(2))
                .await?;
            let Some(grant) = grant_of(&reply) else {
                return if reply.ending == "failed" {
                    Ok(Err(format!(
                        "no renewed lease: {}",
                        error_text(&reply.body)
                    )))
                } else {
                    Err(format!("a renewed lease was answered {}", shown(&reply)))
                };
            };
            let renews_ms = self.watchdog_ms.filter(|ms| *ms <= WATCHDOG_MAX_MS);
            if let Some(ms) = renews_ms {
                self.a()
                    .listen(Duration::from_millis(ms + 300), |_| false)
                    .await;
                let request = self.asking(&lock, "t0", 0, Some(LONG_MS));
                let reply = self.b().ask(request, within).await?;
                if !self.is_busy(&reply) {
                    return Err(format!(
                        "a renewed lock was free after its lease of {ms} ms: another client was answered {}",
                        shown(&reply)
                    ));
                }
            }
            flush(&self.options.target).await?;
            let told = |raw: &Raw| {
                raw.events.iter().any(|event| {
                    event.get("event").and_then(Value::as_str) == Some("lost")
                        && event.get("grant").and_then(Value::as_str) == Some(&grant)
                })
            };
            if let Some(ms) = renews_ms {
                self.a()
                    .listen(Duration::from_millis(ms) + Duration::from_secs(2), told)
                    .await;
            }
            if told(self.a()) {
                return Ok(Ok("said lost".to_owned()));
            }
            let reply = self
                .a()
                .ask(
                    json!({"op": "extend", "grant": grant, "lease_ms": LONG_MS}),
                    within,
                )
                .await?;
            match reply.ending.as_str() {
                "not_held" | "failed" => Ok(Ok("said so when it was asked".to_owned())),
                _ => Err(format!(
                    "the lock was deleted at the server, no `lost` came, and an extend was answered {}",
                    shown(&reply)
                )),
            }
        };
        match tried.await {
            Ok(Ok(remark)) => Ok(remark),
            Ok(Err(why)) => Err(Ok(NotAsked(why))),
            Err(wrong) => Err(Err(wrong)),
        }
    }

    pub(super) async fn kill(&mut self) -> Found {
        self.both().await?;
        let lock = self.lock();
        self.granted(&lock, SHORT_MS).await?;
        self.a().kill().await;
        let within = self.patience();
        let request = self.asking(&lock, "t0", 6_000, Some(LONG_MS));
        let reply = self
            .b()
            .ask(request, within + Duration::from_secs(6))
            .await?;
        let next = grant_of(&reply).ok_or_else(|| {
            format!(
                "{} ms after its death another client was answered {}",
                reply.took.as_millis(),
                shown(&reply)
            )
        })?;
        self.b()
            .ask(json!({"op": "release", "grant": next}), within)
            .await?;
        Ok(format!("free after {} ms", reply.took.as_millis()))
    }
}

/// Deletes everything at a target of one server that is ours.
async fn flush(target: &str) -> Result<(), String> {
    let tried = async {
        let client = redis::Client::open(target)?;
        let mut connection = client.get_multiplexed_async_connection().await?;
        redis::cmd("FLUSHALL")
            .query_async::<()>(&mut connection)
            .await
    };
    tried
        .await
        .map_err(|e| format!("cannot delete the keys of our own server: {e}"))
}
