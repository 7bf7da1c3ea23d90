//! Cut: holds every byte until the heal and closes nothing, as a network does that drops packets.

use super::{Chunk, FaultBehaviour, Treatment};

#[derive(Debug)]
pub(super) struct Cut;

impl FaultBehaviour for Cut {
    fn treat(&self, _chunk: Chunk<'_>) -> Treatment {
        Treatment::Hold
    }

    fn holds_connections(&self) -> bool {
        true
    }
}
