//! Reset: ends connections with a TCP reset and lets no new one live, as a host does that lost its state.

use super::{Ending, FaultBehaviour};

#[derive(Debug)]
pub(super) struct Reset;

impl FaultBehaviour for Reset {
    fn ending(&self) -> Option<Ending> {
        Some(Ending::Reset)
    }
}
