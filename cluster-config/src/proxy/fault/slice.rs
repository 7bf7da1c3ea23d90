//! Slice: lets bytes arrive in small pieces, as a slow and lossy path does.

use std::time::Duration;

use super::{Chunk, FaultBehaviour, Treatment};

/// How a chunk is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::proxy) struct Slices {
    /// Bytes per piece on average, at least 1.
    pub(in crate::proxy) size: usize,
    /// At most so many more or fewer, drawn uniformly.
    pub(in crate::proxy) variation: usize,
    /// Pause after each piece.
    pub(in crate::proxy) delay: Duration,
}

#[derive(Debug)]
pub(super) struct Slice(pub(super) Slices);

impl FaultBehaviour for Slice {
    fn treat(&self, _chunk: Chunk<'_>) -> Treatment {
        Treatment::Slice(self.0)
    }
}
