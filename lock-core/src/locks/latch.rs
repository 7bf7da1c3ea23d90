//! A latch by name: it counts down, and opens for everybody who waits.

use std::{sync::Arc, time::Duration};

use crate::bounds::LAST_LOOK;
use crate::client::Client;
use crate::client::client_core::ClientCore;
use crate::clock::Instant;
use crate::error::{LockError, refuse_outside_of_tokio};
use crate::hold::acquire::within;
use crate::hold::acquire_options::Wait;
use crate::hold::idempotent_requests::{Subject, no_number, number};
use crate::kind::{latch as requests, yes};
use crate::names::Names;
use crate::servers::backoff;
use crate::topology::{NodeError, RequestPurpose, passes};
use crate::waiting::gate::GateFront;
use crate::waiting::subscriptions::Subscriptions;

/// A count under a name that goes down to nothing, in the wire format of RCountDownLatch. Cheap to clone.
///
/// It is open while there is no count, so also before the first one was set, and closed again by the next. A
/// message that is lost keeps nobody waiting: each waiter looks on every new subscription and after
/// [`ClientOptions::poll_bound`](crate::ClientOptions::poll_bound) at the latest. Waiters of one client
/// listen once and look each for itself: a thousand of them take 1.5 % of a server's core.
///
/// ```
/// # #[path = "../../tests/support/example.rs"] mod example; example::run(async |server, client| {
/// # use std::time::Duration;
/// let started = client.latch("started")?;
/// started.try_set_count(2).await?;
/// assert!(!started.wait_timeout(Duration::from_millis(1)).await?);
/// let waits = started.wait();
/// let counts = async {
///     started.count_down().await?;
///     started.count_down().await
/// };
/// let (opened, left) = tokio::join!(waits, counts);
/// opened?;
/// assert_eq!(left?, 0);
/// client.close().await;
/// # Ok(()) });
/// ```
#[derive(Debug, Clone)]
pub struct Latch {
    inner: Arc<LatchInner>,
}

#[derive(Debug)]
struct LatchInner {
    client: Arc<ClientCore>,
    names: Names,
}

impl Client {
    /// A latch by its name, which is the Redis key itself. Nothing is sent.
    ///
    /// Errors: `Invalid` as for [`lock`](Client::lock); on a cluster also for every name with braces, since
    /// RCountDownLatch's channel has braces too. A latch lives in one server set, not in independent masters.
    pub fn latch(&self, name: &str) -> Result<Latch, LockError> {
        let names = self.in_one_set("latch", name, Names::of_latch)?;
        let client = Arc::clone(self.shared());
        Ok(Latch { inner: Arc::new(LatchInner { client, names }) })
    }
}

const WAIT_FOR: &str = "wait for";

impl Latch {
    /// Its name, which is the Redis key itself.
    pub fn name(&self) -> &str {
        &self.inner.names.key
    }

    /// Closes it with a count, from 1 on; false if it is closed already.
    pub async fn try_set_count(&self, count: u32) -> Result<bool, LockError> {
        const ACTION: &str = "close";
        if count == 0 {
            return Err(LockError::invalid(ACTION, self.name(), "a count is at least 1"));
        }
        let request = requests::set(&self.inner.names, count);
        self.inner.subject().ask(ACTION, request, yes).await
    }

    /// Counts down by one, never below zero; what is left.
    ///
    /// A lost answer is asked for again, and nothing is counted twice. After `Unknown`, and when the future
    /// is dropped, it goes on in the background for half an hour.
    pub async fn count_down(&self) -> Result<u64, LockError> {
        let request = requests::count_down(&self.inner.names);
        let left = self.inner.subject().ask_surely("count down", request, number).await?;
        Ok(u64::try_from(left).unwrap_or(0))
    }

    /// What is left, by the word of the master; 0 is open.
    pub async fn count(&self) -> Result<u64, LockError> {
        let left = self.inner.subject().look(requests::count(&self.inner.names), number).await?;
        Ok(u64::try_from(left).unwrap_or(0))
    }

    /// Opens it at once by taking the count away; true if there was one.
    pub async fn delete(&self) -> Result<bool, LockError> {
        let request = requests::delete(&self.inner.names);
        self.inner.subject().ask("open", request, yes).await
    }

    /// Waits until it is open, for ever if need be; as [`wait_with`](Latch::wait_with).
    pub async fn wait(&self) -> Result<(), LockError> {
        self.wait_with(Wait::Forever).await.map(|_| ())
    }

    /// Waits for `timeout` at most; false if it was not open by then. As [`wait_with`](Latch::wait_with).
    pub async fn wait_timeout(&self, timeout: Duration) -> Result<bool, LockError> {
        self.wait_with(Wait::AtMost(timeout)).await
    }

    /// Waits until it is open; false if not within the wait. An opening between two looks may be missed.
    ///
    /// Errors: `Failed` where the last look had no answer or a refusal. A dropped future leaves nothing.
    pub async fn wait_with(&self, wait: Wait) -> Result<bool, LockError> {
        refuse_outside_of_tokio(WAIT_FOR, self.name())?;
        tokio::select! {
            biased;
            ended = self.wait_until_open(wait) => ended,
            () = self.inner.client.background.closed() => {
                Err(self.inner.failed(NodeError::closed()))
            }
        }
    }

    async fn wait_until_open(&self, wait: Wait) -> Result<bool, LockError> {
        let inner = &*self.inner;
        let options = &inner.client.options;
        let began = Instant::now();
        let (once, end) = wait.bounds();
        // It is the first of a line by itself: each looks at the latch side by side with the others.
        let mut front = GateFront::new();
        let mut failures = 0;
        loop {
            let trouble = match inner.is_open(end).await {
                Ok(open) if open || once => return Ok(open),
                Err(error) if once || !passes(&error, RequestPurpose::Answer) => {
                    return Err(inner.failed(error));
                }
                looked => looked.err(),
            };
            failures = trouble.as_ref().map_or(0, |_| failures + 1);
            let bound = front.poll_bound(options.poll_bound, began.elapsed());
            let pause = match (&front.subscriptions, failures) {
                // Without an acknowledgement it is looked at all the same.
                (None, _) => options.response_timeout,
                (_, 0) => bound.mul_f64(rand::random_range(0.75..=1.0)),
                (_, failures) => backoff(failures).min(options.poll_bound),
            };
            let look_at = Instant::now() + pause;
            let wake = Some(end.map_or(look_at, |end| end.min(look_at)));
            match &mut front.subscriptions {
                Some(heard) => within(wake, heard.hint()).await,
                none => within(wake, none.insert(inner.listen()).ready()).await,
            };
            if end.is_some_and(|end| Instant::now() >= end) {
                return trouble.map_or(Ok(false), |error| Err(inner.failed(error)));
            }
        }
    }
}

impl LatchInner {
    fn subject(&self) -> Subject<'_> {
        Subject { client: &self.client, names: &self.names }
    }

    fn listen(&self) -> Subscriptions {
        Subscriptions::on(std::slice::from_ref(self.client.route()), &self.names.key, &[&self.names.channel])
    }

    async fn is_open(&self, end: Option<Instant>) -> Result<bool, NodeError> {
        let now = Instant::now();
        let timeout = now + self.client.options.response_timeout;
        let deadline = end.map_or(timeout, |end| end.max(now + LAST_LOOK).min(timeout));
        let sent = self.client.route().send(&requests::count(&self.names), deadline).await?;
        let count = number(&sent.value).ok_or_else(|| no_number(&sent))?;
        Ok(count <= 0)
    }

    fn failed(&self, error: NodeError) -> LockError {
        LockError::from_read(WAIT_FOR, &self.names.key, error)
    }
}
