//! Turns the form of a scenario file into a JSON schema for editors.
//!
//! The types here say only what an editor can check. The parser reads the file by hand, because its messages need the
//! place of every value; a test holds the keys of the two together.

use std::collections::BTreeMap;

use cluster_config::input::{Scalar, schema_of};
use schemars::JsonSchema;

/// A scenario of locklab: servers, a lock, a load, faults, and what must come out.
#[derive(JsonSchema)]
#[schemars(rename = "Scenario", deny_unknown_fields)]
#[allow(dead_code, reason = "only its shape is used")]
struct File {
    /// Its name.
    name: String,
    /// A sentence for people.
    about: Option<String>,
    /// Where the expectation comes from.
    claim: Option<String>,
    topology: cluster_config::TopologyTable,
    lock: Option<LockTable>,
    load: Option<LoadTable>,
    #[serde(default)]
    faults: Vec<FaultTable>,
    /// Commands that carry faults out on somebody else's servers, by fault, and by fault with `-heal` for the undo. Split like a
    /// shell line, run without a shell; `{node}`, `{address}`, `{host}`, `{port}` and `{role}` are filled in.
    hooks: Option<BTreeMap<String, String>>,
    random: Option<RandomTable>,
    expect: Option<ExpectTable>,
}

/// The lock under test.
#[derive(JsonSchema)]
#[schemars(rename = "Lock", deny_unknown_fields)]
#[allow(dead_code, reason = "only its shape is used")]
struct LockTable {
    /// `lock-core:reentrant` (the default, but `lock-core:redlock` on `masters`), `baseline:…`, `broken:…`, `exec:PROGRAM ARG…`.
    subject: Option<String>,
    /// Where the subject has several; default: its first.
    kind: Option<String>,
    /// A duration, or `renewed` for the library's own renewal. Default 3s.
    lease: Option<String>,
    /// The lease that the library renews, where it lets it be chosen.
    watchdog: Option<String>,
    /// The longest wait of an acquire. Default 500ms.
    wait: Option<String>,
    /// `none`, `wait:K` or `wait:all`. Default none.
    durability: Option<String>,
    /// Permits of one acquire, for semaphores. Default 1.
    permits: Option<u32>,
}

/// What the clients do.
#[derive(JsonSchema)]
#[schemars(rename = "Load", deny_unknown_fields)]
#[allow(dead_code, reason = "only its shape is used")]
struct LoadTable {
    /// Client processes, each with its own connections and identity. Default 3.
    clients: Option<u32>,
    /// Tasks per client. Default 1.
    tasks: Option<u32>,
    /// Lock names. Default 1.
    locks: Option<u32>,
    /// How long a holder keeps the lock: a duration or a range such as `20ms..60ms`. Default 20ms.
    hold: Option<String>,
    /// Pause between two rounds of a task: a duration or a range. Default 5ms.
    think: Option<String>,
    /// Length of the load. Default 10s.
    duration: Option<String>,
    /// The load ends early, half a second after so many grants came since the last fault was injected and, where it has an end,
    /// healed. Default: never.
    enough: Option<u32>,
    /// Kinds by weight, for locks with two sides.
    mix: Option<BTreeMap<String, u32>>,
    /// Every holder extends by the full lease this often. Default: never.
    extend: Option<String>,
    /// Share of holds that take the lock once more inside, 0.0 to 1.0. Default 0.
    reenter: Option<f64>,
    /// How long a writer writes before it becomes a reader, without anybody in between. Default: never.
    downgrade: Option<String>,
    /// What the holder works on: `none`, `counter` or `register`. Default counter.
    protects: Option<String>,
}

/// A harm, when, for how long, and to whom.
#[derive(JsonSchema)]
#[schemars(rename = "Fault", deny_unknown_fields)]
#[allow(dead_code, reason = "only its shape is used")]
struct FaultTable {
    /// So long after the load began. Default 0s: before its first call.
    at: Option<String>,
    /// `first-grant`.
    after: Option<String>,
    /// A command on the wire.
    when: Option<String>,
    /// How long; absent: until the end.
    r#for: Option<String>,
    /// Its kind.
    #[schemars(extend("enum" = crate::faults::names()))]
    fault: String,
    /// A role, a node, a client, a link `A -> B`, or groups `A | B`. Default for faults on nodes: master.
    on: Option<String>,
    /// Its settings.
    with: Option<BTreeMap<String, SettingValue>>,
}

/// Faults that are drawn from the seed, all of them before anything starts.
#[derive(JsonSchema)]
#[schemars(rename = "Random", deny_unknown_fields)]
#[allow(dead_code, reason = "only its shape is used")]
struct RandomTable {
    /// Which: a list of faults, or a table of faults and weights.
    faults: RandomFaults,
    /// On what, each fault on one that it can act on; default: `any`.
    on: Option<OneOrMore>,
    /// From one injection to the next: a duration or a range. Default 1s..2s.
    every: Option<String>,
    /// How long each lasts: a duration or a range. Default 300ms..800ms.
    r#for: Option<String>,
    /// Never more of them than this at the same time. Default 1.
    #[schemars(rename = "at-once")]
    at_once: Option<u32>,
    /// Their settings, by fault.
    with: Option<BTreeMap<String, BTreeMap<String, SettingValue>>>,
}

/// Faults, evenly or by weight.
#[derive(JsonSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "only its shape is used")]
enum RandomFaults {
    Names(Vec<FaultName>),
    Weights(BTreeMap<String, u32>),
}

/// A fault of this build.
#[derive(JsonSchema)]
#[schemars(extend("enum" = crate::faults::names()))]
#[allow(dead_code, reason = "only its shape is used")]
struct FaultName(String);

/// One expression or a list of them.
#[derive(JsonSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "only its shape is used")]
enum OneOrMore {
    One(String),
    More(Vec<String>),
}

/// A word, a number, yes/no, or a list of words.
#[derive(JsonSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "only its shape is used")]
enum SettingValue {
    Scalar(Scalar),
    Words(Vec<Scalar>),
}

/// What must come out: `clean`, `violated` or `at-most N/min`. A verdict left out is reported, not judged.
#[derive(JsonSchema)]
#[schemars(rename = "Expect", deny_unknown_fields)]
#[allow(dead_code, reason = "only its shape is used")]
struct ExpectTable {
    belief: Option<String>,
    contract: Option<String>,
    confirmed: Option<String>,
    effect: Option<String>,
    liveness: Option<String>,
}

/// The JSON schema of a scenario file, pretty-printed, with a line feed at its end.
pub fn json_schema() -> String {
    schema_of::<File>()
}

#[cfg(test)]
mod tests {
    use super::super::{faults, parse, random};
    use cluster_config::input::schema_keys;

    #[test]
    fn parser_and_schema_know_the_same_keys() {
        let schema = super::json_schema();
        for (pointer, known) in [
            ("/properties", parse::TOP_KEYS.to_vec()),
            (
                "/$defs/Topology/properties",
                cluster_config::TOPOLOGY_KEYS.to_vec(),
            ),
            ("/$defs/Lock/properties", parse::LOCK_KEYS.to_vec()),
            ("/$defs/Load/properties", parse::LOAD_KEYS.to_vec()),
            ("/$defs/Fault/properties", faults::KEYS.to_vec()),
            ("/$defs/Random/properties", random::KEYS.to_vec()),
            (
                "/$defs/Expect/properties",
                results::verdict::CLASSES.to_vec(),
            ),
        ] {
            let mut known = known;
            known.sort_unstable();
            assert_eq!(
                schema_keys(&schema, pointer).expect(pointer),
                known,
                "{pointer}"
            );
        }
    }
}
