//! Refuse: ends connections in order and lets no new one live, as a host does whose server has gone.

use super::{Ending, FaultBehaviour};

#[derive(Debug)]
pub(super) struct Refuse;

impl FaultBehaviour for Refuse {
    fn ending(&self) -> Option<Ending> {
        Some(Ending::Close)
    }
}
