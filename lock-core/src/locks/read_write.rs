//! A read-write lock: the two sides that share one name.

use crate::client::Client;
use crate::error::LockError;
use crate::hold::acquire_options::{Acquire, Owner};
use crate::hold::guard::Guard;
use crate::kind::Kind;
use crate::locks::lock::Lock;

/// A read-write lock: many read at a time, or one writes. Cheap to clone.
///
/// Its two sides are locks of the kinds [`Read`](Kind::Read) and [`Write`](Kind::Write), beside Java clients'
/// RReadWriteLock. Each hold has its own lease: a reader that is gone keeps nobody out for longer.
///
/// ```
/// # use lock_core::Acquire;
/// # #[path = "../../tests/support/example.rs"] mod example; example::run(async |server, client| {
/// let prices = client.read_write("prices")?;
/// let writing = prices.write().acquire().await?;
/// // … change them, then go on reading what was written, with nobody in between:
/// let reading = prices.read_under(&writing, Acquire::default()).await?;
/// writing.release().await?;
/// // Other readers are in, too.
/// reading.release().await?;
/// client.close().await;
/// # Ok(()) });
/// ```
#[derive(Debug, Clone)]
pub struct ReadWrite {
    read: Lock,
    write: Lock,
}

impl Client {
    /// Both sides of a read-write lock by its name. Nothing is sent; errors as [`lock`](Client::lock).
    pub fn read_write(&self, name: &str) -> Result<ReadWrite, LockError> {
        Ok(ReadWrite { read: self.lock(Kind::Read, name)?, write: self.lock(Kind::Write, name)? })
    }
}

impl ReadWrite {
    /// Its name, which is the Redis key itself.
    pub fn name(&self) -> &str {
        self.read.name()
    }

    /// The shared side.
    pub fn read(&self) -> &Lock {
        &self.read
    }

    /// The exclusive side.
    pub fn write(&self) -> &Lock {
        &self.write
    }

    /// Reads as the one who writes. When `writing` is then released the lock is downgraded: the new guard
    /// reads on, with nobody having written in between, and readers who wait get in at once.
    ///
    /// The owner in `how` is that of `writing`, whatever was set. While that is held this waits for nobody.
    /// Errors: `Invalid` if `writing` is no write hold of this lock by this client, else as
    /// [`Lock::acquire_with`]; `writing` stays as it is.
    pub async fn read_under(&self, writing: &Guard, how: Acquire) -> Result<Guard, LockError> {
        let hold = writing.hold();
        let ours = hold.lock.word == Kind::Write.name()
            && hold.lock.names.key == self.read.inner.names.key
            && std::ptr::eq(&**hold.client(), &*self.read.inner.client);
        if !ours {
            let why = format!("the guard of {} is no write hold of this lock by this client", writing.name());
            return Err(LockError::invalid("read under a write hold of", self.name(), why));
        }
        let number = hold.owner.rsplit(':').next().and_then(|number| number.parse().ok());
        let owner = number.map(Owner::of_hold).expect("an owner ends with a number");
        self.read.acquire_with(how.owner(owner)).await
    }
}
