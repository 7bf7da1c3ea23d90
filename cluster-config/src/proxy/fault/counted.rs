//! Hold and drop: what happens to "the third EVALSHA and one more" of the messages on a link.

use std::sync::atomic::{AtomicU64, Ordering};

use super::{Chunk, FaultBehaviour, Treatment};
use crate::proxy::resp::Pattern;

/// Some of the messages that a pattern means are treated so; the others pass.
#[derive(Debug)]
pub(super) struct Counted {
    pattern: Pattern,
    nth: u64,
    count: u64,
    treatment: Treatment,
    meant: AtomicU64,
}

impl Counted {
    pub(super) fn new(pattern: Pattern, nth: u64, count: u64, treatment: Treatment) -> Counted {
        Counted {
            pattern,
            nth: nth.max(1),
            count,
            treatment,
            meant: AtomicU64::new(0),
        }
    }
}

impl FaultBehaviour for Counted {
    fn treat(&self, chunk: Chunk<'_>) -> Treatment {
        if !chunk.meant {
            return Treatment::Pass;
        }
        let number = self.meant.fetch_add(1, Ordering::Relaxed) + 1;
        if number >= self.nth && number - self.nth < self.count {
            self.treatment
        } else {
            Treatment::Pass
        }
    }

    fn pattern(&self) -> Option<&Pattern> {
        Some(&self.pattern)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counting_begins_with_one_and_ends_after_the_last() {
        let counted = Counted::new(Pattern::any(), 3, 2, Treatment::Lost);
        let is_lost = |chunk| counted.treat(chunk) == Treatment::Lost;
        let lost: Vec<bool> = (0..6).map(|_| is_lost(Chunk::message(&mut []))).collect();
        assert_eq!(lost, [false, false, true, true, false, false]);
        assert!(!is_lost(Chunk::of(&mut [], 1)));
    }
}
