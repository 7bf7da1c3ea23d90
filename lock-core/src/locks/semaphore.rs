//! A semaphore by name: permits that are counted and belong to nobody.

use std::sync::Arc;
use std::time::Duration;

use crate::bounds::ENDLESS;
use crate::client::Client;
use crate::clock::outside_of_tokio;
use crate::error::{ErrorKind, LockError, in_the_background};
use crate::hold::HolderIdentity;
use crate::hold::acquire::acquire_for;
use crate::hold::acquire_options::{Acquire, Lease, Wait};
use crate::hold::guard_event::LostReason;
use crate::hold::idempotent_requests::{finished, number};
use crate::kind::semaphore::{self as requests, MissingCounter};
use crate::kind::{LockFormat, RecordedRequest, yes};
use crate::locks::lock_inner::LockInner;
use crate::locks::short_forms::unless_busy;
use crate::names::Names;
use crate::servers::server_set::Servers;

/// A number of permits under a name, in the wire format of RSemaphore. Cheap to clone.
///
/// The server counts what is free, and nothing else: permits have no owner and no lease. A client that took
/// some may crash and take them along; anybody may give back more than was ever there. Where that matters,
/// [`Permits`](crate::Permits) have ids and leases.
///
/// - An acquire takes all that it asks for or nothing, and a lost answer takes nothing twice and gives
///   nothing twice: a repetition within an hour is known. What an acquire took whose answer never came is
///   given back for as long; and a request that a network keeps takes nothing once its caller has waited for
///   it in vain and five seconds more have passed by the server's clock. A failover to a server whose clock
///   is slower makes that later by as much; beyond a minute of it such a request can take permits along.
/// - **Order.** Those who wait in one client are served in the order in which they came, so three at once are
///   not starved by ones of the same client. [`try_acquire`](Semaphore::try_acquire) does not wait and
///   overtakes them. Between clients there is no order.
/// - A release wakes one waiter of each client, and each that finds room wakes the next. Without any message
///   a waiter looks after [`ClientOptions::poll_bound`](crate::ClientOptions::poll_bound), and on every new
///   subscription.
/// - A semaphore that has an end keeps it, whatever is taken, given or changed.
///
/// ```
/// # #[path = "../../tests/support/example.rs"] mod example; example::run(async |server, client| {
/// # use std::time::Duration;
/// let slots = client.semaphore("slots")?;
/// slots.try_set_permits(3, None).await?;
/// // Given back when it is dropped, as long as the process lives:
/// let two = slots.acquire_timeout(2, Duration::from_secs(5)).await?;
/// assert!(slots.try_acquire(2).await?.is_none());
/// assert_eq!(slots.available().await?, 1);
/// two.release().await?;
/// // Without a guard, for somebody else to give back:
/// slots.take(3).await?;
/// slots.release(3).await?;
/// # assert_eq!(slots.available().await?, 3);
/// client.close().await;
/// # Ok(()) });
/// ```
#[derive(Debug, Clone)]
pub struct Semaphore {
    inner: Arc<LockInner>,
}

impl Client {
    /// A semaphore by its name, which is the Redis key itself. Nothing is sent.
    ///
    /// Errors: `Invalid` as for [`lock`](Client::lock); a semaphore lives in one server set, not several.
    pub fn semaphore(&self, name: &str) -> Result<Semaphore, LockError> {
        let inner = counted(self, "semaphore", name, &requests::Semaphore)?;
        Ok(Semaphore { inner })
    }
}

/// Permits of either sort, by their name.
pub(crate) fn counted(
    client: &Client,
    word: &'static str,
    name: &str,
    format: &'static dyn LockFormat,
) -> Result<Arc<LockInner>, LockError> {
    let names = client.in_one_set(word, name, Names::of_permits)?;
    Ok(client.lock_of(names, word, format, Servers::One(Arc::clone(client.shared().route()))))
}

impl Semaphore {
    /// Its name, which is the Redis key itself.
    pub fn name(&self) -> &str {
        &self.inner.names.key
    }

    /// Begins with so many permits, and an end after `life` if one is given; false if there is such a
    /// semaphore already, also one without a free permit.
    pub async fn try_set_permits(&self, permits: u32, life: Option<Duration>) -> Result<bool, LockError> {
        const ACTION: &str = "begin";
        if life.is_some_and(|life| life < Duration::from_millis(1) || life > ENDLESS) {
            let why = "a semaphore lives for 1 ms to a hundred years";
            return Err(LockError::invalid(ACTION, self.name(), why));
        }
        self.inner.subject().ask(ACTION, requests::set(&self.inner.names, permits, life), yes).await
    }

    /// Acquires so many permits, all or none, and waits for them for ever if need be; as
    /// [`acquire_with`](Semaphore::acquire_with).
    pub async fn acquire(&self, permits: u32) -> Result<SemaphoreGuard, LockError> {
        self.acquire_with(permits, Wait::Forever).await
    }

    /// Acquires so many permits, all or none, and waits for `timeout` at most; as
    /// [`acquire_with`](Semaphore::acquire_with).
    pub async fn acquire_timeout(
        &self,
        permits: u32,
        timeout: Duration,
    ) -> Result<SemaphoreGuard, LockError> {
        self.acquire_with(permits, Wait::AtMost(timeout)).await
    }

    /// Acquires so many permits if they are free now, all or none; `None` if not.
    pub async fn try_acquire(&self, permits: u32) -> Result<Option<SemaphoreGuard>, LockError> {
        unless_busy(self.acquire_with(permits, Wait::Try).await)
    }

    /// Acquires so many permits, all or none. They are given back when the guard is dropped; the server knows
    /// nothing of it: a process that dies takes the permits along. None at all is granted at once.
    ///
    /// Errors: `Busy` when the wait ran out; else as [`Lock::acquire_with`](crate::Lock::acquire_with). After
    /// `Unknown`, and when the future is dropped, what may have been taken is given back in the background.
    pub async fn acquire_with(&self, permits: u32, wait: Wait) -> Result<SemaphoreGuard, LockError> {
        self.take_with(permits, wait).await?;
        let (client, of) = (&self.inner.client, Arc::downgrade(&self.inner));
        Ok(SemaphoreGuard {
            place: Some(client.guarded_permits.add((of, permits))),
            semaphore: self.clone(),
            permits,
        })
    }

    /// Takes so many permits without a guard, waiting for ever; as [`take_with`](Semaphore::take_with).
    pub async fn take(&self, permits: u32) -> Result<(), LockError> {
        self.take_with(permits, Wait::Forever).await
    }

    /// Takes so many permits without a guard if they are free now, all or none; false if not.
    pub async fn try_take(&self, permits: u32) -> Result<bool, LockError> {
        let tried = unless_busy(self.take_with(permits, Wait::Try).await);
        tried.map(|taken| taken.is_some())
    }

    /// Takes so many permits without a guard, all or none: they stay taken until somebody
    /// [gives](Semaphore::release) as many back, in this process or another. In all else as
    /// [`acquire_with`](Semaphore::acquire_with).
    pub async fn take_with(&self, permits: u32, wait: Wait) -> Result<(), LockError> {
        if permits == 0 {
            return Ok(());
        }
        let how = Acquire::default().wait(wait).lease(Lease::Fixed(ENDLESS));
        let guard = acquire_for(&self.inner, HolderIdentity::Count(permits), &how).await?;
        if let Some(id) = guard.hold().settled_id() {
            finished(&self.inner.client, requests::record_of_acquire(&self.inner.names, id));
        }
        // They belong to nobody from now on.
        guard.leave();
        Ok(())
    }

    /// Gives so many permits, taken by any client, and begins a semaphore where there is none, as RSemaphore
    /// does. None at all is given without a question.
    ///
    /// A lost answer is asked for again, and nothing is given twice. After `Unknown`, and when the future is
    /// dropped, it goes on in the background for half an hour, as long as the client lives.
    pub async fn release(&self, permits: u32) -> Result<(), LockError> {
        self.give_back(permits, MissingCounter::Begins).await
    }

    async fn give_back(&self, permits: u32, absent: MissingCounter) -> Result<(), LockError> {
        if permits == 0 {
            return Ok(());
        }
        let once = giving(&self.inner, permits.into(), absent);
        self.inner.subject().ask_surely("release", once, number).await.map(|_| ())
    }

    /// Adds so many permits, or takes away a negative number at once, also below zero. What is free then.
    ///
    /// Errors: `Failed`, and `Unknown` where no answer came within four times the response timeout; it is
    /// done or not also when the future is dropped.
    pub async fn add_permits(&self, permits: i32) -> Result<i64, LockError> {
        let once = giving(&self.inner, permits.into(), MissingCounter::Begins);
        self.inner.subject().ask("add permits to", once, number).await
    }

    /// Takes all that is free, and says how many that were.
    ///
    /// Errors as [`add_permits`](Semaphore::add_permits): `Unknown` or a drop leave open how many it took.
    pub async fn drain(&self) -> Result<u64, LockError> {
        let drained = self.inner.subject().ask("drain", requests::drain(&self.inner.names), number).await?;
        Ok(u64::try_from(drained).unwrap_or(0))
    }

    /// What is free now, by the master's word; may be below zero, and is 0 where there is no such semaphore.
    pub async fn available(&self) -> Result<i64, LockError> {
        self.inner.subject().look(self.inner.format.look(&self.inner.names), number).await
    }

    /// Deletes it; true if it was there. Waiters go on waiting for another to begin.
    pub async fn delete(&self) -> Result<bool, LockError> {
        delete(&self.inner).await
    }
}

/// Deletes a semaphore of either sort.
pub(crate) async fn delete(inner: &LockInner) -> Result<bool, LockError> {
    inner.subject().ask("delete", inner.format.force_release(&inner.names), yes).await
}

fn giving(inner: &LockInner, permits: i64, absent: MissingCounter) -> RecordedRequest {
    requests::add(&inner.names, permits, absent)
}

/// Gives permits back that a guard had. Nobody waits for the answer.
pub(crate) fn give_back_unasked(inner: &LockInner, permits: u32) {
    if permits > 0 {
        let mut once = giving(inner, permits.into(), MissingCounter::Stays);
        once.request.leaves_at_once = true;
        drop(inner.subject().begin(once, number));
    }
}

/// Permits of a [`Semaphore`]; on drop given back in the background, if it still exists.
#[derive(Debug)]
#[must_use = "dropping it gives the permits back at once"]
pub struct SemaphoreGuard {
    semaphore: Semaphore,
    permits: u32,
    /// Its place among the guards of its client, until it ends.
    place: Option<usize>,
}

impl SemaphoreGuard {
    /// How many.
    pub fn permits(&self) -> u32 {
        self.permits
    }

    /// Gives them back now; as [`Semaphore::release`], but a semaphore that has ended meanwhile is not begun
    /// again. `NotHeld` if its client [has given them back](Client::close_and_release).
    pub async fn release(mut self) -> Result<(), LockError> {
        if let Some(why) = outside_of_tokio() {
            return Err(in_the_background("release", self.semaphore.name(), why));
        }
        if !self.end() {
            let (kind, name) = (ErrorKind::NotHeld, self.semaphore.name());
            return Err(LockError::local(kind, "release", name, LostReason::Closed.to_string()));
        }
        self.semaphore.give_back(self.permits, MissingCounter::Stays).await
    }

    /// Leaves them taken, for others to give back; as tokio's
    /// [`forget`](tokio::sync::SemaphorePermit::forget).
    pub fn leave(mut self) {
        self.end();
    }

    /// Whether they are still to be given back, and from now on not by this guard.
    fn end(&mut self) -> bool {
        let guarded = &self.semaphore.inner.client.guarded_permits;
        (self.place.take()).is_some_and(|place| guarded.remove(place))
    }
}

impl Drop for SemaphoreGuard {
    fn drop(&mut self) {
        if self.end() {
            give_back_unasked(&self.semaphore.inner, self.permits);
        }
    }
}
