//! The RPermitExpirableSemaphore format: a number of free permits, and held ids with their ends.

use std::time::Duration;

use redis::Value;

use super::RecordedRequest;
use super::format::{
    ANSWER_LIFE, LockFormat, LockRequest, ReleaseAnswer, Reply, delete, left, of_lock, script, with_record,
};
use crate::locks::permit_id::PermitId;
use crate::names::Names;
use crate::topology::{Request, Script};

static ACQUIRE: Script = script!("acquire_permits", "speak", "permits").given_back_by(&RELEASE);
static RELEASE: Script = script!("release_permits", "speak", "permits");
static LEASE: Script = script!("lease_permit", "speak", "permits");
static SET: Script = script!("set_permits", "speak", "permits");
static COUNT: Script = script!("count_permits", "speak", "permits");
static LIST: Script = script!("list_permits", "speak", "permits");
static EXTEND: Script = script!("extend_permits");

/// A look that finds expired permits notifies those who listen in either way.
const EVERYBODY: &[u8] = b"BOTH";

/// RPermitExpirableSemaphore's format.
#[derive(Debug)]
pub(crate) struct Permits;

impl LockFormat for Permits {
    fn acquire(&self, ask: &LockRequest<'_>) -> Request {
        with_keys(&ACQUIRE, ask.names)
            .arg_ms(ask.lease)
            .arg(ask.names.publish)
            .arg(raw(ask.owner))
            .arg(&ask.names.channel)
    }

    fn read_acquire(&self, value: &Value) -> Option<Reply> {
        match (value, value.as_sequence()) {
            (_, Some([Value::Int(free)])) => Some(Reply::Admitted { more: *free > 0, server_ms: None }),
            (Value::Int(ends_ms), _) => Some(Reply::Busy { left: left(*ends_ms) }),
            _ => None,
        }
    }

    fn release(&self, ask: &LockRequest<'_>) -> Request {
        with_keys(&RELEASE, ask.names).arg(ask.names.publish).arg(raw(ask.owner)).arg(&ask.names.channel)
    }

    fn read_release(&self, value: &Value) -> Option<ReleaseAnswer> {
        match value {
            Value::BulkString(each) if each.contains(&b'0') => Some(ReleaseAnswer::Absent),
            Value::BulkString(_) => Some(ReleaseAnswer::Freed),
            _ => None,
        }
    }

    fn extend_script(&self) -> &'static Script {
        &EXTEND
    }

    fn extend_keys(&self, ask: &LockRequest<'_>, request: Request) -> Request {
        request.key(held_key(ask.names))
    }

    fn extend_arg(&self, ask: &LockRequest<'_>, request: Request) -> Request {
        request.arg(raw(ask.owner))
    }

    fn look(&self, names: &Names) -> Request {
        with_keys(&COUNT, names).arg(EVERYBODY).arg(&names.channel)
    }

    fn force_release(&self, names: &Names) -> Request {
        delete(names, Some(&held_key(names)))
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn taken(&self) -> &'static str {
        "too few permits are free"
    }
}

pub(crate) fn give(names: &Names, permits: &[PermitId]) -> RecordedRequest {
    let ids: Vec<u8> = permits.iter().flat_map(|permit| permit.0).collect();
    with_record(names, |record| {
        with_keys(&RELEASE, names)
            .key(record)
            .arg(names.publish)
            .arg(&ids)
            .arg_ms(ANSWER_LIFE)
            .arg(&names.channel)
    })
}

pub(crate) fn lease(names: &Names, permit: PermitId, lease: Duration) -> Request {
    with_keys(&LEASE, names).arg(names.publish).arg_ms(lease).arg(permit.0).arg(&names.channel)
}

/// How many there are: `begin` where there is none yet, `set` to so many, held ones included, or `add`.
pub(crate) fn change(names: &Names, how: &'static str, number: i64) -> RecordedRequest {
    with_record(names, |record| {
        with_keys(&SET, names)
            .key(record)
            .arg(names.publish)
            .arg_ms(ANSWER_LIFE)
            .arg(how)
            .arg(number.to_string())
            .arg(&names.channel)
    })
}

pub(crate) fn list(names: &Names) -> Request {
    with_keys(&LIST, names).arg(EVERYBODY).arg(&names.channel)
}

fn held_key(names: &Names) -> String {
    names.suffixed("timeout")
}

fn with_keys(script: &'static Script, names: &Names) -> Request {
    of_lock(script, names).key(held_key(names))
}

/// The ids as a server has them: 16 bytes each.
fn raw(ids: &str) -> Vec<u8> {
    PermitId::read_all(ids).iter().flat_map(|permit| permit.0).collect()
}
