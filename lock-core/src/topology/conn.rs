//! A connection that knows when it is dead and finds out when it is silent.
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Waker};
use std::time::Duration;

use futures_util::FutureExt;
use redis::{Cmd, Pipeline, RedisError, RedisResult, Value};
use tokio::{task::AbortHandle, time::timeout};

use super::Request;
use super::dial::Dialer;
use super::shared_connection::{NoReply, Replies, SharedConnection, Socket};
use super::vote::Vote;
use crate::clock::{Instant, timeout_at};

/// For how long a caller on another runtime than the client's waits for the timekeeper to say that a deadline
/// has passed, before it says so itself.
const TIMEKEEPER_GRACE: Duration = Duration::from_millis(20);

/// One connection. When the last user lets go of it, it is closed.
pub(crate) struct Conn {
    wire: Arc<SharedConnection>,
    probing: AtomicBool,
    driver: AbortHandle,
    dialer: Arc<Dialer>,
    /// The server was restarted, and grants nothing before this.
    pub(super) grants_from: OnceLock<Instant>,
    /// Which of several masters it leads to, and to which server.
    pub(super) vote: OnceLock<Vote>,
}

impl Conn {
    pub(super) fn over(socket: Socket, dialer: Arc<Dialer>) -> Arc<Self> {
        let (wire, driver, timekeeper) = SharedConnection::new(socket, dialer.idle_probe());
        let driver = dialer.runtime.spawn(driver).abort_handle();
        dialer.runtime.spawn(timekeeper);
        Arc::new(Conn {
            wire,
            probing: AtomicBool::new(false),
            driver,
            dialer,
            grants_from: OnceLock::new(),
            vote: OnceLock::new(),
        })
    }

    /// For how long the server grants nothing yet.
    pub(super) fn grants_in(&self) -> Option<Duration> {
        let left = self.grants_from.get()?.saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left)
    }

    /// Whether nothing can come of another request on this connection.
    pub(crate) fn is_dead(&self) -> bool {
        self.wire.has_ended()
    }

    /// Closes the connection; requests in flight end at once, their answers are lost.
    pub(crate) fn kill(&self) {
        self.wire.end("the connection was given up");
        self.driver.abort();
    }

    /// Sends a request and waits for the reply, until the deadline. A server's error is a value here.
    /// What goes `before` it in the same write is not asked about.
    pub(crate) async fn request(
        &self,
        before: Vec<Request>,
        request: &Request,
        deadline: Instant,
    ) -> Result<Value, NoReply> {
        let write = |out: &mut Vec<u8>| {
            let mut count = 1;
            for request in &before {
                request.write_to(out);
                count += 1;
            }
            request.write_to(out);
            self.dialer.count(count.into());
            count
        };
        let asked = (self.wire).ask(write, Some(deadline.std()), request.leaves_at_once);
        let replies = if self.dialer.runtime.is_current() {
            asked.await
        } else {
            // The timekeeper waits for a runtime that the caller's does not drive.
            let limit = timeout_at(deadline + TIMEKEEPER_GRACE, asked).await;
            limit.unwrap_or(Err(NoReply::Silent))
        };
        match replies? {
            Replies::One(value) => Ok(value),
            Replies::All(values) => Ok(values.into_iter().next_back().unwrap_or_default()),
        }
    }

    pub(crate) async fn command(&self, command: &Cmd) -> RedisResult<Value> {
        let mut values = self.packed(&command.get_packed_command(), 1, false).await?;
        Ok(values.pop().unwrap_or_default())
    }

    /// Sends `count` commands in one write, so that nothing of anybody else comes between them.
    pub(crate) async fn pipeline(&self, commands: &Pipeline, count: usize) -> RedisResult<Vec<Value>> {
        self.packed(&commands.get_packed_pipeline(), count, false).await
    }

    /// Sends `count` commands that are written out; `at_once` leaves none to the connection's own task.
    pub(crate) async fn packed(&self, bytes: &[u8], count: usize, at_once: bool) -> RedisResult<Vec<Value>> {
        self.dialer.count(count as u64);
        let replies = u32::try_from(count).map_err(|_| closed("too many commands at once"))?;
        let write = |out: &mut Vec<u8>| {
            out.extend_from_slice(bytes);
            replies
        };
        match self.wire.ask(write, None, at_once).await {
            Ok(Replies::One(value)) => Ok(vec![value]),
            Ok(Replies::All(values)) => Ok(values),
            Err(NoReply::Silent) => Err(closed("no answer in time")),
            Err(NoReply::Cut(why)) => Err(closed(&why)),
        }
    }

    /// A reply did not come in time: asks PING, and kills the connection if that is not answered by PONG
    /// within `patience`. Else a link that swallows requests would go unnoticed, and each answer behind would
    /// be taken for that to the request before. One probe at a time.
    pub(crate) fn suspect(self: &Arc<Self>, patience: Duration) {
        if self.is_dead() || self.probing.swap(true, Ordering::AcqRel) {
            return;
        }
        let (conn, asked) = (self.clone(), self.clone());
        let mut answer = Box::pin(async move { asked.command(&redis::cmd("PING")).await }).fuse();
        // Written here, before anything that may be asked next.
        let _ = answer.poll_unpin(&mut Context::from_waker(Waker::noop()));
        self.dialer.runtime.spawn(async move {
            match timeout(patience, answer).await {
                Ok(Ok(Value::SimpleString(said))) if said == "PONG" => {}
                Ok(Ok(Value::ServerError(_))) => {}
                _ => conn.kill(),
            }
            conn.probing.store(false, Ordering::Release);
        });
    }
}

fn closed(why: &str) -> RedisError {
    std::io::Error::new(std::io::ErrorKind::ConnectionReset, why).into()
}

impl Drop for Conn {
    fn drop(&mut self) {
        // With requests unanswered the driver would wait for them, for ever on a silent link.
        self.kill();
    }
}
