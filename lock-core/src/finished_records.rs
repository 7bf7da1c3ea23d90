//! Records of requests that were answered and never sent twice, so that nobody will ask for them again. They would end by
//! themselves; deleting them keeps a busy client from having an hour's worth of them.

use std::time::Duration;

use crate::sync::Mutex;

/// So many records are deleted together, or those of so long: what a client that is killed may leave of requests that were answered.
const SPENT: usize = 64;
pub(crate) const SPENT_LIFE: Duration = Duration::from_millis(250);

#[derive(Debug, Default)]
pub(crate) struct FinishedRecords(Mutex<Vec<Vec<u8>>>);

pub(crate) enum RecordsKept {
    /// This one alone: it is deleted a while later.
    First,
    More,
    /// They are deleted now.
    Enough,
}

impl FinishedRecords {
    pub(crate) fn add(&self, record: Vec<u8>) -> RecordsKept {
        let mut records = self.0.lock();
        records.push(record);
        match records.len() {
            SPENT.. => RecordsKept::Enough,
            1 => RecordsKept::First,
            _ => RecordsKept::More,
        }
    }

    pub(crate) fn take(&self) -> Vec<Vec<u8>> {
        std::mem::take(&mut *self.0.lock())
    }
}
