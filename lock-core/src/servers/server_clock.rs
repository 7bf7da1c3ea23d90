//! What the servers' clock shows.

use std::time::Duration;

use crate::clock::Instant;
use crate::sync::Mutex;

/// A request is in time for so much longer than somebody waits for its answer.
const SLACK: Duration = Duration::from_secs(5);

/// What the servers' clock showed last. Servers whose clocks differ by more than the slack cost a question.
#[derive(Debug, Default)]
pub(crate) struct ServerClock(Mutex<Option<(Instant, u64)>>);

impl ServerClock {
    /// An answer to a question that was sent at `sent_at` showed this clock, in ms.
    pub(crate) fn showed(&self, sent_at: Instant, server_ms: u64) {
        *self.0.lock() = Some((sent_at, server_ms));
    }

    /// What the clock shows some seconds after `deadline`, in ms; `None` if no answer has shown it.
    pub(crate) fn after(&self, deadline: Instant) -> Option<u64> {
        let (sent_at, server_ms) = (*self.0.lock())?;
        let later = deadline.saturating_duration_since(sent_at) + SLACK;
        // Clocks may differ by a hundredth.
        server_ms.checked_add(u64::try_from((later + later / 100).as_millis()).ok()?)
    }
}
