//! One task of a client: ask, hold, work, give back, think, again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use results::history::{Acquire, Call, End, Entry};
use tokio::time::Instant;

use super::client::{Inner, ok};
use super::{Protects, Shared};
use crate::subject::{AcquireEnd, AcquireRequest, ReleaseEnd, is_shared};

/// The two sides between which a downgrade goes.
const WRITE: &str = "write";
const READ: &str = "read";

/// A hold as its task sees it.
struct Hold {
    /// The grant as the subject calls it.
    own: String,
    /// The grant as the history calls it.
    grant: String,
    token: Option<u64>,
    lost: Arc<AtomicBool>,
}

pub(super) async fn run(inner: Arc<Inner>, number: usize, seed: u64) {
    let owner = format!("t{number}");
    // A restarted client goes on with other draws than it began with.
    let mut rng = ChaCha8Rng::seed_from_u64(seed.wrapping_add(u64::from(inner.incarnation)));
    while inner.gate().await && !inner.shared.stopped() {
        round(&inner, &owner, &mut rng).await;
        let think = between(&mut rng, inner.shared.load.think);
        if !think.is_zero() {
            inner.shared.sleep_until(Instant::now() + think).await;
        }
    }
}

async fn round(inner: &Inner, owner: &str, rng: &mut ChaCha8Rng) {
    let load = &inner.shared.load;
    let kind = draw_kind(rng, &inner.mix);
    let locks = draw_locks(rng, &load.locks, kind);
    // Everything is drawn before the first answer, so that a task's draws do not depend on luck.
    let keep = between(rng, load.hold);
    let again = load.reenter > 0.0 && rng.random_bool(load.reenter.clamp(0.0, 1.0));

    let Some(hold) = acquire(inner, owner, kind, &locks).await else {
        return;
    };
    let until = Instant::now() + keep;
    if let (WRITE, Some(after)) = (kind, load.downgrade) {
        let downgrade = (Instant::now() + after).min(until);
        return write_then_read(inner, owner, &locks, hold, (downgrade, until)).await;
    }
    let work = Work::begin(inner, &hold, kind, &locks);
    let nested = if again {
        acquire(inner, owner, kind, &locks).await
    } else {
        None
    };
    keep_until(inner, &hold, until).await;
    if let Some(nested) = nested {
        give_back(inner, nested).await;
    }
    work.finish(inner, &hold, &locks).await;
    give_back(inner, hold).await;
}

/// Writes for a while, takes the reading side inside, gives the writing side back and reads on until its time is up. Where the reading
/// side is refused it stays a writer.
async fn write_then_read(
    inner: &Inner,
    owner: &str,
    locks: &[String],
    writer: Hold,
    (downgrade, until): (Instant, Instant),
) {
    let work = Work::begin(inner, &writer, WRITE, locks);
    keep_until(inner, &writer, downgrade).await;
    work.finish(inner, &writer, locks).await;
    match acquire(inner, owner, READ, locks).await {
        Some(reader) => {
            give_back(inner, writer).await;
            keep_until(inner, &reader, until).await;
            give_back(inner, reader).await;
        }
        None => {
            keep_until(inner, &writer, until).await;
            give_back(inner, writer).await;
        }
    }
}

impl Hold {
    fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }
}

async fn acquire(inner: &Inner, owner: &str, kind: &str, locks: &[String]) -> Option<Hold> {
    if !inner.gate().await {
        return None;
    }
    let shared = &inner.shared;
    let permits = matches!(kind, "semaphore" | "permits").then_some(shared.load.permits);
    let id = shared.id();
    let (lock, several) = match locks {
        [lock] if kind != "multi" => (Some(lock.clone()), None),
        locks => (None, Some(locks.to_vec())),
    };
    shared.sink.record(Entry::Call {
        id,
        call: Call::Acquire(Acquire {
            client: inner.name.clone(),
            owner: owner.to_owned(),
            lock,
            locks: several,
            kind: kind.to_owned(),
            lease_ms: shared.load.lease.map(ms),
            wait_ms: shared.load.wait.map(ms),
            permits,
        }),
    });
    let end = inner
        .client
        .acquire(AcquireRequest {
            locks: locks.to_vec(),
            kind: kind.to_owned(),
            owner: owner.to_owned(),
            wait: shared.load.wait,
            lease: shared.load.lease,
            permits,
        })
        .await;
    let (end, hold) = match end {
        AcquireEnd::Ok {
            grant: own,
            token,
            sent_at,
            lease,
        } => {
            let hold = Hold {
                grant: inner.grant(&own),
                lost: inner.watch_grant(&own),
                own,
                token,
            };
            let end = End::Ok {
                grant: Some(hold.grant.clone()),
                token,
                sent_ns: sent_at.map(|at| shared.sink.ns(at)),
                lease_ms: lease.map(|lease| lease.as_millis() as u64),
            };
            (end, Some(hold))
        }
        AcquireEnd::Busy => (End::Busy, None),
        AcquireEnd::Failed(error) => (End::Failed { error: Some(error) }, None),
        AcquireEnd::Unknown(error) => (
            End::Unknown {
                error: Some(error),
                grant: None,
            },
            None,
        ),
    };
    shared.sink.record(Entry::End { id, end });
    if hold.is_some() {
        shared.grants.send_modify(|grants| *grants += 1);
    }
    hold
}

/// Keeps the hold until its time is up or the load ends, extending it on the way. A stopped process does not notice that time passes.
async fn keep_until(inner: &Inner, hold: &Hold, until: Instant) {
    let load = &inner.shared.load;
    let every = load.extend.filter(|every| !every.is_zero()).zip(load.lease);
    let mut next = every.map(|(every, _)| Instant::now() + every);
    loop {
        let wake = next.map_or(until, |next| next.min(until));
        inner.shared.sleep_until(wake).await;
        if !inner.gate().await || inner.shared.stopped() || Instant::now() >= until {
            return;
        }
        if let (Some((every, lease)), Some(_)) = (every, next) {
            next = if !hold.is_lost() && extend(inner, hold, lease).await {
                Some(Instant::now() + every)
            } else {
                None
            };
        }
    }
}

/// Extends; false once the library says that the lock is not held: then it is not asked again.
async fn extend(inner: &Inner, hold: &Hold, lease: Duration) -> bool {
    let id = inner.shared.id();
    inner.shared.sink.record(Entry::Call {
        id,
        call: Call::Extend {
            grant: hold.grant.clone(),
            lease_ms: ms(lease),
            by: None,
        },
    });
    let end = inner.client.extend(&hold.own, lease).await;
    let held = end != ReleaseEnd::NotHeld;
    inner.shared.sink.record(Entry::End {
        id,
        end: ended(end),
    });
    if !held {
        hold.lost.store(true, Ordering::Release);
    }
    held
}

async fn give_back(inner: &Inner, hold: Hold) {
    if inner.gate().await {
        let id = inner.shared.id();
        inner.shared.sink.record(Entry::Call {
            id,
            call: Call::Release {
                grant: hold.grant.clone(),
            },
        });
        let end = inner.client.release(&hold.own).await;
        inner.shared.sink.record(Entry::End {
            id,
            end: ended(end),
        });
    }
    inner.forget_grant(&hold.own);
}

fn ended(end: ReleaseEnd) -> End {
    match end {
        ReleaseEnd::Ok => ok(),
        ReleaseEnd::NotHeld => End::NotHeld,
        ReleaseEnd::Failed(error) => End::Failed { error: Some(error) },
        ReleaseEnd::Unknown(error) => End::Unknown {
            error: Some(error),
            grant: None,
        },
    }
}

/// What a holder does to the protected resource.
#[derive(Clone)]
enum Work {
    Nothing,
    /// The counters as they were read when the hold began, in the order of the locks.
    Counter(Vec<i64>),
    Register(u64),
}

impl Work {
    fn begin(inner: &Inner, hold: &Hold, kind: &str, locks: &[String]) -> Self {
        let shared = &inner.shared;
        if is_shared(kind) {
            return Work::Nothing;
        }
        match (shared.load.protects, hold.token) {
            (Protects::Counter, _) => Work::Counter(
                locks
                    .iter()
                    .map(|lock| shared.resources.read(lock))
                    .collect(),
            ),
            (Protects::Register, Some(token)) => {
                let work = Work::Register(token);
                work.end(inner, hold, locks);
                work
            }
            (Protects::Register, None) | (Protects::None, _) => Work::Nothing,
        }
    }

    /// The last step of a holder that has not been told that its lock is lost.
    async fn finish(&self, inner: &Inner, hold: &Hold, locks: &[String]) {
        if inner.gate().await && !hold.is_lost() {
            self.end(inner, hold, locks);
        }
    }

    /// Writes; what a client's writes are late by, they arrive later, whatever has become of the hold until then.
    fn end(&self, inner: &Inner, hold: &Hold, locks: &[String]) {
        let (shared, work) = (Arc::clone(&inner.shared), self.clone());
        let (grant, token) = (hold.grant.clone(), hold.token);
        let locks = locks.to_vec();
        inner.send(move || work.arrive(&shared, &grant, token, &locks));
    }

    fn arrive(&self, shared: &Shared, grant: &str, token: Option<u64>, locks: &[String]) {
        for (index, lock) in locks.iter().enumerate() {
            match self {
                Work::Nothing => {}
                Work::Counter(read) => {
                    shared
                        .resources
                        .write(lock, grant, token, read[index], shared.sink.as_ref());
                }
                Work::Register(token) => {
                    shared
                        .resources
                        .show(lock, grant, *token, shared.sink.as_ref())
                }
            }
        }
    }
}

fn draw_kind<'a>(rng: &mut ChaCha8Rng, mix: &'a [(String, u32)]) -> &'a str {
    let total: u32 = mix.iter().map(|(_, weight)| weight).sum();
    let mut draw = rng.random_range(0..total.max(1));
    for (kind, weight) in mix {
        if draw < *weight {
            return kind;
        }
        draw -= weight;
    }
    mix.last().map_or("reentrant", |(kind, _)| kind)
}

/// One lock, or for `multi` two different ones in the order drawn: callers do not sort, so that a library that must sort is tried.
fn draw_locks(rng: &mut ChaCha8Rng, locks: &[String], kind: &str) -> Vec<String> {
    let first = rng.random_range(0..locks.len().max(1));
    let mut drawn: Vec<String> = locks.get(first).cloned().into_iter().collect();
    if kind == "multi" && locks.len() > 1 {
        let second = (first + rng.random_range(1..locks.len())) % locks.len();
        drawn.push(locks[second].clone());
    }
    drawn
}

fn between(rng: &mut ChaCha8Rng, (low, high): (Duration, Duration)) -> Duration {
    if high <= low {
        low
    } else {
        rng.random_range(low..=high)
    }
}

pub(super) fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_come_by_weight_and_multi_takes_two() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let mix = vec![("read".to_owned(), 3), ("write".to_owned(), 1)];
        let reads = (0..4_000)
            .filter(|_| draw_kind(&mut rng, &mix) == "read")
            .count();
        assert!(
            (2_800..3_200).contains(&reads),
            "{reads} of 4,000 at weight 3 of 4"
        );
        let locks: Vec<String> = ["a", "b", "c"].map(str::to_owned).to_vec();
        for _ in 0..50 {
            let drawn = draw_locks(&mut rng, &locks, "multi");
            assert_eq!(drawn.len(), 2);
            assert_ne!(drawn[0], drawn[1]);
        }
    }
}
