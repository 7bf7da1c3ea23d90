//! What the pipe to a driver costs: how long a question takes that asks no server.

use std::time::{Duration, Instant};

use crate::subject::{AcquireEnd, AcquireRequest, LockClient, ReleaseEnd};

/// So many questions are asked: enough for a 99th percentile, and over within milliseconds.
pub(super) const QUESTIONS: usize = 200;

/// A driver that takes so long for a question is not asked more of them.
const TOO_LONG: Duration = Duration::from_secs(1);

/// Round trips through a driver's pipe. They are part of every time that is measured through it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PipeCost {
    /// Half of the round trips took no longer.
    pub median: Duration,
    /// 99 of a hundred took no longer.
    pub p99: Duration,
}

impl PipeCost {
    /// Of some round trips, one at least.
    pub(super) fn of(mut round_trips: Vec<Duration>) -> Self {
        round_trips.sort_unstable();
        let at = |share: usize| round_trips[round_trips.len() * share / 100];
        PipeCost { median: at(50), p99: at(99) }
    }
}

impl std::fmt::Display for PipeCost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let us = |time: Duration| time.as_nanos() as f64 / 1000.0;
        write!(
            f,
            "the pipe to the driver costs {:.0} us per round trip (99 %: {:.0} us), and that is in every time measured through it",
            us(self.median),
            us(self.p99)
        )
    }
}

/// Takes `lock`, which nobody else may want, asks what the library believes of it, and gives it back; an
/// answer that it cannot be asked is as good. `None` where it did not get the lock or keep it.
pub async fn pipe_cost(client: &dyn LockClient, lock: &str) -> Option<PipeCost> {
    let request = AcquireRequest {
        lock,
        owner: "t0",
        wait: Some(Duration::from_secs(1)),
        lease: Some(Duration::from_secs(10)),
        ..AcquireRequest::default()
    };
    let acquired = client.acquire(request).await;
    let AcquireEnd::Ok { grant, .. } = acquired else { return None };
    let mut round_trips = Vec::with_capacity(QUESTIONS);
    for _ in 0..QUESTIONS {
        let asked = Instant::now();
        // Whatever is answered: it was a round trip.
        let _ = client.held(&grant).await;
        round_trips.push(asked.elapsed());
        if asked.elapsed() > TOO_LONG {
            break;
        }
    }
    let there = client.release(&grant).await == ReleaseEnd::Ok;
    if !there || round_trips.len() < QUESTIONS { None } else { Some(PipeCost::of(round_trips)) }
}
