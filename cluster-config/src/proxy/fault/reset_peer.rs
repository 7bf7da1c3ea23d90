//! Reset peer: resets a connection some time after something was sent over it.

use std::time::Duration;

use super::{Chunk, Ending, FaultBehaviour, Treatment};

#[derive(Debug)]
pub(super) struct ResetPeer {
    pub(super) after: Duration,
}

impl FaultBehaviour for ResetPeer {
    fn treat(&self, _chunk: Chunk<'_>) -> Treatment {
        Treatment::EndsAfter(self.after, Ending::Reset)
    }
}
