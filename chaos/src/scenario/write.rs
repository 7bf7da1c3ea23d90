//! Turns a plan back into the text of a scenario file: with the same seed, that file gives the same plan.
//!
//! What was drawn is written as it came out: a fault on `any` names its node. Comments and defaults are not written.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use cluster_config::TopologyKind;
use serde_json::{Map, Value, json};

use super::{OnMessage, Range, Setting, When, Who};
use crate::plan::{Plan, PlannedFault};

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
    if let Ok(Value::Object(hooks)) = serde_json::to_value(&plan.hooks)
        && hooks.values().any(|value| !value.is_null())
    {
        section(&mut text, "[hooks]", hooks);
    }
    if !plan.expect.is_empty() {
        let expect = plan.expect.iter();
        section(
            &mut text,
            "[expect]",
            expect
                .map(|(class, word)| (class.clone(), json!(word)))
                .collect(),
        );
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

/// A value on one line. JSON's strings, numbers and lists are TOML's too, but for control characters, of which none has a short form
/// that TOML lacks.
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
    let Ok(Value::Object(mut fields)) = serde_json::to_value(topology) else {
        return Map::new();
    };
    // A file may not give a count that its kind does not use.
    let counts: &[&str] = match topology.kind {
        TopologyKind::Single => &[],
        TopologyKind::Sentinel => &["replicas", "sentinels"],
        TopologyKind::Cluster => &["shards", "replicas"],
        TopologyKind::Masters => &["masters", "replicas"],
    };
    for count in ["replicas", "masters", "shards", "sentinels"] {
        if !counts.contains(&count) {
            fields.remove(count);
        }
    }
    if topology.config.is_empty() {
        fields.remove("config");
    }
    fields
}

fn lock(plan: &Plan) -> Map<String, Value> {
    let lock = &plan.lock;
    let mut fields = Map::new();
    let mut put = |key: &str, value: Value| fields.insert(key.to_owned(), value);
    put("subject", json!(lock.subject));
    if !lock.kind.is_empty() {
        put("kind", json!(lock.kind));
    }
    put(
        "lease",
        json!(lock.lease_ns.map_or("renewed".to_owned(), duration)),
    );
    put("watchdog", json!(lock.watchdog_ns.map(duration)));
    put("wait", json!(duration(lock.wait_ns)));
    put("durability", json!(lock.durability));
    if lock.permits != 1 {
        put("permits", json!(lock.permits));
    }
    fields
}

fn load(plan: &Plan) -> Map<String, Value> {
    let load = &plan.load;
    let tasks = load
        .clients
        .first()
        .map_or(1, |client| client.task_seeds.len());
    let own_kind_alone = BTreeMap::from([(plan.lock.kind.clone(), 1)]);
    let mut fields = Map::new();
    let mut put = |key: &str, value: Value| fields.insert(key.to_owned(), value);
    put("clients", json!(load.clients.len()));
    put("tasks", json!(tasks));
    put("locks", json!(load.locks.len()));
    put("hold", json!(range(load.hold)));
    put("think", json!(range(load.think)));
    put("duration", json!(duration(load.duration_ns)));
    put("enough", json!(load.enough));
    if load.mix != own_kind_alone {
        put("mix", json!(load.mix));
    }
    put("extend", json!(load.extend_ns.map(duration)));
    if load.reenter > 0.0 {
        put("reenter", json!(load.reenter));
    }
    if load.downgrade_ns.is_some() {
        put("downgrade", json!(load.downgrade_ns.map(duration)));
    }
    put("protects", json!(load.protects));
    fields
}

fn fault(planned: &PlannedFault) -> Map<String, Value> {
    let mut fields = Map::new();
    let mut put = |key: &str, value: Value| fields.insert(key.to_owned(), value);
    match &planned.when {
        When::AtNs(at_ns) => put("at", json!(duration(*at_ns))),
        When::AfterFirstGrant => put("after", json!("first-grant")),
        When::OnMessage(message) => put("when", json!(phrase(message))),
    };
    put("for", json!(planned.lasts_ns.map(duration)));
    put("fault", json!(planned.fault));
    put("on", json!(planned.on.to_string()));
    if !planned.with.is_empty() {
        let with = planned.with.iter().map(|(name, setting)| {
            let value = match setting {
                Setting::Text(word) => json!(word),
                Setting::Number(number) => json!(number),
                Setting::Words(words) => json!(words),
            };
            // A share is kept as a word, and a file wants the number.
            let share = crate::faults::find(&planned.fault).is_some_and(|kind| {
                let mut settings = kind.settings.iter();
                settings.any(|known| {
                    known.name == *name && matches!(known.kind, crate::faults::SettingKind::Share)
                })
            });
            let number = value.as_str().and_then(|word| word.parse::<f64>().ok());
            (
                name.clone(),
                number
                    .filter(|_| share)
                    .map_or(value, |number| json!(number)),
            )
        });
        put("with", Value::Object(with.collect()));
    }
    fields
}

/// As a file says it: what a client receives is a reply.
fn phrase(message: &OnMessage) -> String {
    let reply = message.to.as_ref().is_some_and(Who::is_client);
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

fn range(range: Range) -> String {
    if range.min_ns == range.max_ns {
        duration(range.min_ns)
    } else {
        format!("{}..{}", duration(range.min_ns), duration(range.max_ns))
    }
}

/// In the largest unit that keeps it whole.
fn duration(ns: u64) -> String {
    let units = [
        (1_000_000_000, "s"),
        (1_000_000, "ms"),
        (1_000, "us"),
        (1, "ns"),
    ];
    let unit = units
        .into_iter()
        .find(|(length, _)| ns.is_multiple_of(*length));
    unit.map_or(format!("{ns}ns"), |(length, name)| {
        format!("{}{name}", ns / length)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin::BUILTINS;
    use crate::scenario::Scenario;

    #[test]
    fn a_plan_of_every_scenario_comes_back_from_its_file() {
        for builtin in BUILTINS {
            let scenario =
                Scenario::parse(builtin.path, builtin.text).expect("the suite is in order");
            let plan = Plan::new(&scenario, 7);
            let text = scenario_text(&plan);
            let again = match Scenario::parse("written.toml", &text) {
                Ok(scenario) => Plan::new(&scenario, 7),
                Err(errors) => panic!("{}: {errors}\n{text}", builtin.name),
            };
            assert_eq!(again, plan, "{}\n{text}", builtin.name);
        }
    }

    #[test]
    fn durations_are_whole() {
        assert_eq!(duration(0), "0s");
        assert_eq!(duration(90_000_000_000), "90s");
        assert_eq!(duration(1_500_000_000), "1500ms");
        assert_eq!(duration(1_001), "1001ns");
    }
}
