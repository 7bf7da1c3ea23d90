//! The RCountDownLatch format: a number that is gone at nothing. Requests alone: nobody holds a latch.

use super::RecordedRequest;
use super::format::{ANSWER_LIFE, delete as delete_any, of_lock, of_record, script, with_record};
use crate::names::Names;
use crate::topology::{Request, Script};

static SET: Script = script!("set_latch", "speak");
static COUNT_DOWN: Script = script!("count_down", "speak");

/// Closes an open latch.
pub(crate) fn set(names: &Names, count: u32) -> RecordedRequest {
    with_record(names, |record| {
        of_record(&SET, names, record).arg(count.to_string()).telling(names).arg_ms(ANSWER_LIFE)
    })
}

pub(crate) fn count_down(names: &Names) -> RecordedRequest {
    with_record(names, |record| of_record(&COUNT_DOWN, names, record).telling(names).arg_ms(ANSWER_LIFE))
}

pub(crate) fn count(names: &Names) -> Request {
    of_lock("GET", names)
}

/// Opens it by taking it away.
pub(crate) fn delete(names: &Names) -> Request {
    delete_any(names, None)
}
