//! A plan as the text of a scenario file: with the same seed, that file gives the same plan.
//!
//! What was drawn is written as it came out: a fault on `any` names its node. Comments and defaults are not
//! written.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use cluster_config::TopologyKind;
use results::verdict::CLASSES;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{FaultParty, FaultSpec, FaultTrigger, OnMessage, Setting};
use crate::faults::{SettingKind, SettingSpec};
use crate::planning::plan::Plan;

/// The scenario file of a plan.
pub fn scenario_text(plan: &Plan) -> String {
    let mut text = String::new();
    let mut head = Map::new();
    head.insert("name".to_owned(), json!(plan.name));
    for (key, value) in [("about", &plan.about), ("claim", &plan.claim)] {
        if !value.is_empty() {
            head.insert(key.to_owned(), json!(value));
        }
    }
    section(&mut text, "", head);
    section(&mut text, "[topology]", topology(plan));
    section(&mut text, "[lock]", lock(plan));
    section(&mut text, "[load]", load(plan));
    for planned in &plan.faults {
        section(&mut text, "[[faults]]", fault(planned));
    }
    if !plan.hooks.is_empty() {
        section(&mut text, "[hooks]", object(&plan.hooks));
    }
    if !plan.expect.is_empty() {
        section(&mut text, "[expect]", object(&plan.expect));
    }
    let mut harms = plan.expect.iter();
    if let Some(inherent) = &plan.inherent
        && harms.any(|(class, word)| CLASSES.contains(&class.as_str()) && word != "clean")
    {
        let mut fields = object(inherent);
        fields.insert("inherent".to_owned(), json!(inherent.why));
        fields.remove("why");
        section(&mut text, "[audit]", fields);
    }
    text
}

fn section(text: &mut String, title: &str, values: Map<String, Value>) {
    if !title.is_empty() {
        let _ = write!(text, "\n{title}\n");
    }
    for (key, value) in values {
        if !value.is_null() {
            let _ = writeln!(text, "{key} = {}", inline(&value));
        }
    }
}

/// A value on one line. JSON's strings, numbers and lists are TOML's too, but for control characters, of
/// which none has a short form that TOML lacks.
fn inline(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let fields: Vec<String> = fields
                .iter()
                .filter(|(_, value)| !value.is_null())
                .map(|(key, value)| format!("{} = {}", Value::from(key.as_str()), inline(value)))
                .collect();
            format!("{{ {} }}", fields.join(", "))
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(inline).collect();
            format!("[{}]", items.join(", "))
        }
        other => other.to_string(),
    }
}

fn topology(plan: &Plan) -> Map<String, Value> {
    let topology = &plan.topology;
    let mut fields = object(topology);
    // A file may not give a count that its kind does not use.
    let counts: &[&str] = match topology.kind {
        TopologyKind::Sentinel => &["replicas", "sentinels"],
        TopologyKind::Cluster => &["shards", "replicas"],
        TopologyKind::Masters => &["masters", "replicas"],
        _ => &[],
    };
    for count in ["replicas", "masters", "shards", "sentinels"] {
        if !counts.contains(&count) {
            fields.remove(count);
        }
    }
    if topology.config.is_empty() {
        fields.remove("config");
    }
    fields.into_iter().map(|(key, value)| (key.replace('_', "-"), value)).collect()
}

pub(crate) fn object(value: &impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(value) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    }
}

/// A section of a plan, whose times are nanoseconds and say so in their names, in the words of a file.
pub(crate) fn as_in_a_file(section: &Map<String, Value>) -> Map<String, Value> {
    in_words(section, duration, "..")
}

/// A section of a plan with its times in words, and `to` between those of a range.
pub(crate) fn in_words(
    section: &Map<String, Value>,
    duration: fn(u64) -> String,
    to: &str,
) -> Map<String, Value> {
    let field = |(key, value): (&String, &Value)| {
        let name = key.strip_suffix("_ns");
        let word = match (value.as_u64(), value["min_ns"].as_u64(), value["max_ns"].as_u64()) {
            (Some(ns), ..) if name.is_some() => json!(duration(ns)),
            (_, Some(min), Some(max)) if min == max => json!(duration(min)),
            (_, Some(min), Some(max)) => json!(format!("{}{to}{}", duration(min), duration(max))),
            _ if value.is_null() && key == "lease_ns" => json!("renewed"),
            _ if value.is_null() => return None,
            _ => value.clone(),
        };
        Some((name.unwrap_or(key).to_owned(), word))
    };
    section.iter().filter_map(field).collect()
}

fn lock(plan: &Plan) -> Map<String, Value> {
    let mut fields = as_in_a_file(&object(&plan.lock));
    if plan.lock.kind.is_empty() {
        fields.remove("kind");
    }
    fields
}

fn load(plan: &Plan) -> Map<String, Value> {
    let load = &plan.load;
    let mut fields = as_in_a_file(&object(&load.does));
    for (key, count) in
        [("clients", load.clients.len()), ("tasks", load.tasks_per_client()), ("locks", load.locks.len())]
    {
        fields.insert(key.to_owned(), json!(count));
    }
    if load.does.mix == BTreeMap::from([(plan.lock.kind.clone(), 1)]) {
        fields.remove("mix");
    }
    fields
}

fn fault(planned: &FaultSpec) -> Map<String, Value> {
    let mut fields = Map::new();
    let mut put = |key: &str, value: Value| fields.insert(key.to_owned(), value);
    match &planned.when {
        FaultTrigger::AtNs(at_ns) => put("at", json!(duration(*at_ns))),
        FaultTrigger::AfterFirstGrant => put("after", json!("first-grant")),
        FaultTrigger::OnMessage(message) => put("when", json!(phrase(message))),
    };
    put("for", json!(planned.lasts_ns.map(duration)));
    put("fault", json!(planned.fault));
    put("on", json!(planned.on.to_string()));
    if !planned.with.is_empty() {
        let with = planned.with.iter().map(|(name, setting)| {
            // A share is kept as a word, and a file wants the number.
            let mut known = planned.kind().into_iter().flat_map(|kind| kind.settings);
            let is_share =
                |known: &SettingSpec| known.name == *name && matches!(known.kind, SettingKind::Share);
            let share = match setting {
                Setting::Text(word) if known.any(is_share) => word.parse::<f64>().ok(),
                _ => None,
            };
            (name.clone(), share.map_or(json!(setting), Value::from))
        });
        put("with", Value::Object(with.collect()));
    }
    fields
}

/// As a file says it: what a client receives is a reply.
fn phrase(message: &OnMessage) -> String {
    let reply = message.to.as_ref().is_some_and(FaultParty::is_client);
    let mut text = format!("{}th {}", message.nth, message.words);
    if reply {
        text.push_str(" reply");
    }
    for (side, party) in [("from", &message.from), ("to", &message.to)] {
        if let Some(party) = party {
            let _ = write!(text, " {side} {party}");
        }
    }
    text
}

/// In the largest unit that keeps it whole.
fn duration(ns: u64) -> String {
    let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us"), (1, "ns")];
    let unit = units.into_iter().find(|(length, _)| ns.is_multiple_of(*length));
    unit.map_or(format!("{ns}ns"), |(length, name)| format!("{}{name}", ns / length))
}
