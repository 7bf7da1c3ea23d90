//! Waits for what comes by itself, by looking again and again.

use std::future::Future;
use std::time::{Duration, Instant};

/// Looks at once, and then every so often until there is something, for `within` at most. `None`: it did not
/// come.
pub async fn until<T, L: Future<Output = Option<T>>>(
    within: Duration,
    every: Duration,
    mut look: impl FnMut() -> L,
) -> Option<T> {
    let deadline = Instant::now() + within;
    loop {
        let found = look().await;
        if found.is_some() || Instant::now() >= deadline {
            return found;
        }
        tokio::time::sleep(every).await;
    }
}

/// Whether something is so within a time, looked at like [`until`].
pub async fn is_so<L: Future<Output = bool>>(
    within: Duration,
    every: Duration,
    mut look: impl FnMut() -> L,
) -> bool {
    let seen = until(within, every, || {
        let seen = look();
        async { seen.await.then_some(()) }
    });
    seen.await.is_some()
}
