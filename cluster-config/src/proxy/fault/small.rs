//! The behaviours that take a few lines each.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rand::RngExt;
use tokio::sync::watch;
use tokio::time::Instant;

use super::{Chunk, ConnectionEnding, FaultBehaviour, Treatment};
use crate::proxy::resp::Pattern;

/// Treats every chunk alike: a cut, which holds every byte and closes nothing, as a network does that drops
/// packets; pieces, as on a slow and lossy path; a reset some time after something was sent.
#[derive(Debug)]
pub(super) struct Always(pub(super) Treatment);

impl FaultBehaviour for Always {
    fn treat(&self, _chunk: Chunk<'_>) -> Treatment {
        self.0
    }

    fn holds_connections(&self) -> bool {
        self.0 == Treatment::Hold
    }
}

/// Connections end, and no new one lives: as on a host whose server has gone, or that lost its state.
#[derive(Debug)]
pub(super) struct EndConnections(pub(super) ConnectionEnding);

impl FaultBehaviour for EndConnections {
    fn ending(&self) -> Option<ConnectionEnding> {
        Some(self.0)
    }
}

#[derive(Debug)]
pub(super) struct Delay {
    pub(super) latency: Duration,
    pub(super) jitter: Duration,
}

impl Delay {
    /// `luck`, 0.0 to 1.0, spreads evenly over the jitter's range; no delay is shorter than none.
    fn late(&self, luck: f64) -> Duration {
        let latest = self.latency + self.jitter;
        latest.saturating_sub(self.jitter.mul_f64(2.0 * luck.clamp(0.0, 1.0)))
    }
}

impl FaultBehaviour for Delay {
    fn treat(&self, _chunk: Chunk<'_>) -> Treatment {
        Treatment::Delayed(self.late(rand::random()))
    }
}

/// Replaces bytes by others, as broken memory in a router does where no checksum covers it.
#[derive(Debug)]
pub(super) struct Corrupt {
    pub(super) rate: f64,
}

impl FaultBehaviour for Corrupt {
    fn treat(&self, chunk: Chunk<'_>) -> Treatment {
        let mut random = rand::rng();
        let mut treatment = Treatment::Pass;
        for byte in chunk.bytes {
            if random.random_bool(self.rate.clamp(0.0, 1.0)) {
                // Any other value than its own.
                *byte ^= random.random_range(1..=u8::MAX);
                treatment = Treatment::Changed;
            }
        }
        treatment
    }
}

/// Counts the bytes of each connection and names the chunk that is its last.
#[derive(Debug)]
pub(super) struct CloseAfter {
    pub(super) bytes: u64,
    pub(super) passed: Mutex<BTreeMap<u64, u64>>,
}

impl FaultBehaviour for CloseAfter {
    fn treat(&self, chunk: Chunk<'_>) -> Treatment {
        let mut passed = self.passed.lock().unwrap();
        let passed = passed.entry(chunk.connection).or_default();
        let left = self.bytes - *passed;
        let length = chunk.bytes.len() as u64;
        *passed += length.min(left);
        if length < left { Treatment::Pass } else { Treatment::CloseAfter(left as usize) }
    }
}

/// Of the messages that a pattern means, `count` from the `nth` on (from 1) are treated so; others pass.
#[derive(Debug)]
pub(super) struct MessageRange {
    pub(super) pattern: Pattern,
    pub(super) nth: u64,
    pub(super) count: u64,
    pub(super) treatment: Treatment,
    pub(super) matched: AtomicU64,
}

impl FaultBehaviour for MessageRange {
    fn treat(&self, chunk: Chunk<'_>) -> Treatment {
        if !chunk.is_match {
            return Treatment::Pass;
        }
        let number = self.matched.fetch_add(1, Ordering::Relaxed) + 1;
        match number.checked_sub(self.nth.max(1)) {
            Some(after) if after < self.count => self.treatment,
            _ => Treatment::Pass,
        }
    }

    fn pattern(&self) -> Option<&Pattern> {
        Some(&self.pattern)
    }
}

/// Harms nothing; counts certain messages as they pass.
#[derive(Debug)]
pub(crate) struct MessageCounter {
    pub(crate) pattern: Pattern,
    pub(crate) passed: watch::Sender<u64>,
}

impl FaultBehaviour for MessageCounter {
    fn treat(&self, chunk: Chunk<'_>) -> Treatment {
        if chunk.is_match { Treatment::Counted } else { Treatment::Pass }
    }

    fn pattern(&self) -> Option<&Pattern> {
        Some(&self.pattern)
    }

    fn delivered(&self) {
        self.passed.send_modify(|passed| *passed += 1);
    }
}

/// Delays the end of a connection and none of its bytes.
#[derive(Debug)]
pub(super) struct SlowClose {
    pub(super) delay: Duration,
}

impl FaultBehaviour for SlowClose {
    fn treat(&self, chunk: Chunk<'_>) -> Treatment {
        if chunk.is_end { Treatment::Delayed(self.delay) } else { Treatment::Pass }
    }
}

/// Loses every byte. Closes the connection after `after` (zero: never), or when the fault is lifted.
#[derive(Debug)]
pub(super) struct Timeout {
    pub(super) after: Duration,
    pub(super) since: Instant,
}

impl FaultBehaviour for Timeout {
    fn treat(&self, chunk: Chunk<'_>) -> Treatment {
        if chunk.is_end { Treatment::Pass } else { Treatment::Lost }
    }

    fn ends_at(&self, _connection: u64, opened: Instant) -> Option<(Instant, ConnectionEnding)> {
        let begun = opened.max(self.since);
        (!self.after.is_zero()).then(|| (begun + self.after, ConnectionEnding::Close))
    }

    /// Bytes are missing: nothing that came now would make sense.
    fn ends_when_lifted(&self, _connection: u64) -> Option<ConnectionEnding> {
        Some(ConnectionEnding::Close)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_spreads_to_both_sides_and_never_below_nothing() {
        let millis = Duration::from_millis;
        for (jitter, luck, late) in [(50, 0.0, 150), (50, 0.5, 100), (50, 1.0, 50), (300, 1.0, 0)] {
            let (latency, jitter) = (millis(100), millis(jitter));
            assert_eq!(Delay { latency, jitter }.late(luck), millis(late));
        }
    }

    #[test]
    fn each_connection_has_its_own_count() {
        let close = CloseAfter { bytes: 10, passed: Mutex::default() };
        let last = [1, 2, 1, 1].map(|connection| close.treat(Chunk::of(&mut [0; 6], connection)));
        let (pass, cut) = (Treatment::Pass, Treatment::CloseAfter(4));
        assert_eq!(last, [pass, pass, cut, Treatment::CloseAfter(0)]);
    }

    #[test]
    fn counting_begins_with_one_and_ends_after_the_last() {
        let counted = MessageRange {
            pattern: Pattern::any(),
            nth: 3,
            count: 2,
            treatment: Treatment::Lost,
            matched: AtomicU64::new(0),
        };
        let is_lost = |chunk| counted.treat(chunk) == Treatment::Lost;
        let lost: Vec<bool> = (0..6).map(|_| is_lost(Chunk::message(&mut []))).collect();
        assert_eq!(lost, [false, false, true, true, false, false]);
        assert!(!is_lost(Chunk::of(&mut [], 1)));
    }
}
