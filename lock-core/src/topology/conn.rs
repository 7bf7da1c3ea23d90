//! Turns a set-up stream into a connection that knows when it is dead and finds out when it is silent.
use std::{
    fmt,
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use redis::{Cmd, Pipeline, RedisError, RedisResult, Value, aio::MultiplexedConnection};
use tokio::{task::AbortHandle, time::timeout};

use super::dial::Dialer;

/// One connection. When the last user lets go of it, it is closed.
pub(crate) struct Conn {
    mux: MultiplexedConnection,
    dead: Arc<AtomicBool>,
    probing: AtomicBool,
    driver: AbortHandle,
    dialer: Arc<Dialer>,
}

impl Conn {
    pub(crate) fn start(
        mux: MultiplexedConnection,
        driver: impl Future<Output = ()> + Send + 'static,
        dialer: Arc<Dialer>,
    ) -> Arc<Self> {
        let dead = Arc::new(AtomicBool::new(false));
        let flag = dead.clone();
        let driver = tokio::spawn(async move {
            driver.await;
            flag.store(true, Ordering::Release);
        });
        Arc::new(Conn {
            mux,
            dead,
            probing: AtomicBool::new(false),
            driver: driver.abort_handle(),
            dialer,
        })
    }

    /// Whether nothing can come of another request on this connection.
    pub(crate) fn is_dead(&self) -> bool {
        self.dead.load(Ordering::Acquire)
    }

    /// Closes the connection; requests in flight end at once, their answers are lost.
    pub(crate) fn kill(&self) {
        self.dead.store(true, Ordering::Release);
        self.driver.abort();
    }

    /// Sends one command. A server's error is a value here.
    pub(crate) async fn command(&self, command: &Cmd) -> RedisResult<Value> {
        self.dialer.count(1);
        let answer = self.mux.clone().send_packed_command(command).await;
        self.noted(answer)
    }

    /// Sends `count` commands in one write, so that nothing of anybody else comes between them.
    pub(crate) async fn pipeline(
        &self,
        commands: &Pipeline,
        count: usize,
    ) -> RedisResult<Vec<Value>> {
        self.dialer.count(count as u64);
        let answers = self
            .mux
            .clone()
            .send_packed_commands(commands, 0, count)
            .await;
        self.noted(answers)
    }

    fn noted<T>(&self, answer: Result<T, RedisError>) -> Result<T, RedisError> {
        if let Err(error) = &answer
            && error.is_unrecoverable_error()
        {
            self.dead.store(true, Ordering::Release);
        }
        answer
    }

    /// A reply did not come in time: asks PING, and kills the connection if that stays unanswered for `patience` too.
    /// Without it a link that swallows everything would never be noticed. One probe at a time.
    pub(crate) fn suspect(self: &Arc<Self>, patience: Duration) {
        if self.is_dead() || self.probing.swap(true, Ordering::AcqRel) {
            return;
        }
        let conn = self.clone();
        tokio::spawn(async move {
            let ping = redis::cmd("PING");
            if !matches!(timeout(patience, conn.command(&ping)).await, Ok(Ok(_))) {
                conn.kill();
            }
            conn.probing.store(false, Ordering::Release);
        });
    }
}

impl Drop for Conn {
    fn drop(&mut self) {
        // With requests unanswered the driver would wait for them, for ever on a silent link.
        self.driver.abort();
    }
}

impl fmt::Debug for Conn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Conn")
            .field("dead", &self.is_dead())
            .finish_non_exhaustive()
    }
}
