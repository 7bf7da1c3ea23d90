//! Timeout: loses every byte and closes the connection after a while, or when it is lifted.

use std::time::Duration;

use tokio::time::Instant;

use super::{Chunk, Ending, FaultBehaviour, Treatment};

#[derive(Debug)]
pub(super) struct Timeout {
    after: Duration,
    since: Instant,
}

impl Timeout {
    /// Without a time the connection stays open and silent.
    pub(super) fn new(after: Duration) -> Timeout {
        Timeout {
            after,
            since: Instant::now(),
        }
    }
}

impl FaultBehaviour for Timeout {
    fn treat(&self, chunk: Chunk<'_>) -> Treatment {
        if chunk.ends {
            Treatment::Pass
        } else {
            Treatment::Lost
        }
    }

    fn ends_at(&self, _connection: u64, opened: Instant) -> Option<(Instant, Ending)> {
        let begun = opened.max(self.since);
        (!self.after.is_zero()).then(|| (begun + self.after, Ending::Close))
    }

    /// Bytes are missing: nothing that came now would make sense.
    fn ends_when_lifted(&self, _connection: u64) -> Option<Ending> {
        Some(Ending::Close)
    }
}
