//! A lock by name: how it is asked for.

use std::sync::Arc;

use crate::clock::Instant;
use crate::error::{LockError, refuse_outside_of_tokio};
use crate::hold::HolderIdentity;
use crate::hold::acquire::acquire_for;
use crate::hold::acquire_options::{Acquire, Owner};
use crate::hold::guard::Guard;
use crate::kind::{Holder, Kind};
use crate::locks::lock_inner::LockInner;
use crate::locks::short_forms::short_forms;

const LOOK_AT: &str = "look at";

/// A lock by name. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Lock {
    pub(crate) inner: Arc<LockInner>,
    pub(crate) kind: Kind,
}

impl Lock {
    /// Its name, which is the Redis key itself.
    pub fn name(&self) -> &str {
        &self.inner.names.key
    }

    /// Its kind.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    short_forms!(Guard);

    /// Acquires as `how` says; `ErrorKind::Busy` when the wait ran out while another held it.
    ///
    /// A lost answer is asked for again on the spot, as long as the wait lasts; the repetition is recognised
    /// by the server. If the wait ends before it is known, the error is `ErrorKind::Unknown` and whatever may
    /// have been taken is given back in the background. The same happens when the future is dropped.
    pub async fn acquire_with(&self, how: Acquire) -> Result<Guard, LockError> {
        acquire_for(&self.inner, HolderIdentity::Owner(how.owner), &how).await
    }

    /// Whether anybody holds it, as [`holder`](Lock::holder) says. A read lock is held by who reads, a write
    /// lock by who writes. Errors: `Failed`, also where no answer came, as of everything that only looks.
    pub async fn is_locked(&self) -> Result<bool, LockError> {
        self.holder().await.map(|held| held.is_some())
    }

    /// Who holds it now, by the word of its master; of a redlock, whom a majority names; of several readers
    /// the one with the longest lease. Only a look: it may be over when it is read.
    pub async fn holder(&self) -> Result<Option<Holder>, LockError> {
        Ok(Holder::longest(self.holders().await?))
    }

    /// All who hold it now: several where readers share it. As [`holder`](Lock::holder) in all else.
    pub async fn holders(&self) -> Result<Vec<Holder>, LockError> {
        let deadline = self.deadline(LOOK_AT)?;
        let asked = self.inner.servers.holders(&self.inner, deadline).await;
        asked.map_err(|error| LockError::from_read(LOOK_AT, self.name(), error))
    }

    /// How many times this client's `owner` holds it, by the servers' word; 0 if another does or nobody.
    ///
    /// Errors: `Invalid` for a number that is no caller's, else as [`holder`](Lock::holder).
    pub async fn holds_of(&self, owner: Owner) -> Result<u64, LockError> {
        if let Some(why) = owner.mistake() {
            return Err(LockError::invalid(LOOK_AT, self.name(), why));
        }
        let text = self.inner.client.owner_text(owner);
        let holders = self.holders().await?;
        Ok(holders.iter().find(|holder| holder.owner == text).map_or(0, |holder| holder.holds))
    }

    /// Takes it away from its holder; true if somebody did. The holder learns at its next renewal, extension
    /// or release; also where its owner has taken the lock anew, which the old guard leaves.
    pub async fn force_release(&self) -> Result<bool, LockError> {
        const ACTION: &str = "take away";
        let deadline = self.deadline(ACTION)?;
        let asked = self.inner.servers.force_release(&self.inner, deadline);
        asked.await.map_err(|error| LockError::from_write(ACTION, self.name(), error))
    }

    /// Until when one answer is waited for.
    fn deadline(&self, action: &'static str) -> Result<Instant, LockError> {
        refuse_outside_of_tokio(action, self.name())?;
        Ok(Instant::now() + self.inner.client.options.response_timeout)
    }
}
