//! Slow close: delays the end of a connection and none of its bytes.

use std::time::Duration;

use super::{Chunk, FaultBehaviour, Treatment};

#[derive(Debug)]
pub(super) struct SlowClose {
    pub(super) delay: Duration,
}

impl FaultBehaviour for SlowClose {
    fn treat(&self, chunk: Chunk<'_>) -> Treatment {
        if chunk.ends {
            Treatment::Late(self.delay)
        } else {
            Treatment::Pass
        }
    }
}
