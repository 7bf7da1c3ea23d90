//! One lock after the other: granted, asked about, refused, waited for, lengthened, given back.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Found, LONG_MS, SHORT_MS, SLACK, Trial, grant_of, shown};

impl Trial<'_> {
    pub(super) async fn acquire(&mut self) -> Found {
        self.both().await?;
        let lock = self.lock();
        let (request, within) = (self.asking(&lock, "t0", 0, Some(LONG_MS)), self.patience());
        let reply = self.a().ask(request, within).await?;
        let grant = grant_of(&reply)
            .ok_or_else(|| format!("a free lock was answered {}", shown(&reply)))?;
        if let Some(token) = reply.body.get("token").filter(|token| !token.is_null())
            && token
                .as_u64()
                .is_none_or(|token| i64::try_from(token).is_err())
        {
            return Err(format!(
                "the token {token} is no whole number from 0 to 2^63-1"
            ));
        }
        if let Some(age) = reply.body.get("age_ms").filter(|age| !age.is_null()) {
            let age_ms = age
                .as_f64()
                .filter(|age| *age >= 0.0)
                .ok_or_else(|| format!("age_ms is {age}"))?;
            let took_ms = (reply.took + SLACK).as_secs_f64() * 1000.0;
            if age_ms > took_ms {
                return Err(format!(
                    "age_ms is {age_ms}, and the whole request took {:.1} ms",
                    took_ms - 150.0
                ));
            }
        }
        let (request, within) = (json!({"op": "release", "grant": grant}), self.patience());
        self.a().ask(request, within).await?;
        Ok(format!("in {:.1} ms", reply.took.as_secs_f64() * 1000.0))
    }

    pub(super) async fn held(&mut self) -> Found {
        self.both().await?;
        let lock = self.lock();
        let grant = self.granted(&lock, LONG_MS).await?;
        let (request, within) = (json!({"op": "held", "grant": grant}), self.patience());
        let reply = self.a().ask(request.clone(), within).await?;
        match (reply.ending.as_str(), reply.body.get("held")) {
            ("ok", Some(Value::Bool(true))) => {}
            // A library that cannot be asked says so.
            ("failed", _) => {
                self.a()
                    .ask(json!({"op": "release", "grant": grant}), within)
                    .await?;
                return Ok("cannot be asked".to_owned());
            }
            _ => {
                return Err(format!(
                    "a lock that is held was answered {}",
                    shown(&reply)
                ));
            }
        }
        let mut round_trips = Vec::new();
        for _ in 0..200 {
            round_trips.push(self.a().ask(request.clone(), within).await?.took);
        }
        round_trips.sort_unstable();
        let pipe = (
            round_trips[round_trips.len() / 2],
            round_trips[round_trips.len() * 99 / 100],
        );
        self.result.pipe = Some(pipe);
        self.a()
            .ask(json!({"op": "release", "grant": grant}), within)
            .await?;
        Ok(format!(
            "the pipe costs {:?} per round trip (99 %: {:?})",
            pipe.0, pipe.1
        ))
    }

    pub(super) async fn busy(&mut self) -> Found {
        self.both().await?;
        let lock = self.lock();
        let grant = self.granted(&lock, LONG_MS).await?;
        let (request, within) = (self.asking(&lock, "t0", 0, Some(LONG_MS)), self.patience());
        let reply = self.b().ask(request, within).await?;
        if !self.is_busy(&reply) {
            return Err(format!(
                "a lock that another client has was answered {}",
                shown(&reply)
            ));
        }
        self.a()
            .ask(json!({"op": "release", "grant": grant}), within)
            .await?;
        Ok(String::new())
    }

    pub(super) async fn wait(&mut self) -> Found {
        const WAIT_MS: u64 = 500;
        self.both().await?;
        let lock = self.lock();
        let grant = self.granted(&lock, LONG_MS).await?;
        let (request, within) = (
            self.asking(&lock, "t0", WAIT_MS, Some(LONG_MS)),
            self.patience(),
        );
        let reply = self
            .b()
            .ask(request, within + Duration::from_millis(WAIT_MS))
            .await?;
        if !self.is_busy(&reply) {
            return Err(format!(
                "a lock that another client has was answered {}",
                shown(&reply)
            ));
        }
        if reply.took + SLACK < Duration::from_millis(WAIT_MS) {
            return Err(format!("it gave up after {:?} of {WAIT_MS} ms", reply.took));
        }
        if reply.took > Duration::from_millis(WAIT_MS) + Duration::from_secs(2) {
            return Err(format!("it took {:?} instead of {WAIT_MS} ms", reply.took));
        }
        let request = self.asking(&lock, "t0", 8_000, Some(LONG_MS));
        let waiting = self.b().send(request).await;
        // Not a guess that must come true: a waiter that is late only makes the step easier.
        self.b().listen(Duration::from_millis(200), |_| false).await;
        if self.b().has(waiting) {
            return Err("a waiter was answered while the lock was held".to_owned());
        }
        self.a()
            .ask(json!({"op": "release", "grant": grant}), within)
            .await?;
        let reply = self
            .b()
            .reply(waiting, within + Duration::from_secs(8))
            .await?;
        let next = grant_of(&reply).ok_or_else(|| {
            format!(
                "a waiter for a lock that was released was answered {}",
                shown(&reply)
            )
        })?;
        self.b()
            .ask(json!({"op": "release", "grant": next}), within)
            .await?;
        Ok(String::new())
    }

    pub(super) async fn extend(&mut self) -> Found {
        self.both().await?;
        let lock = self.lock();
        let grant = self.granted(&lock, SHORT_MS).await?;
        let within = self.patience();
        let reply = self
            .a()
            .ask(
                json!({"op": "extend", "grant": grant, "lease_ms": LONG_MS}),
                within,
            )
            .await?;
        if reply.ending != "ok" {
            return Err(format!(
                "an extend of a lock that is held was answered {}",
                shown(&reply)
            ));
        }
        self.a()
            .listen(Duration::from_millis(SHORT_MS + 300), |_| false)
            .await;
        let request = self.asking(&lock, "t0", 0, Some(LONG_MS));
        let reply = self.b().ask(request, within).await?;
        if !self.is_busy(&reply) {
            return Err(format!(
                "extended by {LONG_MS} ms, after {SHORT_MS} ms another client was answered {}",
                shown(&reply)
            ));
        }
        self.a()
            .ask(json!({"op": "release", "grant": grant}), within)
            .await?;
        Ok(String::new())
    }

    pub(super) async fn release(&mut self) -> Found {
        self.both().await?;
        let lock = self.lock();
        let grant = self.granted(&lock, LONG_MS).await?;
        let within = self.patience();
        let request = json!({"op": "release", "grant": grant});
        let reply = self.a().ask(request.clone(), within).await?;
        if reply.ending != "ok" {
            return Err(format!(
                "the release of a lock that is held was answered {}",
                shown(&reply)
            ));
        }
        let asking = self.asking(&lock, "t0", 2_000, Some(LONG_MS));
        let reply = self.b().ask(asking, within).await?;
        let next = grant_of(&reply)
            .ok_or_else(|| format!("after its release the lock was answered {}", shown(&reply)))?;
        let reply = self.a().ask(request, within).await?;
        if !["not_held", "failed"].contains(&reply.ending.as_str()) {
            return Err(format!("a second release was answered {}", shown(&reply)));
        }
        self.b()
            .ask(json!({"op": "release", "grant": next}), within)
            .await?;
        Ok(String::new())
    }
}
