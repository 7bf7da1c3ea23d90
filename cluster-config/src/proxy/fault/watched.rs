//! Watched: harms nothing; counts certain messages as they pass.

use tokio::sync::watch;

use super::{Chunk, FaultBehaviour, Treatment};
use crate::proxy::resp::Pattern;

#[derive(Debug)]
pub(crate) struct Watched {
    pub(crate) pattern: Pattern,
    pub(crate) passed: watch::Sender<u64>,
}

impl FaultBehaviour for Watched {
    fn treat(&self, chunk: Chunk<'_>) -> Treatment {
        if chunk.meant {
            Treatment::Noted
        } else {
            Treatment::Pass
        }
    }

    fn pattern(&self) -> Option<&Pattern> {
        Some(&self.pattern)
    }

    fn delivered(&self) {
        self.passed.send_modify(|passed| *passed += 1);
    }
}
