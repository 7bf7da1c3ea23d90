//! Delay: turns a chunk's moment of reading into a later moment of delivery.

use std::time::Duration;

use super::{Chunk, FaultBehaviour, Treatment};

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
        Treatment::Late(self.late(rand::random()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_spreads_to_both_sides_and_never_below_nothing() {
        let millis = Duration::from_millis;
        let mut delay = Delay {
            latency: millis(100),
            jitter: millis(50),
        };
        assert_eq!(delay.late(0.0), millis(150));
        assert_eq!(delay.late(0.5), millis(100));
        assert_eq!(delay.late(1.0), millis(50));
        delay.jitter = millis(300);
        assert_eq!(delay.late(1.0), Duration::ZERO);
    }
}
