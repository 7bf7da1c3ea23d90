//! Turns lines of the subject protocol, version 1, into typed values and back; both ends use it.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::{
    monotonic,
    subject::{AcquireEnd, ReleaseEnd},
};

/// The version that this build speaks.
pub(crate) const VERSION: u64 = 1;

/// A request as it is on the wire. Fields that an operation does not use are absent.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Request {
    pub(crate) id: u64,
    pub(crate) op: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) protocol: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) target: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) client: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) seed: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) options: Option<Options>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) lock: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) locks: Option<Locks>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) kind: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) owner: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) wait_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) lease_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) permits: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) grant: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) workload: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tasks: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) warmup_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) measure_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) hold_us: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) think_us: Option<u64>,
    /// What a load's lock names begin with; a driver may choose its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) prefix: Option<String>,
}

/// Names in `acquire`, how many of them in `load`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Locks {
    Names(Vec<String>),
    Count(u32),
}

/// What the harness asks of a driver beside the target. A driver may ignore all of it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Options {
    /// `none`, `wait:K`, `wait:all`; absent: the library's own default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) durability: Option<String>,
    /// Lease of renewed locks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) watchdog_ms: Option<u64>,
}

/// A reply or an event, as an object.
pub(crate) type Object = Map<String, Value>;

/// Whole milliseconds, rounded up: an age that is too long makes a hold shorter, which can hide but never invent an overlap.
pub(crate) fn age_ms(age: Duration) -> u64 {
    u64::try_from(age.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

/// A duration in whole milliseconds, rounded down but never to zero unless it is zero.
pub(crate) fn whole_ms(duration: Duration) -> u64 {
    let ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    if ms == 0 && !duration.is_zero() {
        1
    } else {
        ms
    }
}

/// The reply line to an acquire.
pub(crate) fn acquire_reply(id: u64, end: AcquireEnd) -> Value {
    match end {
        AcquireEnd::Ok {
            grant,
            token,
            sent_at,
            lease,
        } => {
            let mut ok = Map::new();
            ok.insert("grant".into(), grant.into());
            if let Some(token) = token {
                ok.insert("token".into(), token.into());
            }
            if let Some(sent_at) = sent_at {
                ok.insert("age_ms".into(), age_ms(sent_at.elapsed()).into());
                if let Some(ns) = monotonic::ns(sent_at) {
                    ok.insert("sent_mono_ns".into(), ns.into());
                }
            }
            if let Some(lease) = lease {
                ok.insert("lease_ms".into(), (lease.as_millis() as u64).into());
            }
            json!({"id": id, "ok": ok})
        }
        AcquireEnd::Busy => json!({"id": id, "busy": {}}),
        AcquireEnd::Failed(error) => failed(id, &error),
        AcquireEnd::Unknown(error) => json!({"id": id, "unknown": {"error": error}}),
    }
}

/// The reply line to a release or an extend.
pub(crate) fn release_reply(id: u64, end: ReleaseEnd) -> Value {
    match end {
        ReleaseEnd::Ok => json!({"id": id, "ok": {}}),
        ReleaseEnd::NotHeld => json!({"id": id, "not_held": {}}),
        ReleaseEnd::Failed(error) => failed(id, &error),
        ReleaseEnd::Unknown(error) => json!({"id": id, "unknown": {"error": error}}),
    }
}

/// The reply line of something that certainly did not happen.
pub(crate) fn failed(id: u64, error: &str) -> Value {
    json!({"id": id, "failed": {"error": error}})
}

/// The text of an ending, if it carries one.
pub(crate) fn error_text(body: &Value) -> String {
    body.get("error")
        .and_then(Value::as_str)
        .unwrap_or("the driver gave no reason")
        .to_owned()
}
