//! Hold: keeps certain messages until the heal, and with them what comes after on their connections.

use super::counted::Counted;
use super::{Chunk, FaultBehaviour, Treatment};
use crate::proxy::resp::Pattern;

#[derive(Debug)]
pub(super) struct Hold(pub(super) Counted);

impl FaultBehaviour for Hold {
    fn treat(&self, chunk: Chunk<'_>) -> Treatment {
        if self.0.hits(&chunk) {
            Treatment::Hold
        } else {
            Treatment::Pass
        }
    }

    fn pattern(&self) -> Option<&Pattern> {
        Some(&self.0.pattern)
    }
}
