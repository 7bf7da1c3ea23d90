//! Counts the bytes that pass a proxy.

use std::sync::atomic::{AtomicU64, Ordering};

use super::table::Direction;

/// Bytes received and sent per direction, over all connections.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    counts: [[AtomicU64; 2]; 2],
}

impl Traffic {
    /// Bytes received from those who dialled, and sent on.
    pub(crate) fn out(&self) -> [u64; 2] {
        self.of(Direction::Out)
    }

    /// Bytes received for those who dialled, and sent to them.
    pub(crate) fn back(&self) -> [u64; 2] {
        self.of(Direction::Back)
    }

    fn of(&self, direction: Direction) -> [u64; 2] {
        let counts = self.counts[direction as usize].each_ref();
        counts.map(|count| count.load(Ordering::Relaxed))
    }

    pub(super) fn received(&self, direction: Direction, bytes: usize) {
        self.counts[direction as usize][0].fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn sent(&self, direction: Direction, bytes: usize) {
        self.counts[direction as usize][1].fetch_add(bytes as u64, Ordering::Relaxed);
    }
}
