//! Cut: holds every byte until the heal and closes nothing, as a network does that drops packets.

use super::{Harm, Treatment};

#[derive(Debug)]
pub(super) struct Cut;

impl Harm for Cut {
    fn treat(&self, _luck: f64) -> Treatment {
        Treatment::Hold
    }
}
