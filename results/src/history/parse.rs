//! Turns history text into typed lines, or says which line is wrong and what is allowed there.
//!
//! Decisions where a file could be read in two ways:
//!
//! - A line is exactly one of: a call (`op`), an end (`end`), an event (`event`).
//! - `null` is the same as an absent field. A field that a line of that kind does not have is ignored, whatever its type.
//! - Time must not go backwards from line to line; equal stamps are fine.
//! - An `id` names one operation at a time: a second call while the first is pending, and an end without a pending call,
//!   are bad lines. An `id` may come back after its end.
//! - The last line counts as torn if it is not JSON at all; JSON of a wrong form is a bad line there too. Empty lines are skipped.
//! - Names of grants are not followed here: whether a grant is known is the checkers' question.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Acquire, Call, End, Entry, Event, History, HistoryError, Line, Phase};

/// The largest fencing token, 2^63 − 1.
const TOKEN_MAX: u64 = i64::MAX as u64;

/// Every field that any line may have. Fast path: most lines are read straight into it.
#[derive(Deserialize, Default)]
struct Raw<'a> {
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

/// The type of a field, for messages and for the check of a line that the fast path refused.
#[derive(Clone, Copy)]
enum Type {
    Unsigned,
    Count,
    Signed,
    Bool,
    Text,
    Texts,
    Any,
}

impl Type {
    fn holds(self, value: &Value) -> bool {
        match self {
            Self::Unsigned => value.is_u64(),
            Self::Count => value.as_u64().is_some_and(|n| u32::try_from(n).is_ok()),
            Self::Signed => value.is_i64(),
            Self::Bool => value.is_boolean(),
            Self::Text => value.is_string(),
            Self::Texts => value
                .as_array()
                .is_some_and(|list| list.iter().all(Value::is_string)),
            Self::Any => true,
        }
    }

    fn allowed(self) -> &'static str {
        match self {
            Self::Unsigned => "a whole number from 0 to 2^64-1",
            Self::Count => "a whole number from 0 to 2^32-1",
            Self::Signed => "a whole number from -2^63 to 2^63-1",
            Self::Bool => "true or false",
            Self::Text => "a string",
            Self::Texts => "a list of strings",
            Self::Any => "anything",
        }
    }
}

type Fields = &'static [(&'static str, Type)];

const ACQUIRE: Fields = &[
    ("id", Type::Unsigned),
    ("op", Type::Text),
    ("client", Type::Text),
    ("owner", Type::Text),
    ("lock", Type::Text),
    ("locks", Type::Texts),
    ("kind", Type::Text),
    ("lease_ms", Type::Unsigned),
    ("wait_ms", Type::Unsigned),
    ("permits", Type::Count),
];
const EXTEND: Fields = &[
    ("id", Type::Unsigned),
    ("op", Type::Text),
    ("grant", Type::Text),
    ("lease_ms", Type::Unsigned),
    ("by", Type::Text),
];
const RELEASE: Fields = &[
    ("id", Type::Unsigned),
    ("op", Type::Text),
    ("grant", Type::Text),
];
const END: Fields = &[
    ("id", Type::Unsigned),
    ("end", Type::Text),
    ("grant", Type::Text),
    ("token", Type::Unsigned),
    ("sent_ns", Type::Unsigned),
    ("error", Type::Any),
];
const LOST: Fields = &[
    ("event", Type::Text),
    ("grant", Type::Text),
    ("reason", Type::Any),
    ("at_ns", Type::Unsigned),
];
const WRITE: Fields = &[
    ("event", Type::Text),
    ("lock", Type::Text),
    ("grant", Type::Text),
    ("token", Type::Unsigned),
    ("accepted", Type::Bool),
    ("read", Type::Signed),
    ("wrote", Type::Signed),
];
const FAULT: Fields = &[
    ("event", Type::Text),
    ("fault", Type::Text),
    ("targets", Type::Texts),
    ("span", Type::Unsigned),
    ("phase", Type::Text),
];
const CRASH: Fields = &[("event", Type::Text), ("client", Type::Text)];
const PROBE: Fields = &[
    ("event", Type::Text),
    ("lock", Type::Text),
    ("ok", Type::Bool),
];
const CLIENT: Fields = &[
    ("event", Type::Text),
    ("client", Type::Text),
    ("watchdog_ms", Type::Unsigned),
];

impl Line {
    /// Reads one line by itself; pairing and order are [`History::parse`]'s work.
    ///
    /// # Errors
    /// Not JSON, not an object, or fields that are missing, of a wrong type or out of range. The error's `line` is 1.
    pub fn parse(text: &str) -> Result<Self, HistoryError> {
        Self::parse_bytes(text.as_bytes())
    }

    fn parse_bytes(text: &[u8]) -> Result<Self, HistoryError> {
        // A list would be read into the struct by position.
        if !text.trim_ascii_start().starts_with(b"{") {
            return closer(text);
        }
        match serde_json::from_slice::<Raw<'_>>(text) {
            Ok(raw) if raw.is_plain() => raw.line(),
            Err(error) if error.to_string().starts_with("duplicate field") => Err(not_json(&error)),
            _ => closer(text),
        }
    }
}

/// Reads a line that the fast path could not, or must not, read: with the name and type of each field that its kind has.
fn closer(text: &[u8]) -> Result<Line, HistoryError> {
    let value: Value = serde_json::from_slice(text).map_err(|error| not_json(&error))?;
    let Value::Object(object) = value else {
        return Err(HistoryError::new(shown(&value), "one JSON object per line"));
    };
    typed(&object, &[("t_ns", Type::Unsigned)])?;
    let word = |name: &str| -> Result<Option<&str>, HistoryError> {
        typed(&object, &[(field_name(name), Type::Text)])?;
        Ok(object.get(name).and_then(Value::as_str))
    };
    let fields = match (word("op")?, word("end")?, word("event")?) {
        (Some("extend"), None, None) => EXTEND,
        (Some("release"), None, None) => RELEASE,
        (Some(_), None, None) => ACQUIRE,
        (None, None, Some(event)) => match event_fields(event) {
            Some(fields) => fields,
            None => return other(object),
        },
        _ => END,
    };
    // Events that only this program writes: somebody else's event of that name need not have our form.
    if matches!(word("event")?, Some("probe" | "client")) && typed(&object, fields).is_err() {
        return other(object);
    }
    typed(&object, fields)?;
    let known = |name: &str| {
        matches!(name, "t_ns" | "op" | "end" | "event")
            || fields.iter().any(|(field, _)| *field == name)
    };
    let kept: Map<String, Value> = object
        .iter()
        .filter(|(name, _)| known(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    let kept = Value::Object(kept).to_string();
    let raw: Raw<'_> = serde_json::from_str(&kept).map_err(|error| not_json(&error))?;
    match raw.line() {
        Err(_) if matches!(word("event")?, Some("probe" | "client")) => other(object),
        line => line,
    }
}

/// The same name with a static lifetime, for the three words that tell what a line is.
fn field_name(name: &str) -> &'static str {
    match name {
        "op" => "op",
        "end" => "end",
        _ => "event",
    }
}

fn event_fields(event: &str) -> Option<Fields> {
    Some(match event {
        "lost" => LOST,
        "write" => WRITE,
        "fault" => FAULT,
        "crash" => CRASH,
        "probe" => PROBE,
        "client" => CLIENT,
        _ => return None,
    })
}

fn other(object: Map<String, Value>) -> Result<Line, HistoryError> {
    let t_ns = object.get("t_ns").and_then(Value::as_u64);
    Ok(Line {
        t_ns: t_ns.ok_or_else(|| missing("t_ns"))?,
        entry: Entry::Event(Event::Other(object)),
    })
}

fn typed(object: &Map<String, Value>, fields: &[(&'static str, Type)]) -> Result<(), HistoryError> {
    for (name, r#type) in fields {
        if let Some(value) = object.get(*name)
            && !value.is_null()
            && !r#type.holds(value)
        {
            return Err(HistoryError::new(
                format!("`{name}` is {}", shown(value)),
                r#type.allowed(),
            ));
        }
    }
    Ok(())
}

fn not_json(error: &serde_json::Error) -> HistoryError {
    let text = error.to_string();
    let found = text.split(" at line ").next().unwrap_or(&text);
    HistoryError {
        line: 1,
        column: (error.column() > 0).then(|| error.column()),
        found: found.to_owned(),
        allowed: "one JSON object per line, each field once".to_owned(),
    }
}

fn missing(name: &str) -> HistoryError {
    HistoryError::new(format!("no `{name}`"), format!("a line with `{name}`"))
}

/// A value for a message, cut short.
fn shown(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() <= 60 {
        return text;
    }
    let mut short: String = text.chars().take(60).collect();
    short.push('…');
    short
}

fn need<T>(value: Option<T>, name: &str) -> Result<T, HistoryError> {
    value.ok_or_else(|| missing(name))
}

fn words(value: Option<Value>) -> Option<String> {
    value.map(|value| match value {
        Value::String(text) => text,
        value => value.to_string(),
    })
}

impl Raw<'_> {
    /// Whether nothing of the line is needed beyond the fields here; unknown events are kept whole.
    fn is_plain(&self) -> bool {
        match self.event {
            Some(event) => matches!(event, "write" | "lost" | "fault" | "crash"),
            None => true,
        }
    }

    fn line(self) -> Result<Line, HistoryError> {
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
                    (None, None) => return Err(missing("lock")),
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

/// Which operation an `id` stands for while it is pending.
#[derive(Clone, Copy, PartialEq)]
enum Op {
    Acquire,
    Extend,
    Release,
}

/// Follows order and pairing from line to line.
#[derive(Default)]
struct Sequence {
    last_ns: u64,
    pending: HashMap<u64, Op>,
}

impl Sequence {
    fn take(&mut self, line: &Line) -> Result<(), HistoryError> {
        if line.t_ns < self.last_ns {
            return Err(HistoryError::new(
                format!("`t_ns` is {} after {}", line.t_ns, self.last_ns),
                "lines in order of `t_ns`",
            ));
        }
        self.last_ns = line.t_ns;
        match &line.entry {
            Entry::Call { id, call } => {
                let op = match call {
                    Call::Acquire(_) => Op::Acquire,
                    Call::Extend { .. } => Op::Extend,
                    Call::Release { .. } => Op::Release,
                };
                if self.pending.insert(*id, op).is_some() {
                    return Err(HistoryError::new(
                        format!("a second call with `id` {id} while the first is pending"),
                        "an `id` of its own for each operation",
                    ));
                }
            }
            Entry::End { id, end } => {
                let Some(op) = self.pending.remove(id) else {
                    return Err(HistoryError::new(
                        format!("an end with `id` {id} without a pending call"),
                        "one end after each call, with its `id`",
                    ));
                };
                Self::fits(op, end)?;
            }
            Entry::Event(_) => {}
        }
        Ok(())
    }

    /// Whether an ending is one that this operation can have.
    fn fits(op: Op, end: &End) -> Result<(), HistoryError> {
        match (op, end) {
            (Op::Acquire, End::NotHeld) => Err(HistoryError::new(
                "`end` of an acquire is \"not_held\"",
                "\"ok\", \"busy\", \"failed\" or \"unknown\"",
            )),
            (Op::Extend | Op::Release, End::Busy) => Err(HistoryError::new(
                "`end` of an extend or release is \"busy\"",
                "\"ok\", \"not_held\", \"failed\" or \"unknown\"",
            )),
            (Op::Acquire, End::Ok { grant: None, .. }) => Err(HistoryError::new(
                "an acquire's \"ok\" without `grant`",
                "a `grant` that names the hold",
            )),
            _ => Ok(()),
        }
    }
}

impl History {
    /// Reads a whole file. A torn last line is dropped and [`torn`](Self::torn) is set, if a complete line precedes it.
    ///
    /// # Errors
    /// The first bad line, with its number; or a file without any complete line.
    pub fn parse(text: &str) -> Result<Self, HistoryError> {
        Self::parse_bytes(text.as_bytes())
    }

    /// As [`parse`](Self::parse), of bytes: a line torn inside a character is a torn line too.
    ///
    /// # Errors
    /// As [`parse`](Self::parse).
    pub fn parse_bytes(text: &[u8]) -> Result<Self, HistoryError> {
        let mut reader = Reader::default();
        for line in text.split(|byte| *byte == b'\n') {
            reader.line(line)?;
        }
        reader.finish()
    }
}

/// Takes a file line by line, so that nobody needs the whole text at once.
#[derive(Default)]
pub(crate) struct Reader {
    sequence: Sequence,
    lines: Vec<Line>,
    number: usize,
    /// A line that is not JSON: torn if it stays the last, else bad.
    doubtful: Option<HistoryError>,
}

impl Reader {
    /// Takes the next line, without its end.
    ///
    /// # Errors
    /// The line, or one before it, is bad.
    pub(crate) fn line(&mut self, text: &[u8]) -> Result<(), HistoryError> {
        self.number += 1;
        if text.iter().all(u8::is_ascii_whitespace) {
            return Ok(());
        }
        if let Some(error) = self.doubtful.take() {
            return Err(error);
        }
        match Line::parse_bytes(text) {
            Ok(line) => {
                self.sequence
                    .take(&line)
                    .map_err(|error| error.at(self.number))?;
                self.lines.push(line);
            }
            Err(error) if !self.lines.is_empty() && !is_json(text) => {
                self.doubtful = Some(error.at(self.number));
            }
            Err(error) => return Err(error.at(self.number)),
        }
        Ok(())
    }

    /// The history of all lines that were taken.
    ///
    /// # Errors
    /// There was no complete line.
    pub(crate) fn finish(self) -> Result<History, HistoryError> {
        if self.lines.is_empty() {
            return Err(HistoryError::new("no complete line", "at least one JSON object").at(0));
        }
        Ok(History {
            torn: self.doubtful.is_some(),
            ..History::from_lines(self.lines)
        })
    }
}

fn is_json(line: &[u8]) -> bool {
    serde_json::from_slice::<serde::de::IgnoredAny>(line).is_ok()
        && std::str::from_utf8(line).is_ok()
}
