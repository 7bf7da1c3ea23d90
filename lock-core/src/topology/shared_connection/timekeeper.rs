//! The task that keeps a connection's time: tells those past their deadline, and asks PING on an idle line.
//!
//! It is not the driver, which may have been woken by a task that computes from then on, where idle workers
//! cannot take it from. So the callers need no timers of their own, which took a fifth of the processor time
//! of an uncontended cycle at 256 tasks.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;
use std::time::Instant;

use tokio::time::timeout;

use super::{IdleProbe, SharedConnection};

pub(super) struct Timekeeper {
    connection: Arc<SharedConnection>,
    idle: IdleProbe,
    line: LineActivity,
    /// When `line` is looked at again.
    look_at_line: Instant,
    wakers: Vec<Waker>,
}

/// What came over the connection since it was last looked at.
enum LineActivity {
    Bytes,
    Nothing,
    /// Nothing, though PING was asked.
    NothingToPing,
}

impl Timekeeper {
    pub(super) fn new(connection: Arc<SharedConnection>, idle: IdleProbe) -> Self {
        Timekeeper {
            connection,
            line: LineActivity::Nothing,
            look_at_line: Instant::now() + idle.quiet / 2,
            idle,
            wakers: Vec::new(),
        }
    }

    /// Looks whenever something is due, until the connection ends.
    pub(super) async fn run(mut self) {
        let connection = Arc::clone(&self.connection);
        while !connection.has_ended() {
            let now = Instant::now();
            let next = self.look(now);
            // By what is left and not by the moment: a runtime's paused or advanced clock is another.
            let _ = timeout(next.saturating_duration_since(now), connection.sooner.notified()).await;
        }
    }

    /// Does what is due, and says when something will be.
    fn look(&mut self, now: Instant) -> Instant {
        let connection = &*self.connection;
        let mut queue = connection.queue.lock();
        if queue.look_at.is_some_and(|at| at <= now) {
            queue.sweep(now, &mut self.wakers);
        }
        let mut is_dead = false;
        if std::mem::take(&mut queue.heard) {
            self.line = LineActivity::Bytes;
        }
        if self.look_at_line <= now {
            self.look_at_line = now + self.idle.quiet / 2;
            match self.line {
                LineActivity::Bytes => self.line = LineActivity::Nothing,
                LineActivity::NothingToPing => is_dead = true,
                // Those who wait for something find out by themselves.
                LineActivity::Nothing if !queue.owed.is_empty() => {}
                LineActivity::Nothing => {
                    queue.ping();
                    self.wakers.extend(queue.driver.clone());
                    self.idle.commands.fetch_add(1, Ordering::Relaxed);
                    self.look_at_line = now + self.idle.patience;
                    self.line = LineActivity::NothingToPing;
                }
            }
        }
        let next = queue.look_at.unwrap_or(self.look_at_line);
        drop(queue);
        self.wakers.drain(..).for_each(Waker::wake);
        if is_dead {
            connection.end(&format!("no answer to PING within {:?}", self.idle.patience));
        }
        next.min(self.look_at_line)
    }
}
