//! Bodies of requests and answers: JSON as Go's decoder takes it, as far as clients rely on that.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::ApiError;

/// Reads the first value of a body; what follows it is not looked at. Names are the same in upper and lower case, `null` is the
/// same as an absent member, and of several members of one name the last counts.
pub(super) fn read<T: DeserializeOwned + Default>(body: &[u8]) -> Result<T, ApiError> {
    let bad = |error: serde_json::Error| ApiError::bad_body(&error.to_string());
    let mut values = serde_json::Deserializer::from_slice(body).into_iter::<Value>();
    let value = values
        .next()
        .unwrap_or_else(|| Err(serde::de::Error::custom("EOF")));
    of(value.map_err(bad)?)
}

/// The same of a value that was read already.
pub(super) fn of<T: DeserializeOwned + Default>(value: Value) -> Result<T, ApiError> {
    let read = serde_json::from_value::<Option<T>>(lowered(value));
    let read = read.map_err(|error| ApiError::bad_body(&error.to_string()))?;
    Ok(read.unwrap_or_default())
}

fn lowered(value: Value) -> Value {
    match value {
        Value::Object(members) => members
            .into_iter()
            .map(|(name, value)| (name.to_ascii_lowercase(), lowered(value)))
            .collect(),
        Value::Array(list) => list.into_iter().map(lowered).collect(),
        value => value,
    }
}

pub(super) fn text(of: &impl Serialize) -> String {
    // Strings, numbers and maps by string: none of them can fail.
    serde_json::to_string(of).unwrap_or_default()
}
