//! Idempotency records of requests that were answered and sent once: nobody will read them again. They expire
//! by themselves, after an hour; the next request to their server deletes them in its own write, so that a
//! client that is killed leaves no more than those of its last answers.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use super::Request;
use crate::sync::Mutex;

#[derive(Debug, Default)]
pub(crate) struct FinishedRecords {
    /// With the slot of each in a cluster, else 0: one request reaches one slot.
    records: Mutex<Vec<(u16, Vec<u8>)>>,
    /// For requests, of which most find none.
    are_there: AtomicBool,
    are_timed: AtomicBool,
}

impl FinishedRecords {
    /// True if somebody is to call [`deletions`](Self::deletions) in a while, for when no request follows.
    pub(crate) fn add(&self, slot: u16, record: Vec<u8>) -> bool {
        self.records.lock().push((slot, record));
        self.are_there.store(true, Ordering::Release);
        !self.are_timed.swap(true, Ordering::AcqRel)
    }

    /// As `deletions`, when the while is over.
    pub(crate) fn timed_deletions(&self) -> Vec<Request> {
        self.are_timed.store(false, Ordering::Release);
        self.deletions()
    }

    /// What deletes them, for each slot alone.
    pub(crate) fn deletions(&self) -> Vec<Request> {
        let mut by_slot: BTreeMap<u16, Request> = BTreeMap::new();
        if self.are_there.load(Ordering::Acquire) && self.are_there.swap(false, Ordering::AcqRel) {
            for (slot, record) in std::mem::take(&mut *self.records.lock()) {
                let request = by_slot.remove(&slot).unwrap_or_else(|| Request::new("UNLINK"));
                by_slot.insert(slot, request.key(&record));
            }
        }
        by_slot.into_values().collect()
    }
}
