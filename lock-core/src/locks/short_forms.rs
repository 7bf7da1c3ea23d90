//! `acquire`, `try_acquire` and `acquire_timeout` for every type that has an `acquire_with`.

use crate::error::{ErrorKind, LockError};

/// `acquire`, `try_acquire` and `acquire_timeout` of a type that has an `acquire_with`.
macro_rules! short_forms {
    ($guard:ty) => {
        /// Waits until it is acquired, for ever if need be; renewed until released. As
        /// [`acquire_with`](Self::acquire_with) by default.
        pub async fn acquire(&self) -> Result<$guard, $crate::LockError> {
            self.acquire_with($crate::Acquire::default()).await
        }

        /// One try; `None` if there is none to be had now. Renewed until released.
        ///
        /// Errors: as [`acquire_with`](Self::acquire_with), but never `Busy`.
        pub async fn try_acquire(&self) -> Result<Option<$guard>, $crate::LockError> {
            let how = $crate::Acquire::default().wait($crate::Wait::Try);
            $crate::locks::short_forms::unless_busy(self.acquire_with(how).await)
        }

        /// Waits for `timeout` at most; `Busy` if there was none in all that time. Renewed until released.
        ///
        /// Errors: as [`acquire_with`](Self::acquire_with).
        pub async fn acquire_timeout(
            &self,
            timeout: std::time::Duration,
        ) -> Result<$guard, $crate::LockError> {
            self.acquire_with($crate::Acquire::default().wait($crate::Wait::AtMost(timeout))).await
        }
    };
}

pub(crate) use short_forms;

/// Lets a type stand for what it is in all else.
macro_rules! stands_for {
    ($of:ty, $field:ident: $what:ty) => {
        impl std::ops::Deref for $of {
            type Target = $what;

            fn deref(&self) -> &$what {
                &self.$field
            }
        }
    };
}

pub(crate) use stands_for;

/// What one try came to: nothing where it was another's.
pub(crate) fn unless_busy<T>(tried: Result<T, LockError>) -> Result<Option<T>, LockError> {
    match tried {
        Ok(taken) => Ok(Some(taken)),
        Err(error) if error.kind() == ErrorKind::Busy => Ok(None),
        Err(error) => Err(error),
    }
}
