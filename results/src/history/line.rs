//! Turns the text of one line into a typed line: straight where its form allows it, else field by field.

use serde_json::{Map, Value};

use super::error::shown;
use super::fields::{ACQUIRE, END, EXTEND, RELEASE, Type, event_fields, typed};
use super::raw::Raw;
use super::{Entry, Event, HistoryError, Line};

impl Line {
    /// Reads one line by itself; pairing and order are [`History::parse`](super::History::parse)'s work.
    ///
    /// # Errors
    /// Not JSON, not an object, or fields that are missing, of a wrong type or out of range. The error's `line` is 1.
    pub fn parse(text: &str) -> Result<Self, HistoryError> {
        Self::parse_bytes(text.as_bytes())
    }

    pub(super) fn parse_bytes(text: &[u8]) -> Result<Self, HistoryError> {
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

fn other(object: Map<String, Value>) -> Result<Line, HistoryError> {
    let t_ns = object.get("t_ns").and_then(Value::as_u64);
    Ok(Line {
        t_ns: t_ns.ok_or_else(|| HistoryError::missing("t_ns"))?,
        entry: Entry::Event(Event::Other(object)),
    })
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
