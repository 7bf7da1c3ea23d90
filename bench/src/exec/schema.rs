//! The JSON Schema of the protocol's lines, made from the types that write and read them.

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::protocol::{ENDINGS, Event, Granted, HelloReply, Request};

/// The schema of one line in either direction, pretty-printed, with a line feed at its end; kept in the
/// repository as `docs/src/driver-protocol.schema.json`. It says which fields a line has and of what type;
/// which of them go together, the protocol's page says.
pub fn json_schema() -> String {
    let mut types = SchemaSettings::draft2020_12().into_generator();
    let request = types.subschema_for::<Request>();
    let event = types.subschema_for::<Event>();
    types.subschema_for::<HelloReply>();
    types.subschema_for::<Granted>();
    let mut parts: Map<String, Value> = types.take_definitions(true);
    parts.insert("Answer".to_owned(), answer());
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A line of the driver protocol, version 1",
        "oneOf": [request, event, {"$ref": "#/$defs/Answer"}],
        "$defs": parts,
    });
    serde_json::to_string_pretty(&schema).expect("plain JSON") + "\n"
}

/// An answer has exactly one ending; those that may stand under `ok` are listed among the parts by name.
fn answer() -> Value {
    let error = json!({
        "type": "object",
        "properties": {
            "error": {"type": "string"},
            "unreachable": {"type": "boolean", "description": "`hello`: no server answered."},
            "not_applicable": {"type": "boolean", "description": "`hello`: the library has nothing to lock with on such servers."},
        },
    });
    let body = |ending: &str| match ending {
        "failed" | "unknown" => error.clone(),
        "ok" => json!({
            "type": "object",
            "description": "To hello a HelloReply, to acquire a Granted, to held `held`, to block `blocked_ns`, to load its counts and histograms, else empty.",
        }),
        _ => json!({"type": "object"}),
    };
    let id = json!({"type": "integer", "minimum": 0, "description": "That of the request."});
    let bodies = ENDINGS.map(|ending| (ending.to_owned(), body(ending)));
    let fields: Map<String, Value> = bodies.into_iter().chain([("id".to_owned(), id)]).collect();
    json!({
        "description": "The driver's answer to a request.",
        "type": "object",
        "properties": fields,
        "required": ["id"],
        "oneOf": ENDINGS.map(|ending| json!({"required": [ending]})),
    })
}
