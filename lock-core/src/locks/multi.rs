//! Several locks, of whatever kinds, clients and servers, as one that is held whole or not at all.

use std::time::{self, Duration};

use futures_util::StreamExt;
use futures_util::future::{join_all, pending};
use futures_util::stream::FuturesUnordered;

use crate::bounds::LAST_LOOK;
use crate::clock::Instant;
use crate::error::{ErrorKind, LockError};
use crate::hold::acquire::within;
use crate::hold::acquire_options::{Acquire, Lease, Wait};
use crate::hold::guard::Guard;
use crate::hold::guard_event::{LostReason, Released};
use crate::locks::lock::Lock;
use crate::locks::short_forms::short_forms;

const ACTION: &str = "acquire all of";

/// How long one who holds some waits for the next before it gives all back: against deadlocks with clients
/// that see another order. Random, so that two do not give way in step.
const PATIENCE_MS: std::ops::Range<u64> = 500..1500;

/// Several locks that are held together: all of them or none.
///
/// The members are ordered by servers and name, whatever order they are given in, so that two of these with
/// members in common cannot wait for each other. They are first tried side by side, one round trip when all
/// are free; if one is taken, all go back and are waited for in order.
///
/// Members keep what their kinds promise, each on its own servers: this is no [quorum](crate::Kind::Redlock),
/// and one member that cannot be reached keeps all of them from being held. Each is renewed by itself.
///
/// ```
/// # use lock_core::{Client, ClientOptions, Kind, MultiLock};
/// # #[path = "../../tests/support/example.rs"] mod example; example::run(async |server, client| {
/// # let servers = [(); 2].map(|()| example::Server::start(&[]));
/// # let here = Client::connect(&servers[0].url().parse()?, ClientOptions::default()).await?;
/// # let there = Client::connect(&servers[1].url().parse()?, ClientOptions::default()).await?;
/// let both = MultiLock::new([here.lock(Kind::Reentrant, "from")?, there.lock(Kind::Reentrant, "to")?])?;
/// let guard = both.acquire().await?;
/// tokio::select! {
///     () = work() => { guard.release().await?; }
///     lost = guard.lost() => eprintln!("stopped: {lost}"),
/// }
/// here.close().await;
/// there.close().await;
/// # Ok(()) });
/// # async fn work() {}
/// ```
#[derive(Debug, Clone)]
pub struct MultiLock {
    /// In the order in which they are waited for.
    members: Vec<Lock>,
}

/// Why a round came to nothing, and whether another may end otherwise.
type Refusal = (LockError, bool);

impl MultiLock {
    /// One lock of several. Nothing is sent.
    ///
    /// Errors: `Invalid` if there are none, or one twice on the same servers: it would wait for itself.
    pub fn new(members: impl IntoIterator<Item = Lock>) -> Result<Self, LockError> {
        let mut members: Vec<_> = members.into_iter().collect();
        members.sort_by(|one, other| place(one).cmp(&place(other)));
        let invalid = |name: &str, why: &str| LockError::invalid(ACTION, name, why);
        if members.is_empty() {
            return Err(invalid("", "there is no lock to acquire"));
        }
        let twice = members.windows(2).find(|two| place(&two[0]) == place(&two[1]));
        match twice {
            Some(two) => Err(invalid(
                two[0].name(),
                "it is named twice on the same servers, and would wait for itself",
            )),
            None => Ok(MultiLock { members }),
        }
    }

    /// The members, in the order in which they are waited for.
    pub fn members(&self) -> &[Lock] {
        &self.members
    }

    short_forms!(MultiGuard);

    /// Acquires all members, each as `how` says; the wait is that of all together.
    ///
    /// Of an error nothing is left held: `Busy` and `Failed` say that whatever had been got is acknowledged
    /// to be given back, `Unknown` that some of it is given back in the background. Giving back takes four
    /// response timeouts more at most where no bound was given, as with one try. The future may be dropped
    /// anywhere. A fixed lease counts from when the last member was got.
    pub async fn acquire_with(&self, how: Acquire) -> Result<MultiGuard, LockError> {
        let (once, end) = how.wait.bounds();
        loop {
            for in_order in [false, true] {
                let round = match in_order {
                    false => self.side_by_side(&how, end).await,
                    true => self.in_order(&how, end).await,
                };
                match round {
                    Ok(guard) => return Ok(guard),
                    Err((error, passing)) if once || !passing || is_over(end) => return Err(error),
                    Err(_) => {}
                }
            }
            let pause = Duration::from_millis(rand::random_range(5..50));
            tokio::time::sleep(end.map_or(pause, |end| pause.min(left(end)))).await;
        }
    }

    /// Tries every member at once.
    async fn side_by_side(&self, how: &Acquire, end: Option<Instant>) -> Result<MultiGuard, Refusal> {
        let one_try = how.clone().wait(Wait::Try);
        let asked = join_all(self.members.iter().map(|lock| lock.acquire_with(one_try.clone())));
        let Some(answers) = within(end.map(last_look), asked).await else {
            // Whatever the members may have granted since, dropping their futures gives back.
            let why = "not every member answered in time";
            return Err((LockError::local(ErrorKind::Unknown, ACTION, self.first(), why), false));
        };
        let (mut held, mut errors) = (Vec::new(), Vec::new());
        for answer in answers {
            match answer {
                Ok(guard) => held.push(guard),
                Err(error) => errors.push(error),
            }
        }
        match LockError::worst(errors, ErrorKind::Busy) {
            None => self.whole(held, end).await,
            // A try does not tell what passes from what does not; waiting in order will.
            Some(error) => {
                let passing = error.kind() != ErrorKind::Invalid;
                Err((give_back(held, error, end).await, passing))
            }
        }
    }

    /// Waits for one member after the other. A waiter holds only what comes before in the common order.
    async fn in_order(&self, how: &Acquire, end: Option<Instant>) -> Result<MultiGuard, Refusal> {
        let mut held: Vec<Guard> = Vec::new();
        for lock in &self.members {
            let asked_at = Instant::now();
            let patience = if held.is_empty() { None } else { Some(self.patience(how.lease)) };
            let most = [end.map(left), patience].into_iter().flatten().min();
            // No wait at all would be one try, which has a bound of its own.
            let most = most.map(|most| most.max(Duration::from_millis(1)));
            match lock.acquire_with(how.clone().wait(most.map_or(Wait::Forever, Wait::AtMost))).await {
                Ok(guard) => held.push(guard),
                Err(error) => {
                    // What is over before the time was is not waited for.
                    let waited = most.is_some_and(|most| asked_at.elapsed() >= most);
                    return Err((give_back(held, error, end).await, waited));
                }
            }
        }
        if let Lease::Fixed(lease) = how.lease {
            let extended = join_all(held.iter().map(|guard| guard.extend(lease)));
            let extended = within(end.map(last_look), extended).await;
            let error = extended.into_iter().flatten().find_map(Result::err);
            if let Some(error) = error {
                return Err((give_back(held, error, end).await, true));
            }
        }
        self.whole(held, end).await
    }

    /// What was got, as one, if none of it has ended by now: an answer may have taken as long as the lease.
    async fn whole(&self, held: Vec<Guard>, end: Option<Instant>) -> Result<MultiGuard, Refusal> {
        match held.iter().find(|guard| guard.is_lost()).map(Guard::name) {
            None => {
                // Those that came first may have been renewed since.
                let from = held.iter().map(|guard| guard.hold().counts_from()).min();
                Ok(MultiGuard { members: held, sent_at: from.expect("a set has members") })
            }
            Some(name) => {
                let why = format!("{name} was lost while the others were waited for");
                let error = LockError::local(ErrorKind::Busy, ACTION, self.first(), why);
                Err((give_back(held, error, end).await, true))
            }
        }
    }

    /// How long to wait for the next member while others are held; their lease must not run out meanwhile.
    fn patience(&self, lease: Lease) -> Duration {
        let patience = Duration::from_millis(rand::random_range(PATIENCE_MS));
        match lease {
            Lease::Renewed => patience,
            Lease::Fixed(lease) => {
                let members = u32::try_from(self.members.len()).unwrap_or(u32::MAX);
                patience.min(lease / 2 / members)
            }
        }
    }

    fn first(&self) -> &str {
        self.members[0].name()
    }
}

/// Where a lock stands in the order that all clients have, as long as they name the servers alike.
fn place(lock: &Lock) -> (&str, &str) {
    (&lock.inner.client.set, lock.name())
}

fn is_over(end: Option<Instant>) -> bool {
    end.is_some_and(|end| Instant::now() >= end)
}

fn left(end: Instant) -> Duration {
    end.saturating_duration_since(Instant::now())
}

/// The end, but with a moment for an answer.
fn last_look(end: Instant) -> Instant {
    end.max(Instant::now() + LAST_LOOK)
}

/// Gives back what was got, side by side. The error that led to it stands if that is acknowledged for all;
/// else it is not known whether nothing is held.
async fn give_back(held: Vec<Guard>, error: LockError, end: Option<Instant>) -> LockError {
    let released = join_all(held.into_iter().map(Guard::release));
    let doubt = match within(end.map(last_look), released).await {
        Some(released) => {
            let failed = released.into_iter().filter_map(Result::err);
            // What was lost meanwhile is not held either.
            let failed = failed.filter(|error| error.kind() != ErrorKind::NotHeld);
            LockError::worst(failed, ErrorKind::Busy).map(|error| error.to_string())
        }
        None => Some("the release of another member was not answered in time".to_owned()),
    };
    match doubt {
        None => error,
        Some(doubt) => {
            let why = format!("{error}; and what had been got may be held for a while: {doubt}");
            LockError::local(ErrorKind::Unknown, ACTION, error.lock(), why)
        }
    }
}

/// A hold of several locks. Dropping it releases all in the background.
#[derive(Debug)]
#[must_use = "dropping it gives all locks back at once"]
pub struct MultiGuard {
    members: Vec<Guard>,
    sent_at: Instant,
}

/// A member that was lost, and with it the whole.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name}: {reason}")]
#[non_exhaustive]
pub struct LostMember {
    /// The lock's name.
    pub name: String,
    /// Why.
    pub reason: LostReason,
}

impl MultiGuard {
    /// From when on every lease counts that stood when all were held: before the first of those was sent that
    /// got a member, renewed it, or set all leases anew.
    pub fn sent_at(&self) -> time::Instant {
        self.sent_at.std()
    }

    /// The guards of the members, in the lock's order: their tokens, owners, events.
    pub fn members(&self) -> &[Guard] {
        &self.members
    }

    /// Until when all are surely held: the earliest of the members'.
    pub fn valid_until(&self) -> time::Instant {
        let ends = self.members.iter().map(Guard::valid_until);
        ends.min().expect("a multi-lock has members")
    }

    /// Whether a member is known to be lost.
    pub fn is_lost(&self) -> bool {
        self.members.iter().any(Guard::is_lost)
    }

    /// Completes when the first member is lost, at [`valid_until`](MultiGuard::valid_until) at the latest.
    /// The others are held and renewed until the guard is released or dropped. Cancel-safe.
    pub async fn lost(&self) -> LostMember {
        let mut any: FuturesUnordered<_> =
            self.members
                .iter()
                .map(|guard| async move {
                    LostMember { reason: guard.lost().await, name: guard.name().to_owned() }
                })
                .collect();
        match any.next().await {
            Some(lost) => lost,
            None => pending().await,
        }
    }

    /// Extends every member to `lease` from now, side by side; as [`Guard::extend`] for each. The worst error
    /// of all is answered, and the members that were extended stay so.
    pub async fn extend(&self, lease: Duration) -> Result<(), LockError> {
        let extended = join_all(self.members.iter().map(|guard| guard.extend(lease))).await;
        let errors = extended.into_iter().filter_map(Result::err);
        LockError::worst(errors, ErrorKind::NotHeld).map_or(Ok(()), Err)
    }

    /// Gives every member back, side by side and whatever becomes of the others. One result for all: the
    /// worst error, `Unknown` before others and `NotHeld` last; else `StillHeld` if the owner holds one
    /// still. [`release_each`](MultiGuard::release_each) tells them apart.
    pub async fn release(self) -> Result<Released, LockError> {
        self.release_each().await.whole()
    }

    /// As [`release`](MultiGuard::release), with the result of each member; as [`Guard::release`] for each.
    pub async fn release_each(self) -> MultiReleased {
        let names: Vec<_> = (self.members.iter()).map(|guard| guard.name().to_owned()).collect();
        let released = join_all(self.members.into_iter().map(Guard::release)).await;
        MultiReleased { members: names.into_iter().zip(released).collect() }
    }
}

/// What the release of several locks came to, member by member.
#[derive(Debug)]
#[must_use = "a member may not have been given back"]
pub struct MultiReleased {
    members: Vec<(String, Result<Released, LockError>)>,
}

impl MultiReleased {
    /// Each member's name and result, in the lock's order.
    pub fn members(&self) -> impl Iterator<Item = (&str, &Result<Released, LockError>)> {
        (self.members.iter()).map(|(name, result)| (name.as_str(), result))
    }

    /// One result for all, as [`MultiGuard::release`] gives it.
    pub fn whole(self) -> Result<Released, LockError> {
        let (mut all, mut errors) = (Released::Freed, Vec::new());
        for (_, result) in self.members {
            match result {
                Ok(Released::Freed) => {}
                Ok(kept) => all = kept,
                Err(error) => errors.push(error),
            }
        }
        LockError::worst(errors, ErrorKind::NotHeld).map_or(Ok(all), Err)
    }
}
