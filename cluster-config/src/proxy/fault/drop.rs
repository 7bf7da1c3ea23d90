//! Drop: loses certain messages for good.

use super::counted::Counted;
use super::{Chunk, FaultBehaviour, Treatment};
use crate::proxy::resp::Pattern;

#[derive(Debug)]
pub(super) struct Drop(pub(super) Counted);

impl FaultBehaviour for Drop {
    fn treat(&self, chunk: Chunk<'_>) -> Treatment {
        if self.0.hits(&chunk) {
            Treatment::Lost
        } else {
            Treatment::Pass
        }
    }

    fn pattern(&self) -> Option<&Pattern> {
        Some(&self.0.pattern)
    }
}
