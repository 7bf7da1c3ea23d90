//! Slice: lets bytes arrive in small pieces, as a slow and lossy path does.

use std::time::Duration;

use super::{Chunk, Harm, Treatment};

#[derive(Debug)]
pub(super) struct Slice {
    pub(super) size: usize,
    pub(super) delay: Duration,
}

impl Harm for Slice {
    fn treat(&self, _chunk: Chunk<'_>) -> Treatment {
        Treatment::Slice(self.size.max(1), self.delay)
    }
}
