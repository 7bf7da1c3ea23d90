//! Picks "the third EVALSHA and one more" out of a stream of messages.

use std::sync::atomic::{AtomicU64, Ordering};

use super::Chunk;
use crate::proxy::resp::Pattern;

/// Which of the messages that a pattern means are harmed.
#[derive(Debug)]
pub(super) struct Counted {
    pub(super) pattern: Pattern,
    nth: u64,
    count: u64,
    meant: AtomicU64,
}

impl Counted {
    pub(super) fn new(pattern: Pattern, nth: u64, count: u64) -> Counted {
        Counted {
            pattern,
            nth: nth.max(1),
            count,
            meant: AtomicU64::new(0),
        }
    }

    /// Counts the message if it is meant; whether it is to be harmed.
    pub(super) fn hits(&self, chunk: &Chunk<'_>) -> bool {
        if !chunk.meant {
            return false;
        }
        let number = self.meant.fetch_add(1, Ordering::Relaxed) + 1;
        number >= self.nth && number - self.nth < self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counting_begins_with_one_and_ends_after_the_last() {
        let counted = Counted::new(Pattern::any(), 3, 2);
        let hit: Vec<bool> = (0..6)
            .map(|_| counted.hits(&Chunk::message(&mut [])))
            .collect();
        assert_eq!(hit, [false, false, true, true, false, false]);
        assert!(!counted.hits(&Chunk::of(&mut [], 1)));
    }
}
