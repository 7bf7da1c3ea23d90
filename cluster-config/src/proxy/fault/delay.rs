//! Delay: turns a chunk's moment of reading into a later moment of delivery.

use std::time::Duration;

use super::{Harm, Treatment};

#[derive(Debug)]
pub(super) struct Delay {
    pub(super) latency: Duration,
    pub(super) jitter: Duration,
}

impl Harm for Delay {
    fn treat(&self, luck: f64) -> Treatment {
        Treatment::Late(self.latency + self.jitter.mul_f64(luck.clamp(0.0, 1.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_only_adds() {
        let delay = Delay {
            latency: Duration::from_millis(100),
            jitter: Duration::from_millis(50),
        };
        assert_eq!(
            delay.treat(0.0),
            Treatment::Late(Duration::from_millis(100))
        );
        assert_eq!(
            delay.treat(1.0),
            Treatment::Late(Duration::from_millis(150))
        );
    }
}
