//! Reads and writes one line: an object whose `op`, `end` or `event` names what its other fields are.

use std::borrow::Cow;

use serde::de::value::{EnumAccessDeserializer, StrDeserializer};
use serde::de::{DeserializeSeed, Deserializer, EnumAccess, Error as _, VariantAccess, Visitor};
use serde::{Deserialize, Serialize, de};
use serde_json::{Error, Value};

use super::{Call, Entry, Event, HistoryError, Line};

impl Line {
    /// Reads one line by itself; pairing and order are [`History::parse`](super::History::parse)'s work.
    pub fn parse(text: &str) -> Result<Self, HistoryError> {
        Self::parse_bytes(text.as_bytes())
    }

    pub(super) fn parse_bytes(text: &[u8]) -> Result<Self, HistoryError> {
        // A list would be read into the struct by position.
        if !text.trim_ascii_start().starts_with(b"{") {
            return Err(HistoryError::new(shown(&whole::<Value>(text)?), "one JSON object per line"));
        }
        let head: Head<'_> = whole(text)?;
        let id = || head.id.ok_or_else(|| HistoryError::missing("id"));
        let entry = match (&head.op, &head.end, &head.event) {
            (Some(Word(op)), None, None) => {
                let call = tagged(op, text)?;
                check(&call)?;
                Entry::Call { id: id()?, call }
            }
            (None, Some(Word(end)), None) => Entry::End { end: tagged(end, text)?, id: id()? },
            (None, None, Some(Word(event))) => Entry::Event(happened(event, text)?),
            _ => {
                return Err(HistoryError::new(
                    "none or more than one of `op`, `end` and `event`",
                    "exactly one of them",
                ));
            }
        };
        let t_ns = head.t_ns;
        Ok(Line { t_ns, entry })
    }

    /// This line as one JSON object, without a line feed; [`Line::parse`] reads it back to the same value.
    ///
    /// A renewed lease and a wait without bound are written as `null`.
    pub fn to_json(&self) -> String {
        let t_ns = self.t_ns;
        match &self.entry {
            Entry::Call { id, call } => joined(&format!("{{\"t_ns\":{t_ns},\"id\":{id},\"op\":"), call),
            Entry::End { id, end } => joined(&format!("{{\"t_ns\":{t_ns},\"id\":{id},\"end\":"), end),
            Entry::Event(Event::Other(fields)) => {
                let mut fields = fields.clone();
                fields.insert("t_ns".to_owned(), Value::from(t_ns));
                Value::Object(fields).to_string()
            }
            Entry::Event(event) => joined(&format!("{{\"t_ns\":{t_ns},\"event\":"), event),
        }
    }
}

/// Puts what serde makes of an enum, `{"lost":{"grant":"g9"}}` or `"busy"`, behind the beginning of a line.
fn joined(begin: &str, said: &impl Serialize) -> String {
    // Strings, numbers and lists of strings: none of them can fail.
    let said = serde_json::to_string(said).unwrap_or_default();
    match said.strip_prefix('{').and_then(|said| said.split_once(':')) {
        Some((word, "{}}")) => format!("{begin}{word}}}"),
        Some((word, fields)) => format!("{begin}{word},{}", &fields[1..fields.len() - 1]),
        None => format!("{begin}{said}}}"),
    }
}

/// What tells the lines apart. Everything else is the named thing's own.
#[derive(Deserialize)]
struct Head<'a> {
    t_ns: u64,
    id: Option<u64>,
    #[serde(borrow)]
    op: Option<Word<'a>>,
    #[serde(borrow)]
    end: Option<Word<'a>>,
    #[serde(borrow)]
    event: Option<Word<'a>>,
}

#[derive(Deserialize)]
struct Word<'a>(#[serde(borrow)] Cow<'a, str>);

/// The beginning of the error for a word that names nothing; no field's error begins so.
const UNKNOWN: &str = "no such line: ";

/// An event of this program's own, or one that is kept as it is.
fn happened(event: &str, text: &[u8]) -> Result<Event, HistoryError> {
    match tagged(event, text) {
        // Events that only this program writes: another program's event of that name need not have this form.
        Err(error) if error.found.contains(UNKNOWN) || matches!(event, "probe" | "client" | "clock") => {
            Ok(Event::Other(whole(text)?))
        }
        event => event,
    }
}

fn check(call: &Call) -> Result<(), HistoryError> {
    let Call::Acquire(acquire) = call else {
        return Ok(());
    };
    match (&acquire.lock, acquire.locks.as_deref()) {
        (Some(_), Some(_)) => Err(HistoryError::new("both `lock` and `locks`", "one of the two")),
        (None, None) => Err(HistoryError::missing("lock")),
        (None, Some([])) => Err(HistoryError::new("`locks` is []", "at least one lock")),
        _ => Ok(()),
    }
}

fn whole<'de, T: Deserialize<'de>>(text: &'de [u8]) -> Result<T, HistoryError> {
    serde_json::from_slice(text).map_err(|error| refused(&error, text))
}

/// The variant that a word names, with its fields out of the whole line.
fn tagged<'de, T: Deserialize<'de>>(word: &'de str, text: &'de [u8]) -> Result<T, HistoryError> {
    T::deserialize(EnumAccessDeserializer::new(Tagged { word, text })).map_err(|error| refused(&error, text))
}

/// What serde says of a line, with the field that it means.
fn refused(error: &Error, line: &[u8]) -> HistoryError {
    let field = key_before(line, error.column()).filter(|_| error.is_data());
    let text = error.to_string();
    let text = text.split(" at line ").next().unwrap_or_default();
    let (found, allowed) = text.split_once(", expected ").unwrap_or((text, ""));
    let field = field.filter(|_| !found.contains(" field `"));
    HistoryError {
        line: 1,
        column: (error.column() > 0).then(|| error.column()),
        found: field.map_or_else(|| found.to_owned(), |field| format!("`{field}`: {found}")),
        allowed: match allowed {
            "" => "one JSON object per line, each field once".to_owned(),
            allowed => allowed.to_owned(),
        },
    }
}

/// The last key before a column.
fn key_before(line: &[u8], column: usize) -> Option<String> {
    let (mut key, mut rest) = (None, &line[..column.min(line.len())]);
    while let Some(quote) = rest.iter().position(|byte| *byte == b'"') {
        let mut words = serde_json::Deserializer::from_slice(&rest[quote..]).into_iter::<String>();
        let Some(Ok(word)) = words.next() else {
            break;
        };
        rest = &rest[quote + words.byte_offset()..];
        if rest.trim_ascii_start().starts_with(b":") {
            key = Some(word);
        }
    }
    key
}

/// A token is a number that fits a signed integer.
pub(super) fn token<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    let token = Option::<u64>::deserialize(from)?;
    match token.filter(|token| i64::try_from(*token).is_err()) {
        Some(token) => {
            Err(D::Error::invalid_value(de::Unexpected::Unsigned(token), &"a whole number from 0 to 2^63-1"))
        }
        None => Ok(token),
    }
}

/// Words, or any other JSON as it is written.
pub(super) fn words<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    let said = Option::<Value>::deserialize(from)?;
    Ok(said.map(|said| match said {
        Value::String(text) => text,
        said => said.to_string(),
    }))
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

/// A line as serde's data: an enum whose variant is named by a word, and whose fields are those of the whole
/// line. Serde's own tagged enums copy every field until the tag, and forget where an error was.
#[derive(Clone, Copy)]
struct Tagged<'de> {
    word: &'de str,
    text: &'de [u8],
}

impl<'de> EnumAccess<'de> for Tagged<'de> {
    type Error = Error;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Error> {
        let word: StrDeserializer<'_, de::value::Error> = de::IntoDeserializer::into_deserializer(self.word);
        Ok((seed.deserialize(word).map_err(|error| Error::custom(format!("{UNKNOWN}{error}")))?, self))
    }
}

impl<'de> VariantAccess<'de> for Tagged<'de> {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Error> {
        seed.deserialize(&mut serde_json::Deserializer::from_slice(self.text))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, _: V) -> Result<V::Value, Error> {
        Err(Error::custom("a line has no list of values"))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        serde_json::Deserializer::from_slice(self.text).deserialize_any(visitor)
    }
}
