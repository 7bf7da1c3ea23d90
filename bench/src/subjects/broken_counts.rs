//! Locks that hold several names or count, known to be wrong, each in one thing.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;

use super::common::{ByHand, Grants, try_again};
use super::naive::release_end;
use super::recipe::SET_NX_PX;
use super::steps::Steps;
use crate::links::{CommandError, cmd};
use crate::subject::{AcquireEnd, AcquireRequest, LockClient, ReleaseEnd, Subject};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flaw {
    /// Several locks are held as soon as the first of them is.
    FirstIsEnough,
    /// A permit is taken by a look and, a moment later, a count.
    LooksThenCounts,
}

pub(super) fn subjects() -> impl Iterator<Item = Arc<dyn Subject>> {
    let made = |name, about, kinds, flaw| {
        Arc::new(ByHand {
            name,
            about,
            kinds,
            response_timeout: Duration::from_secs(3),
            resolves_once: false,
            says_durable: false,
            client: Box::new(move |own| {
                Box::new(ManyClient { flaw, steps: Steps::new(&SET_NX_PX, own), grants: Grants::default() })
            }),
        }) as Arc<dyn Subject>
    };
    [
        made(
            "broken:multi-first-is-enough",
            "holds several locks as one as soon as it has the first; the others it takes if they are free",
            &["multi"] as &[&str],
            Flaw::FirstIsEnough,
        ),
        made(
            "broken:semaphore-looks-then-counts",
            "a semaphore that looks whether a permit is free and counts itself in a moment later",
            &["semaphore", "permits"],
            Flaw::LooksThenCounts,
        ),
    ]
    .into_iter()
}

struct ManyClient {
    flaw: Flaw,
    steps: Steps,
    grants: Grants<(Vec<String>, String)>,
}

impl ManyClient {
    /// One try: when it was sent and what was taken, if it worked.
    async fn attempt(
        &self,
        request: &AcquireRequest<'_>,
        value: &str,
    ) -> Result<Option<(Instant, Vec<String>)>, CommandError> {
        let lease = request.lease.unwrap_or(self.steps.own.lease);
        let first = request.lock;
        if self.flaw == Flaw::LooksThenCounts {
            let links = &self.steps.own.links;
            let counter = format!("{{{first}}}:inside");
            let inside: Option<u32> = links.query(first, &cmd(&["GET", &counter])).await?;
            if inside.unwrap_or(0) >= request.permits.unwrap_or(1) {
                return Ok(None);
            }
            let sent = Instant::now();
            tokio::time::sleep(self.steps.own.jitter.pause()).await;
            let _: i64 = links.query(first, &cmd(&["INCR", &counter])).await?;
            return Ok(Some((sent, vec![counter])));
        }
        let Some(sent) = self.steps.take(first, value, lease).await? else { return Ok(None) };
        let mut taken = vec![first.to_owned()];
        for other in request.others {
            if self.steps.take(other, value, lease).await?.is_some() {
                taken.push((*other).to_owned());
            }
        }
        Ok(Some((sent, taken)))
    }
}

#[async_trait]
impl LockClient for ManyClient {
    async fn acquire(&self, request: AcquireRequest<'_>) -> AcquireEnd {
        let number = self.grants.number();
        let value = format!("{}-{number}", self.steps.own.identity);
        let called = Instant::now();
        loop {
            match self.attempt(&request, &value).await {
                Ok(Some((sent, taken))) => {
                    return AcquireEnd::ok(self.grants.keep(number, (taken, value)), Some(sent));
                }
                Ok(None) => {}
                Err(trouble) => return trouble.into(),
            }
            if !try_again(called, request.wait, self.steps.own.jitter.pause()).await {
                return AcquireEnd::Busy;
            }
        }
    }

    async fn release(&self, grant: &str) -> ReleaseEnd {
        let (taken, value) = or_end!(self.grants.take(grant));
        for key in taken {
            let given = match self.flaw {
                Flaw::FirstIsEnough => self.steps.give(&key, &value).await,
                Flaw::LooksThenCounts => {
                    let links = &self.steps.own.links;
                    links.query(&key, &cmd(&["DECR", &key])).await.map(|_: i64| true)
                }
            };
            // Whether the key was there still is not looked at.
            let end = release_end(given.map(|_| true));
            if end != ReleaseEnd::Ok {
                return end;
            }
        }
        ReleaseEnd::Ok
    }

    fn watchdog(&self) -> Option<Duration> {
        Some(self.steps.own.lease)
    }

    async fn commands(&self) -> Option<u64> {
        Some(self.steps.own.links.commands())
    }
}
