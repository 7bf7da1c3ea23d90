//! Turns the fields of one line into what it says, or into the field that is missing or has no meaning.

use serde::Deserialize;
use serde_json::Value;

use super::error::shown;
use super::{Acquire, Call, End, Entry, Event, HistoryError, Line, Phase};

/// The largest fencing token, 2^63 − 1.
const TOKEN_MAX: u64 = i64::MAX as u64;

/// Every field that any line may have. Fast path: most lines are read straight into it.
#[derive(Deserialize, Default)]
pub(super) struct Raw<'a> {
    t_ns: Option<u64>,
    id: Option<u64>,
    op: Option<&'a str>,
    end: Option<&'a str>,
    event: Option<&'a str>,
    client: Option<String>,
    owner: Option<String>,
    lock: Option<String>,
    locks: Option<Vec<String>>,
    kind: Option<String>,
    lease_ms: Option<u64>,
    wait_ms: Option<u64>,
    permits: Option<u32>,
    grant: Option<String>,
    by: Option<String>,
    token: Option<u64>,
    sent_ns: Option<u64>,
    at_ns: Option<u64>,
    error: Option<Value>,
    reason: Option<Value>,
    accepted: Option<bool>,
    read: Option<i64>,
    wrote: Option<i64>,
    fault: Option<String>,
    targets: Option<Vec<String>>,
    span: Option<u64>,
    phase: Option<&'a str>,
    ok: Option<bool>,
    watchdog_ms: Option<u64>,
}

fn need<T>(value: Option<T>, name: &str) -> Result<T, HistoryError> {
    value.ok_or_else(|| HistoryError::missing(name))
}

fn words(value: Option<Value>) -> Option<String> {
    value.map(|value| match value {
        Value::String(text) => text,
        value => value.to_string(),
    })
}

impl Raw<'_> {
    /// Whether nothing of the line is needed beyond the fields here; unknown events are kept whole.
    pub(super) fn is_plain(&self) -> bool {
        match self.event {
            Some(event) => matches!(event, "write" | "lost" | "fault" | "crash"),
            None => true,
        }
    }

    pub(super) fn line(self) -> Result<Line, HistoryError> {
        let t_ns = need(self.t_ns, "t_ns")?;
        if self.token.is_some_and(|token| token > TOKEN_MAX) {
            return Err(HistoryError::new(
                format!("`token` is {}", self.token.unwrap_or_default()),
                "a whole number from 0 to 2^63-1",
            ));
        }
        let entry = match (self.op, self.end, self.event) {
            (Some(_), None, None) => Entry::Call {
                id: need(self.id, "id")?,
                call: self.call()?,
            },
            (None, Some(_), None) => Entry::End {
                id: need(self.id, "id")?,
                end: self.ending()?,
            },
            (None, None, Some(_)) => Entry::Event(self.happened()?),
            (None, None, None) => {
                return Err(HistoryError::new(
                    "none of `op`, `end` and `event`",
                    "exactly one of them",
                ));
            }
            _ => {
                return Err(HistoryError::new(
                    "more than one of `op`, `end` and `event`",
                    "exactly one of them",
                ));
            }
        };
        Ok(Line { t_ns, entry })
    }

    fn call(self) -> Result<Call, HistoryError> {
        Ok(match self.op.unwrap_or_default() {
            "acquire" => Call::Acquire(Acquire {
                client: need(self.client, "client")?,
                owner: need(self.owner, "owner")?,
                locks: match (self.lock, self.locks) {
                    (Some(lock), None) => vec![lock],
                    (None, Some(locks)) if !locks.is_empty() => locks,
                    (None, Some(_)) => {
                        return Err(HistoryError::new("`locks` is []", "at least one lock"));
                    }
                    (Some(_), Some(_)) => {
                        return Err(HistoryError::new(
                            "both `lock` and `locks`",
                            "one of the two",
                        ));
                    }
                    (None, None) => return Err(HistoryError::missing("lock")),
                },
                kind: need(self.kind, "kind")?,
                lease_ms: self.lease_ms,
                wait_ms: self.wait_ms,
                permits: self.permits,
            }),
            "extend" => Call::Extend {
                grant: need(self.grant, "grant")?,
                lease_ms: need(self.lease_ms, "lease_ms")?,
                by: self.by,
            },
            "release" => Call::Release {
                grant: need(self.grant, "grant")?,
            },
            op => {
                return Err(HistoryError::new(
                    format!("`op` is {}", shown(&Value::from(op))),
                    "\"acquire\", \"extend\" or \"release\"",
                ));
            }
        })
    }

    fn ending(self) -> Result<End, HistoryError> {
        Ok(match self.end.unwrap_or_default() {
            "ok" => End::Ok {
                grant: self.grant,
                token: self.token,
                sent_ns: self.sent_ns,
                lease_ms: self.lease_ms,
            },
            "busy" => End::Busy,
            "not_held" => End::NotHeld,
            "failed" => End::Failed {
                error: words(self.error),
            },
            "unknown" => End::Unknown {
                error: words(self.error),
                grant: self.grant,
            },
            end => {
                return Err(HistoryError::new(
                    format!("`end` is {}", shown(&Value::from(end))),
                    "\"ok\", \"busy\", \"not_held\", \"failed\" or \"unknown\"",
                ));
            }
        })
    }

    fn happened(self) -> Result<Event, HistoryError> {
        Ok(match self.event.unwrap_or_default() {
            "lost" => Event::Lost {
                grant: need(self.grant, "grant")?,
                reason: words(self.reason),
                at_ns: self.at_ns,
            },
            "write" => Event::Write {
                lock: need(self.lock, "lock")?,
                grant: need(self.grant, "grant")?,
                token: self.token,
                accepted: need(self.accepted, "accepted")?,
                read: self.read,
                wrote: self.wrote,
            },
            "fault" => Event::Fault {
                fault: need(self.fault, "fault")?,
                targets: need(self.targets, "targets")?,
                span: need(self.span, "span")?,
                phase: match need(self.phase, "phase")? {
                    "inject" => Phase::Inject,
                    "heal" => Phase::Heal,
                    phase => {
                        return Err(HistoryError::new(
                            format!("`phase` is {}", shown(&Value::from(phase))),
                            "\"inject\" or \"heal\"",
                        ));
                    }
                },
            },
            "crash" => Event::Crash {
                client: need(self.client, "client")?,
            },
            "probe" => Event::Probe {
                lock: need(self.lock, "lock")?,
                ok: need(self.ok, "ok")?,
            },
            _ => Event::Client {
                client: need(self.client, "client")?,
                watchdog_ms: self.watchdog_ms,
            },
        })
    }
}
