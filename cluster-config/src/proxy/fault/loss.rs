//! Loss: turns lost packets into what TCP makes of them, lateness: nothing is missing, it is sent again.
//!
//! Losses come in bursts, by a chain of two states (Gilbert, "Capacity of a burst-noise channel", 1960): in
//! the bad one everything is lost. A lost chunk is sent again after 200 ms, the least that Linux waits, and
//! each further time after twice as long, as RFC 6298 says; what was sent later on the connection waits
//! behind it.

use std::sync::Mutex;
use std::time::Duration;

use rand::RngExt;

use super::{Chunk, FaultBehaviour, Treatment};

const FIRST_TIMEOUT: Duration = Duration::from_millis(200);
/// Linux gives up after 15; before that many the heal comes in any run.
const REPEATS_MOST: u32 = 12;

#[derive(Debug)]
pub(super) struct Loss {
    rate: f64,
    burst: f64,
    bad: Mutex<bool>,
}

impl Loss {
    pub(super) fn new(rate: f64, burst: u32) -> Loss {
        Loss { rate: rate.clamp(0.0, 1.0), burst: f64::from(burst.max(1)), bad: Mutex::new(false) }
    }

    /// Whether the next packet is lost: of many the share `rate`, in runs of `burst` on average.
    fn next_is_lost(&self, luck: f64) -> bool {
        let mut bad = self.bad.lock().unwrap();
        *bad = if self.rate >= 1.0 {
            true
        } else if *bad {
            luck >= 1.0 / self.burst
        } else {
            // As many bursts begin as end; where they would have to touch, every packet begins one.
            luck < (self.rate / (self.burst * (1.0 - self.rate))).min(1.0)
        };
        *bad
    }
}

impl FaultBehaviour for Loss {
    fn treat(&self, _chunk: Chunk<'_>) -> Treatment {
        let mut random = rand::rng();
        if !self.next_is_lost(random.random()) {
            return Treatment::Pass;
        }
        if self.rate >= 1.0 {
            return Treatment::Hold;
        }
        // Long after the burst that hit the first: each further sending has the luck of the average.
        let mut repeats = 0;
        while repeats < REPEATS_MOST && random.random_bool(self.rate) {
            repeats += 1;
        }
        Treatment::Delayed(FIRST_TIMEOUT * ((1 << (repeats + 1)) - 1))
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    use super::*;

    #[test]
    fn the_share_and_the_bursts_are_those_asked_for() {
        let loss = Loss::new(0.2, 5);
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let lost: Vec<bool> = (0..200_000).map(|_| loss.next_is_lost(random.random())).collect();
        let share = lost.iter().filter(|lost| **lost).count() as f64 / lost.len() as f64;
        let bursts = lost.windows(2).filter(|pair| !pair[0] && pair[1]).count();
        let length = share * lost.len() as f64 / bursts as f64;
        assert!((0.18..0.22).contains(&share), "{share}");
        assert!((4.5..5.5).contains(&length), "{length}");
    }

    #[test]
    fn what_is_always_lost_never_arrives_and_what_never_is_passes() {
        let treat = |loss: &Loss| loss.treat(Chunk::of(&mut [0; 10], 1));
        assert_eq!(treat(&Loss::new(1.0, 1)), Treatment::Hold);
        assert_eq!(treat(&Loss::new(0.0, 1)), Treatment::Pass);
    }
}
