//! Counts the bytes that pass a proxy.

use std::sync::atomic::{AtomicU64, Ordering};

use super::table::Direction;

/// Bytes received and sent per direction, over all connections.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    out: [AtomicU64; 2],
    back: [AtomicU64; 2],
}

impl Traffic {
    /// Bytes received from those who dialled, and sent on.
    pub(crate) fn out(&self) -> [u64; 2] {
        self.out
            .each_ref()
            .map(|count| count.load(Ordering::Relaxed))
    }

    /// Bytes received for those who dialled, and sent to them.
    pub(crate) fn back(&self) -> [u64; 2] {
        self.back
            .each_ref()
            .map(|count| count.load(Ordering::Relaxed))
    }

    fn counts(&self, direction: Direction) -> &[AtomicU64; 2] {
        match direction {
            Direction::Out => &self.out,
            Direction::Back => &self.back,
        }
    }

    pub(super) fn received(&self, direction: Direction, bytes: usize) {
        self.counts(direction)[0].fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn sent(&self, direction: Direction, bytes: usize) {
        self.counts(direction)[1].fetch_add(bytes as u64, Ordering::Relaxed);
    }
}
