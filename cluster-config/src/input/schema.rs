//! What the JSON schemas of all our files have in common.

use schemars::{JsonSchema, Schema};
use serde_json::Value;

/// A word, a number or yes/no.
#[derive(Debug, JsonSchema)]
#[serde(untagged)]
#[allow(dead_code, missing_docs, reason = "only its shape is used, and docs would be a part of it")]
pub enum Scalar {
    Text(String),
    Number(f64),
    Truth(bool),
}

/// Defaults stand in the descriptions, in a file's words.
pub fn without_defaults(schema: &mut Schema) {
    for (_, property) in schema.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten() {
        if let Value::Object(property) = property {
            property.remove("default");
        }
    }
}

/// The JSON schema of a file of this shape, pretty-printed, with a line feed at its end.
pub fn schema_of<T: JsonSchema>() -> String {
    let schema = schemars::schema_for!(T);
    let mut text = serde_json::to_string_pretty(&schema).expect("a schema is plain JSON");
    text.push('\n');
    text
}
