//! Reset: ends connections with a TCP reset and lets no new one live, as a host does that lost its state.

use super::{Ending, Harm, Treatment};

#[derive(Debug)]
pub(super) struct Reset;

impl Harm for Reset {
    fn treat(&self, _luck: f64) -> Treatment {
        Treatment::Pass
    }

    fn ending(&self) -> Option<Ending> {
        Some(Ending::Reset)
    }
}
