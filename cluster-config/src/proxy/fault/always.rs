//! What treats every chunk alike: a cut, which holds every byte and closes nothing, as a network does that drops packets; pieces, as on a
//! slow and lossy path; a reset some time after something was sent.

use super::{Chunk, FaultBehaviour, Treatment};

#[derive(Debug)]
pub(super) struct Always(pub(super) Treatment);

impl FaultBehaviour for Always {
    fn treat(&self, _chunk: Chunk<'_>) -> Treatment {
        self.0
    }

    fn holds_connections(&self) -> bool {
        self.0 == Treatment::Hold
    }
}
