//! Close after: counts the bytes of each connection and names the chunk that is its last.

use std::collections::BTreeMap;
use std::sync::Mutex;

use super::{Chunk, FaultBehaviour, Treatment};

#[derive(Debug)]
pub(super) struct CloseAfter {
    bytes: u64,
    passed: Mutex<BTreeMap<u64, u64>>,
}

impl CloseAfter {
    pub(super) fn new(bytes: u64) -> CloseAfter {
        CloseAfter {
            bytes,
            passed: Mutex::default(),
        }
    }
}

impl FaultBehaviour for CloseAfter {
    fn treat(&self, chunk: Chunk<'_>) -> Treatment {
        let mut passed = self.passed.lock().unwrap();
        let passed = passed.entry(chunk.connection).or_default();
        let left = self.bytes - *passed;
        let length = chunk.bytes.len() as u64;
        *passed += length.min(left);
        if length < left {
            Treatment::Pass
        } else {
            Treatment::Last(left as usize)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_connection_has_its_own_count() {
        let close = CloseAfter::new(10);
        let treat = |connection| close.treat(Chunk::of(&mut [0; 6], connection));
        assert_eq!(treat(1), Treatment::Pass);
        assert_eq!(treat(2), Treatment::Pass);
        assert_eq!(treat(1), Treatment::Last(4));
        assert_eq!(treat(1), Treatment::Last(0));
    }
}
