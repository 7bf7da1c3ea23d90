//! Corrupt: replaces bytes by others, as broken memory in a router does where no checksum covers it.

use rand::RngExt;

use super::{Chunk, FaultBehaviour, Treatment};

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
