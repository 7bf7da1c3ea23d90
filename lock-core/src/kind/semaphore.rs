//! The RSemaphore format: a number of free permits that belong to nobody.

use std::time::Duration;

use redis::Value;

use super::RecordedRequest;
use super::format::{
    ANSWER_LIFE, LockFormat, LockRequest, Reply, UNDONE_LIFE, of_lock, of_record, script, with_record,
};
use crate::names::Names;
use crate::topology::{Request, Script};

static ACQUIRE: Script = script!("acquire_semaphore").given_back_by(&ADD);
static ADD: Script = script!("add_semaphore", "speak");
static UNDO: Script = script!("undo_semaphore", "speak").alone();
static SET: Script = script!("set_semaphore", "speak");
static DRAIN: Script = script!("drain_semaphore");

/// What the acquire script answers for an acquire that was undone before.
const SETTLED: i64 = -3;

/// RSemaphore's format.
#[derive(Debug)]
pub(crate) struct Semaphore;

impl LockFormat for Semaphore {
    fn acquire(&self, ask: &LockRequest<'_>) -> Request {
        let request =
            of_record(&ACQUIRE, ask.names, &record_of_acquire(ask.names, ask.id.unwrap_or_default()))
                .arg(ask.count.to_string())
                .arg_ms(ANSWER_LIFE)
                .arg(ask.not_after.unwrap_or(0).to_string());
        if ask.repeated { request.arg(b"again") } else { request }
    }

    fn read_acquire(&self, value: &Value) -> Option<Reply> {
        match (value, value.as_sequence()) {
            (_, Some([Value::Int(left), Value::Int(now)])) => {
                Some(Reply::Admitted { more: *left > 0, server_ms: u64::try_from(*now).ok() })
            }
            (_, Some([Value::Int(now)])) => Some(Reply::Late { server_ms: u64::try_from(*now).ok()? }),
            (Value::Int(SETTLED), _) => Some(Reply::Settled),
            (Value::Int(-1), _) => Some(Reply::Busy { left: None }),
            _ => None,
        }
    }

    /// Gives back what one acquire took. Permits given by number have no acquire of their own: see `add`.
    fn release(&self, ask: &LockRequest<'_>) -> Request {
        of_record(&UNDO, ask.names, &record_of_acquire(ask.names, ask.id.unwrap_or_default()))
            .arg(ask.count.to_string())
            .telling(ask.names)
            .arg_ms(UNDONE_LIFE)
    }

    fn look(&self, names: &Names) -> Request {
        of_lock("GET", names)
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn undo_life(&self) -> Option<Duration> {
        Some(ANSWER_LIFE)
    }

    fn taken(&self) -> &'static str {
        "too few permits are free"
    }
}

pub(crate) fn record_of_acquire(names: &Names, id: u128) -> Vec<u8> {
    names.record("redisson_acquire_latch", id)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MissingCounter {
    /// One begins, without an end.
    Begins,
    /// It has ended, and what was taken of it with it.
    Stays,
}

pub(crate) fn add(names: &Names, count: i64, absent: MissingCounter) -> RecordedRequest {
    with_record(names, |record| {
        let request =
            of_record(&ADD, names, record).arg(count.to_string()).telling(names).arg_ms(ANSWER_LIFE);
        match absent {
            MissingCounter::Begins => request,
            MissingCounter::Stays => request.arg(b"there"),
        }
    })
}

pub(crate) fn set(names: &Names, count: u32, life: Option<Duration>) -> RecordedRequest {
    with_record(names, |record| {
        let request =
            of_record(&SET, names, record).arg(count.to_string()).telling(names).arg_ms(ANSWER_LIFE);
        match life {
            Some(life) => request.arg_ms(life),
            None => request,
        }
    })
}

pub(crate) fn drain(names: &Names) -> RecordedRequest {
    with_record(names, |record| of_record(&DRAIN, names, record).arg_ms(ANSWER_LIFE))
}
