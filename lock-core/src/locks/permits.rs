//! Permits by name: each has an id and a lease, and is renewed while its holder lives.

use std::{sync::Arc, time::Duration};

use redis::Value;

use crate::client::Client;
use crate::error::{ErrorKind, LockError};
use crate::hold::acquire::acquire_for;
use crate::hold::acquire_options::{Acquire, Wait};
use crate::hold::guard::Guard;
use crate::hold::{HolderIdentity, bad_extension};
use crate::kind::permits as requests;
use crate::kind::yes;
use crate::locks::lock_inner::LockInner;
use crate::locks::permit_id::PermitId;
use crate::locks::semaphore::{counted, delete};
use crate::locks::short_forms::{short_forms, stands_for, unless_busy};

/// Permits that one acquire takes at most, so that its script is over in a moment.
const MOST: u32 = 4096;

/// A permit that somebody holds.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Permit {
    /// Its id.
    pub id: PermitId,
    /// What is left of its lease if it is not renewed, rounded down to milliseconds; `None` for one without
    /// an end, such as a Java peer can take.
    pub remaining: Option<Duration>,
}

/// Permits under a name, in the wire format of RPermitExpirableSemaphore. Cheap to clone.
///
/// Each permit has an id and a lease, and comes back by itself when that ends: with a renewed lease soon
/// after its holder died, and never while it reaches the server. Free and held ones are as many as were set.
///
/// - Leases are judged by the server's clock. After a failover that is another one, so clocks of masters and
///   replicas should agree to well under a lease; those of clients do not matter. A Java peer judges by its
///   own.
/// - An acquire keeps its ids over all its repetitions: a lost answer takes nothing twice, and what may have
///   been taken is given back, or comes back with its lease.
/// - Waiters of one client are served in their order, as those of a [`Semaphore`](crate::Semaphore); they
///   wake when permits are given back, when the next one expires, and at the poll bound.
///
/// ```
/// # #[path = "../../tests/support/example.rs"] mod example; example::run(async |server, client| {
/// let seats = client.permits("seats")?;
/// seats.try_set_permits(3).await?;
/// let mine = seats.acquire().await?; // renewed while it is held
/// let two = seats.try_acquire_many(2).await?.expect("two are free");
/// tokio::select! {
///     () = work() => mine.release().await?,
///     reason = mine.lost() => eprintln!("stopped: {reason}"),
/// }
/// // Handed on by their ids: not renewed any more, and given back by those who have them.
/// let ids = two.leave();
/// seats.release(&ids).await?;
/// assert!(seats.release(&ids).await.is_err(), "they are not held any more");
/// # assert_eq!(seats.available().await?, 3);
/// client.close().await;
/// # async fn work() {}
/// # Ok(()) });
/// ```
#[derive(Debug, Clone)]
pub struct Permits {
    inner: Arc<LockInner>,
}

impl Client {
    /// Permits by their name, which is a Redis key itself. Nothing is sent.
    ///
    /// Errors: `Invalid` as for [`lock`](Client::lock); permits live in one server set, not several.
    pub fn permits(&self, name: &str) -> Result<Permits, LockError> {
        let inner = counted(self, "semaphore with permits", name, &requests::Permits)?;
        Ok(Permits { inner })
    }
}

impl Permits {
    /// Their name, which is a Redis key itself.
    pub fn name(&self) -> &str {
        &self.inner.names.key
    }

    /// Begins with so many permits; false if there are some already, also if all are held.
    pub async fn try_set_permits(&self, permits: u32) -> Result<bool, LockError> {
        self.change("begin", "begin", permits.into()).await
    }

    /// Sets how many permits there are, held ones included. What is held stays held: with fewer than that the
    /// number of free ones is below zero until enough came back.
    pub async fn set_permits(&self, permits: u32) -> Result<(), LockError> {
        self.change("set the permits of", "set", permits.into()).await.map(|_| ())
    }

    /// Adds so many permits, or takes so many away, free ones below zero included.
    pub async fn add_permits(&self, permits: i32) -> Result<(), LockError> {
        self.change("add permits to", "add", permits.into()).await.map(|_| ())
    }

    /// Once, whatever becomes of the answers.
    async fn change(&self, action: &'static str, how: &'static str, number: i64) -> Result<bool, LockError> {
        let request = requests::change(&self.inner.names, how, number);
        self.inner.subject().ask(action, request, yes).await
    }

    short_forms!(PermitGuard);

    /// Takes one permit; as [`acquire_many_with`](Permits::acquire_many_with).
    pub async fn acquire_with(&self, how: Acquire) -> Result<PermitGuard, LockError> {
        self.acquire_many_with(1, how).await
    }

    /// Takes so many permits, and waits for them for ever if need be; as
    /// [`acquire_many_with`](Permits::acquire_many_with) by default.
    pub async fn acquire_many(&self, permits: u32) -> Result<PermitGuard, LockError> {
        self.acquire_many_with(permits, Acquire::default()).await
    }

    /// Takes so many permits if they are free now; `None` if not. As [`try_acquire`](Permits::try_acquire).
    pub async fn try_acquire_many(&self, permits: u32) -> Result<Option<PermitGuard>, LockError> {
        unless_busy(self.acquire_many_with(permits, Acquire::default().wait(Wait::Try)).await)
    }

    /// Takes so many permits, and waits for `timeout` at most. As
    /// [`acquire_timeout`](Permits::acquire_timeout).
    pub async fn acquire_many_timeout(
        &self,
        permits: u32,
        timeout: Duration,
    ) -> Result<PermitGuard, LockError> {
        self.acquire_many_with(permits, Acquire::default().wait(Wait::AtMost(timeout))).await
    }

    /// Takes so many permits, 1 to 4,096, all or none, with one lease. An owner and a token's life are
    /// `Invalid`: everybody who knows an id holds that permit.
    ///
    /// Errors, bounds and a dropped future as of [`Lock::acquire_with`](crate::Lock::acquire_with).
    pub async fn acquire_many_with(&self, permits: u32, how: Acquire) -> Result<PermitGuard, LockError> {
        let invalid = |why: String| Err(LockError::invalid("acquire", self.name(), why));
        if permits == 0 || permits > MOST {
            return invalid(format!("{permits} permits; 1 to {MOST} can be taken at once"));
        }
        if how.owner.is_some() || how.token_life.is_some() {
            return invalid("permits have ids instead of owners, and no tokens".to_owned());
        }
        let guard = acquire_for(&self.inner, HolderIdentity::Ids(permits), &how).await?;
        let ids = PermitId::read_all(guard.owner());
        Ok(PermitGuard { guard, ids })
    }

    /// Gives permits back by their ids, taken by any client.
    ///
    /// Errors: `NotHeld` if some were not held (any more), and names the first of those; the others are given
    /// back ([`release_held`](Permits::release_held) names all). A lost answer is asked for again, and the
    /// repetition is recognised. After `Unknown` or a drop it goes on in the background for half an hour.
    pub async fn release(&self, ids: &[PermitId]) -> Result<(), LockError> {
        let unknown = self.release_held(ids).await?;
        if unknown.is_empty() {
            return Ok(());
        }
        let named: Vec<_> = unknown.iter().take(8).map(PermitId::to_string).collect();
        let mut why = format!("the server does not have {}", named.join(", "));
        if let more @ 1.. = unknown.len() - named.len() {
            why.push_str(&format!(" and {more} more"));
        }
        Err(LockError::local(ErrorKind::NotHeld, "release", self.name(), why))
    }

    /// Gives back held permits, and answers with the ids of the others; else as
    /// [`release`](Permits::release).
    pub async fn release_held(&self, ids: &[PermitId]) -> Result<Vec<PermitId>, LockError> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let request = requests::give(&self.inner.names, ids);
        let each = self.inner.subject().ask_surely("release", request, text).await?;
        Ok(ids.iter().zip(each).filter(|(_, given)| *given == b'0').map(|(id, _)| *id).collect())
    }

    /// Gives one permit a lease from now on, longer or shorter than it had; false if it is not held (any
    /// more). A guard that renews it will extend it again.
    pub async fn update_lease(&self, id: PermitId, lease: Duration) -> Result<bool, LockError> {
        const ACTION: &str = "change a lease of";
        if let Some(why) = bad_extension(lease) {
            return Err(LockError::invalid(ACTION, self.name(), why));
        }
        let request = requests::lease(&self.inner.names, id, lease);
        self.inner.subject().ask(ACTION, request, yes).await
    }

    /// How many are free now; below zero while more are held than there are, and 0 where nothing was set.
    pub async fn available(&self) -> Result<i64, LockError> {
        Ok(self.counts().await?.0)
    }

    /// How many are held now.
    pub async fn acquired(&self) -> Result<u64, LockError> {
        let (_, held) = self.counts().await?;
        Ok(u64::try_from(held).unwrap_or(0))
    }

    /// How many there are, free and held together.
    pub async fn total(&self) -> Result<i64, LockError> {
        let (free, held) = self.counts().await?;
        Ok(free.saturating_add(held))
    }

    /// Free and held, at one moment.
    async fn counts(&self) -> Result<(i64, i64), LockError> {
        self.inner.subject().look(self.inner.format.look(&self.inner.names), counts).await
    }

    /// The permits that are held, the first to end first.
    pub async fn list(&self) -> Result<Vec<Permit>, LockError> {
        self.inner.subject().look(requests::list(&self.inner.names), listed).await
    }

    /// Deletes them, held ones too; true if there were any. Holders learn at the next renewal, waiters wait
    /// on.
    pub async fn delete(&self) -> Result<bool, LockError> {
        delete(&self.inner).await
    }
}

fn text(value: &Value) -> Option<Vec<u8>> {
    match value {
        Value::BulkString(text) => Some(text.clone()),
        _ => None,
    }
}

fn counts(value: &Value) -> Option<(i64, i64)> {
    match value.as_sequence()? {
        [] => Some((0, 0)),
        [Value::Int(free), Value::Int(held)] => Some((*free, *held)),
        _ => None,
    }
}

fn listed(value: &Value) -> Option<Vec<Permit>> {
    let Value::Array(parts) = value else {
        return None;
    };
    let pairs = parts.chunks(2).map(|pair| match pair {
        [Value::BulkString(id), Value::Int(left_ms)] => Some(Permit {
            id: PermitId(id.as_slice().try_into().ok()?),
            remaining: u64::try_from(*left_ms).ok().map(Duration::from_millis),
        }),
        _ => None,
    });
    pairs.collect()
}

/// Permits that this client holds, with one lease; in all else the [`Guard`] that it dereferences to: valid
/// while every one of them is, lost with the first. An extension says `NotHeld` if one of them is gone; the
/// others are extended. Dropping it gives them back in the background.
#[derive(Debug)]
#[must_use = "dropping it gives the permits back at once"]
pub struct PermitGuard {
    guard: Guard,
    ids: Vec<PermitId>,
}

impl PermitGuard {
    /// Their ids.
    pub fn ids(&self) -> &[PermitId] {
        &self.ids
    }

    /// The first of their ids.
    pub fn id(&self) -> PermitId {
        self.ids[0]
    }

    /// Gives them back; see [`Guard::release`]. `NotHeld` if one of them was gone; the others are given back.
    pub async fn release(self) -> Result<(), LockError> {
        self.guard.release().await.map(|_| ())
    }

    /// The same as the guard of a lock, for code that treats both alike.
    pub fn into_guard(self) -> Guard {
        self.guard
    }

    /// Leaves them held for the rest of their lease, not renewed any more, to those who know the ids.
    pub fn leave(self) -> Vec<PermitId> {
        self.guard.leave();
        self.ids
    }
}

stands_for!(PermitGuard, guard: Guard);
