//! Idempotency records of requests that were answered and sent once: nobody will read them again. They expire
//! by themselves; deleting them keeps a busy client from leaving an hour's worth.

use std::time::Duration;

use crate::sync::Mutex;

/// Most records per deletion; fewer go after `BATCH_LIFE`. A killed client leaves no more than these.
const BATCH_MAX: usize = 64;
pub(crate) const BATCH_LIFE: Duration = Duration::from_millis(250);

#[derive(Debug, Default)]
pub(crate) struct FinishedRecords(Mutex<Vec<Vec<u8>>>);

pub(crate) enum RecordsKept {
    /// The first of a batch: start the timer of `BATCH_LIFE`.
    First,
    More,
    /// The batch is full: delete it now.
    Enough,
}

impl FinishedRecords {
    pub(crate) fn add(&self, record: Vec<u8>) -> RecordsKept {
        let mut records = self.0.lock();
        records.push(record);
        match records.len() {
            BATCH_MAX.. => RecordsKept::Enough,
            1 => RecordsKept::First,
            _ => RecordsKept::More,
        }
    }

    pub(crate) fn take(&self) -> Vec<Vec<u8>> {
        std::mem::take(&mut *self.0.lock())
    }
}
