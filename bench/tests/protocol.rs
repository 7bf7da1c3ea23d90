//! The driver protocol's schema in the repository is that of the types, and its page knows every field.

use std::collections::BTreeSet;
use std::path::Path;

use bench::exec::json_schema;
use serde_json::Value;

fn docs(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/src").join(name)
}

#[test]
fn the_schema_in_the_repository_is_current() {
    let path = docs("driver-protocol.schema.json");
    if std::env::var_os("LOCKLAB_BLESS").is_some() {
        std::fs::write(&path, json_schema()).expect("the folder can be written");
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(
        kept,
        json_schema(),
        "write it again with `LOCKLAB_BLESS=1 cargo test -p bench --test protocol`"
    );
}

#[test]
fn the_page_names_every_field_of_the_schema() {
    let page = std::fs::read_to_string(docs("driver-protocol.md")).expect("the page");
    let schema: Value = serde_json::from_str(&json_schema()).expect("JSON");
    let mut fields = BTreeSet::new();
    collect(&schema, &mut fields);
    assert!(fields.contains("sent_mono_ns") && fields.contains("topologies"), "{fields:?}");
    for field in fields {
        let named = [format!("`{field}`"), format!("\"{field}\""), format!(".{field}`")];
        assert!(named.iter().any(|name| page.contains(name)), "the page does not name `{field}`");
    }
}

/// The names of all properties, at any depth.
fn collect(schema: &Value, fields: &mut BTreeSet<String>) {
    match schema {
        Value::Object(object) => {
            if let Some(Value::Object(properties)) = object.get("properties") {
                fields.extend(properties.keys().cloned());
            }
            object.values().for_each(|inner| collect(inner, fields));
        }
        Value::Array(list) => list.iter().for_each(|inner| collect(inner, fields)),
        _ => {}
    }
}
