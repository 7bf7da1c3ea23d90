//! A lock whose kind has a token, with guards that have it for certain.

use crate::client::Client;
use crate::error::{ErrorKind, LockError};
use crate::hold::acquire_options::Acquire;
use crate::hold::guard::Guard;
use crate::hold::guard_event::Released;
use crate::kind::Kind;
use crate::locks::lock::Lock;
use crate::locks::short_forms::{short_forms, stands_for};

/// A lock whose every hold has a fencing token: [`Client::fenced`] or [`Client::queued`]. Cheap to clone; in
/// all else the [`Lock`] that it dereferences to.
///
/// ```
/// # #[path = "../../tests/support/example.rs"] mod example; example::run(async |server, client| {
/// /// A resource that several may write to, and that remembers the greatest token it has seen.
/// #[derive(Default)]
/// struct Ledger {
///     entries: Vec<&'static str>,
///     last_token: Option<u64>,
/// }
///
/// impl Ledger {
///     /// Refuses a writer that has been overtaken, and an equal token: a failover may issue one again.
///     fn write(&mut self, entry: &'static str, token: u64) -> Result<(), &'static str> {
///         if self.last_token >= Some(token) {
///             return Err("overtaken");
///         }
///         self.last_token = Some(token);
///         self.entries.push(entry);
///         Ok(())
///     }
/// }
///
/// # let mut ledger = Ledger::default();
/// let lock = client.fenced("ledger")?;
/// let sleeper = lock.acquire().await?;
/// // Its process sleeps for longer than the lease, which here is taken away; meanwhile another writes.
/// lock.force_release().await?;
/// let other = lock.acquire().await?;
/// ledger.write("by the other", other.token())?;
/// other.release().await?;
/// // The sleeper wakes and believes that it still holds the lock. The ledger knows better.
/// assert_eq!(ledger.write("too late", sleeper.token()), Err("overtaken"));
/// assert_eq!(ledger.entries, ["by the other"]);
/// client.close().await;
/// # Ok(()) });
/// ```
#[derive(Debug, Clone)]
pub struct FencedLock {
    lock: Lock,
}

impl Client {
    /// A [fenced](Kind::Fenced) lock by its name. Nothing is sent; errors as [`lock`](Client::lock).
    pub fn fenced(&self, name: &str) -> Result<FencedLock, LockError> {
        let lock = self.lock(Kind::Fenced, name)?;
        Ok(FencedLock { lock })
    }

    /// A [queued](Kind::Queued) lock by its name. Nothing is sent; errors as [`lock`](Client::lock).
    pub fn queued(&self, name: &str) -> Result<FencedLock, LockError> {
        let lock = self.lock(Kind::Queued, name)?;
        Ok(FencedLock { lock })
    }
}

impl FencedLock {
    short_forms!(FencedGuard);

    /// As [`Lock::acquire_with`].
    pub async fn acquire_with(&self, how: Acquire) -> Result<FencedGuard, LockError> {
        let guard = self.lock.acquire_with(how).await?;
        match guard.token() {
            Some(token) => Ok(FencedGuard { guard, token }),
            // Dropping the guard gives it back.
            None => Err(LockError::local(
                ErrorKind::Failed,
                "acquire",
                self.name(),
                "the server granted it without a token",
            )),
        }
    }
}

stands_for!(FencedLock, lock: Lock);

/// A hold with its fencing token; in all else the [`Guard`] that it dereferences to.
#[derive(Debug)]
#[must_use = "dropping it gives the lock back at once"]
pub struct FencedGuard {
    guard: Guard,
    token: u64,
}

impl FencedGuard {
    /// The token, as [`Guard::token`]. The resource must refuse one that is not above all it has seen.
    pub fn token(&self) -> u64 {
        self.token
    }

    /// Gives it back; as [`Guard::release`].
    pub async fn release(self) -> Result<Released, LockError> {
        self.guard.release().await
    }

    /// The same as the guard of any lock, for code that treats all alike.
    pub fn into_guard(self) -> Guard {
        self.guard
    }
}

stands_for!(FencedGuard, guard: Guard);
