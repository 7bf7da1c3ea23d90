//! Refuse and reset: connections end, and no new one lives: as on a host whose server has gone, or that lost its state.

use super::{Ending, FaultBehaviour};

#[derive(Debug)]
pub(super) struct Ends(pub(super) Ending);

impl FaultBehaviour for Ends {
    fn ending(&self) -> Option<Ending> {
        Some(self.0)
    }
}
