//! Says which fields each kind of line has, and turns one of a wrong type into what is allowed there.

use serde_json::{Map, Value};

use super::HistoryError;
use super::error::shown;

/// The type of a field, for messages and for the check of a line that the fast path refused.
#[derive(Clone, Copy)]
pub(super) enum Type {
    Unsigned,
    Token,
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
            Self::Token => value.is_i64() && value.is_u64(),
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
            Self::Token => "a whole number from 0 to 2^63-1",
            Self::Count => "a whole number from 0 to 2^32-1",
            Self::Signed => "a whole number from -2^63 to 2^63-1",
            Self::Bool => "true or false",
            Self::Text => "a string",
            Self::Texts => "a list of strings",
            Self::Any => "anything",
        }
    }
}

pub(super) type Fields = &'static [(&'static str, Type)];

pub(super) const ACQUIRE: Fields = &[
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
pub(super) const EXTEND: Fields = &[
    ("id", Type::Unsigned),
    ("op", Type::Text),
    ("grant", Type::Text),
    ("lease_ms", Type::Unsigned),
    ("by", Type::Text),
];
pub(super) const RELEASE: Fields = &[
    ("id", Type::Unsigned),
    ("op", Type::Text),
    ("grant", Type::Text),
];
pub(super) const END: Fields = &[
    ("id", Type::Unsigned),
    ("end", Type::Text),
    ("grant", Type::Text),
    ("token", Type::Token),
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
    ("token", Type::Token),
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

pub(super) fn event_fields(event: &str) -> Option<Fields> {
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

pub(super) fn typed(
    object: &Map<String, Value>,
    fields: &[(&'static str, Type)],
) -> Result<(), HistoryError> {
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
