//! One task for many simultaneous requests for the same work; all of them get its result.
use std::future::Future;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::{BoxFuture, Shared};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use tokio::{task::AbortHandle, time::sleep};

use crate::clock::{Instant, timeout_at};
use crate::machine::ClientRuntime;
use crate::sync::Mutex;

/// The result of a flight; `None` if its task was cut off (the runtime is shutting down).
pub(crate) type Joined<T> = Shared<BoxFuture<'static, Option<T>>>;

/// At most one task at a time. The task is its own: a caller that gives up does not stop it.
pub(crate) struct Flight<T: Clone>(Mutex<Option<(AbortHandle, Joined<T>)>>);

impl<T: Clone> Default for Flight<T> {
    fn default() -> Self {
        Flight(Mutex::new(None))
    }
}

impl<T: Clone + Send + Sync + 'static> Flight<T> {
    /// Joins the task in flight, or starts one on the client's runtime.
    pub(crate) fn join<F>(&self, runtime: &ClientRuntime, work: impl FnOnce() -> F) -> Joined<T>
    where
        F: Future<Output = T> + Send + 'static,
    {
        let mut slot = self.0.lock();
        // One whose task has panicked is over, too.
        if let Some((_, shared)) = slot.as_ref().filter(|(task, _)| !task.is_finished()) {
            return shared.clone();
        }
        let task = runtime.spawn(work());
        let handle = task.abort_handle();
        let shared = async move { task.await.ok() }.boxed().shared();
        *slot = Some((handle, shared.clone()));
        shared
    }
}

/// The least time between the ends of two looks: a failover answers hundreds of requests with MOVED.
const HOLD_OFF: Duration = Duration::from_millis(50);

/// Looking anew at something that many find to be old at once: one look at a time, and a pause between two.
#[derive(Default)]
pub(crate) struct Refresh {
    flight: Flight<()>,
    last_end: Arc<Mutex<Option<Instant>>>,
}

impl Refresh {
    /// Joins the look in flight, or starts one while the owner lives. Goes on if the caller does not wait.
    pub(crate) fn join<S, F>(
        &self,
        runtime: &ClientRuntime,
        owner: &Weak<S>,
        look: impl FnOnce(Arc<S>) -> F + Send + 'static,
    ) -> Joined<()>
    where
        S: Send + Sync + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        self.flight.join(runtime, || {
            let (owner, last_end) = (Weak::clone(owner), Arc::clone(&self.last_end));
            async move {
                let ended = *last_end.lock();
                if let Some(wait) = ended.and_then(|end| HOLD_OFF.checked_sub(end.elapsed())) {
                    sleep(wait).await;
                }
                if let Some(owner) = owner.upgrade() {
                    look(owner).await;
                }
                *last_end.lock() = Some(Instant::now());
            }
        })
    }
}

/// Hands answers to `take` until that has heard enough, or for `grace` after it called the first good.
pub(crate) async fn hear<T>(
    mut answers: FuturesUnordered<impl Future<Output = T>>,
    grace: Duration,
    mut take: impl FnMut(T) -> AnswerValue,
) {
    let mut until = None;
    loop {
        let next = match until {
            None => answers.next().await,
            Some(until) => timeout_at(until, answers.next()).await.unwrap_or(None),
        };
        match next.map(&mut take) {
            None | Some(AnswerValue::Enough) => return,
            Some(AnswerValue::Good) => {
                until.get_or_insert_with(|| Instant::now() + grace);
            }
            Some(AnswerValue::Nothing) => {}
        }
    }
}

/// What an answer is worth, among several to the same question.
pub(crate) enum AnswerValue {
    /// Nothing.
    Nothing,
    /// The others have a moment left to say something better.
    Good,
    /// Nobody could say anything better.
    Enough,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[tokio::test(start_paused = true)]
    async fn looks_are_joined_and_held_off() {
        let looks = Arc::new(AtomicU32::new(0));
        let refresh = Refresh::default();
        let look = |looks: Arc<AtomicU32>| async move {
            tokio::time::sleep(Duration::from_millis(10)).await;
            looks.fetch_add(1, Ordering::SeqCst);
        };
        let owner = Arc::downgrade(&looks);
        let began = tokio::time::Instant::now();
        let runtime = ClientRuntime::current().expect("a runtime");
        let join = || refresh.join(&runtime, &owner, look);
        let both = (join(), join());
        tokio::join!(both.0, both.1);
        assert_eq!(looks.load(Ordering::SeqCst), 1);
        assert_eq!(began.elapsed(), Duration::from_millis(10));
        // The hold-off is by the real clock, which hardly moves while the runtime's is paused.
        join().await;
        assert_eq!(looks.load(Ordering::SeqCst), 2);
        assert!(began.elapsed() > Duration::from_millis(40), "not held off");
        drop(looks);
        join().await;
    }
}
