//! What a request may name, and how many there may be: grants and kinds that are not there, owners, several at once.

use std::time::{Duration, Instant};

use serde_json::json;

use super::{Found, LONG_MS, NotAsked, SHORT_MS, Trial, grant_of, shown};

impl Trial<'_> {
    pub(super) async fn unknown_grant(&mut self) -> Found {
        self.both().await?;
        let within = self.patience();
        let reply = self
            .a()
            .ask(json!({"op": "release", "grant": "no-such-grant"}), within)
            .await?;
        match reply.ending.as_str() {
            "not_held" | "failed" => Ok(String::new()),
            _ => Err(format!("it was answered {}", shown(&reply))),
        }
    }

    pub(super) async fn unknown_kind(&mut self) -> Found {
        self.both().await?;
        let lock = self.lock();
        let mut request = self.asking(&lock, "t0", 0, Some(SHORT_MS));
        request["kind"] = json!("no-such-kind");
        let within = self.patience();
        let reply = self.a().ask(request, within).await?;
        match reply.ending.as_str() {
            "failed" => Ok(String::new()),
            _ => Err(format!("it was answered {}", shown(&reply))),
        }
    }

    pub(super) async fn owners(&mut self) -> Result<String, Result<NotAsked, String>> {
        let nests = match self.kind.as_str() {
            "plain" | "non-reentrant" => false,
            "reentrant" | "spin" | "fenced" | "fair" | "write" => true,
            other => return Err(Ok(NotAsked(format!("the kind {other} may nest or not")))),
        };
        let tried = async {
            self.both().await?;
            let lock = self.lock();
            let first = self.granted(&lock, LONG_MS).await?;
            let within = self.patience();
            let request = self.asking(&lock, "t1", 0, Some(LONG_MS));
            let reply = self.a().ask(request, within).await?;
            if !self.is_busy(&reply) {
                return Err(format!(
                    "another owner in the same client was answered {}",
                    shown(&reply)
                ));
            }
            let request = self.asking(&lock, "t0", 0, Some(LONG_MS));
            let reply = self.a().ask(request, within).await?;
            let again = grant_of(&reply);
            match (&again, nests) {
                (Some(again), true) if *again == first => {
                    return Err("a re-entry got the grant of the first hold".to_owned());
                }
                (None, true) => return Err(format!("a re-entry was answered {}", shown(&reply))),
                (Some(_), false) => {
                    return Err(format!(
                        "the holder of a {} lock was granted it again",
                        self.kind
                    ));
                }
                _ => {}
            }
            for grant in again.into_iter().chain([first]) {
                let reply = self
                    .a()
                    .ask(json!({"op": "release", "grant": grant}), within)
                    .await?;
                if reply.ending != "ok" {
                    return Err(format!("a release was answered {}", shown(&reply)));
                }
            }
            Ok(String::new())
        };
        tried.await.map_err(Err)
    }

    pub(super) async fn concurrency(&mut self) -> Found {
        self.both().await?;
        let (lock, other) = (self.lock(), self.lock());
        let held = self.granted(&lock, LONG_MS).await?;
        let within = self.patience();
        let request = self.asking(&lock, "t0", 5_000, Some(LONG_MS));
        let waiting = self.b().send(request).await;
        let request = self.asking(&other, "t1", 0, Some(LONG_MS));
        let asked = Instant::now();
        let reply = self
            .b()
            .ask(request, within + Duration::from_secs(5))
            .await?;
        let took = asked.elapsed();
        if self.b().has(waiting) || took > Duration::from_secs(4) {
            return Err(format!(
                "while one request waited for a lock, another one was answered after {took:?}"
            ));
        }
        let got = grant_of(&reply)
            .ok_or_else(|| format!("a free lock was answered {}", shown(&reply)))?;
        self.a()
            .ask(json!({"op": "release", "grant": held}), within)
            .await?;
        let reply = self
            .b()
            .reply(waiting, within + Duration::from_secs(5))
            .await?;
        let next =
            grant_of(&reply).ok_or_else(|| format!("the waiter was answered {}", shown(&reply)))?;
        for grant in [got, next] {
            self.b()
                .ask(json!({"op": "release", "grant": grant}), within)
                .await?;
        }
        Ok(String::new())
    }

    pub(super) async fn many(&mut self) -> Found {
        self.both().await?;
        let within = self.patience();
        let mut asked = Vec::new();
        for n in 0..20 {
            let lock = self.lock();
            let request = self.asking(&lock, &format!("t{n}"), 2_000, Some(LONG_MS));
            asked.push(self.a().send(request).await);
        }
        let mut grants = std::collections::BTreeSet::new();
        for id in &asked {
            let reply = self.a().reply(*id, within + Duration::from_secs(2)).await?;
            let grant = grant_of(&reply)
                .ok_or_else(|| format!("a free lock was answered {}", shown(&reply)))?;
            if !grants.insert(grant.clone()) {
                return Err(format!("the grant `{grant}` was given twice"));
            }
        }
        for grant in grants {
            self.a()
                .ask(json!({"op": "release", "grant": grant}), within)
                .await?;
        }
        Ok(String::new())
    }
}
