//! The form of a scenario file: one type per section, from which its parser, its JSON schema and its writer
//! come.
//!
//! [`Lock`] and [`Load`] are in the plan as they are here. What needs the topology to be understood (`on`,
//! `when`, settings) stays text in these types, and is understood in [`parse`](super::parse).

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use bench::recorded::{Owners, Protects};
use bench::workload::{CycleShape, Workload};
use cluster_config::TopologyTable;
use cluster_config::input::{Scalar, nearest, schema_of, without_defaults, word};
use results::audit::{Inherent, InherentCause};
use results::verdict::CLASSES;
use schemars::JsonSchema;
use serde::de::value::{self, StrDeserializer};
use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::values::{self, Length, Range};
use crate::faults::FaultKind;
use crate::servers::hooks::{self, Hook, Hooks};

/// A scenario of locklab: servers, a lock, a load, faults, and what must come out.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[schemars(rename = "Scenario", transform = without_defaults, extend("required" = ["name", "topology"]))]
#[serde(default, deny_unknown_fields)]
pub(super) struct File {
    /// Its name.
    pub(super) name: String,
    /// A sentence for people.
    pub(super) about: String,
    /// Where the expectation comes from.
    pub(super) claim: String,
    pub(super) topology: TopologyTable,
    pub(super) lock: Lock,
    pub(super) load: Load,
    pub(super) faults: Vec<FaultTable>,
    /// Commands that carry faults out on somebody else's servers, by fault, and by fault with `-heal` for the
    /// undo. Split like a shell line, run without a shell; `{node}`, `{address}`, `{host}`, `{port}` and
    /// `{role}` are filled in.
    #[schemars(with = "BTreeMap<String, String>")]
    #[serde(deserialize_with = "hooks_by_fault")]
    pub(super) hooks: Hooks,
    pub(super) random: Option<RandomTable>,
    pub(super) expect: ExpectTable,
    pub(super) audit: Audit,
}

/// Reads the commands of a file by their names: a fault, or a fault with `-heal`.
fn hooks_by_fault<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Hooks, D::Error> {
    let hooks = BTreeMap::<HookName, Hook>::deserialize(deserializer)?;
    Ok(hooks.into_iter().map(|(HookName(name), hook)| (name, hook)).collect())
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct HookName(String);

impl<'de> Deserialize<'de> for HookName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        const ALLOWED: &str =
            "the name of a fault, as `locklab list faults` shows it, and the same with `-heal` for its undo";
        word(deserializer, ALLOWED, |word| {
            let names = crate::faults::names();
            match names.contains(&word.strip_suffix(hooks::HEAL).unwrap_or(word)) {
                true => Ok(Self(word.to_owned())),
                false => Err(format!("{ALLOWED}{}", nearest(word, names))),
            }
        })
    }
}

/// What an audit makes of the scenario, whatever the lock.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[schemars(transform = without_defaults)]
#[serde(default, deny_unknown_fields)]
pub struct Audit {
    /// Why no lock can keep here what `[expect]` says is violated: a sentence. Default: none, and another
    /// lock can.
    pub inherent: String,
    /// What stands behind it: `server-settings` (persistence, eviction, `appendfsync` …), `needs-fencing` or
    /// `no-lock`. Default no-lock.
    pub cause: InherentCause,
    /// What to change so that it does not happen: a sentence.
    pub remedy: String,
    /// The smallest suite that has the scenario: `quick`, `standard` or `full`. Default standard.
    pub suite: Suite,
    /// A sound lock, tried in the same run where another one comes out violated. Default: the scenario's own.
    pub twin: String,
    /// A broken lock that the scenario must convict: of what it expects to be clean, something is violated by
    /// this lock. Default: none is known.
    pub control: String,
    /// Features that a lock must list, or there is nothing to try, since a request cannot be made without
    /// them: `durability`, `extend` …
    pub needs: Vec<String>,
}

impl Audit {
    /// Why no lock keeps it; `None` where another one can.
    pub fn inherent(&self) -> Option<Inherent> {
        (!self.inherent.is_empty()).then(|| Inherent {
            cause: self.cause,
            why: self.inherent.clone(),
            remedy: self.remedy.clone(),
        })
    }
}

/// Which scenarios an audit has; each suite has those of the one before.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "the names say it")]
pub enum Suite {
    Quick,
    #[default]
    Standard,
    Full,
}

impl Suite {
    /// The names of all, the smallest first.
    pub const NAMES: [&'static str; 3] = ["quick", "standard", "full"];

    /// The suite of a name.
    pub fn of(name: &str) -> Result<Self, String> {
        Self::deserialize(StrDeserializer::<value::Error>::new(name)).map_err(|error| error.to_string())
    }
}

/// The lock under test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = without_defaults)]
#[serde(default, deny_unknown_fields)]
pub struct Lock {
    /// `lock-core:reentrant` (the default, but `lock-core:redlock` on `masters`), `baseline:…`, `broken:…`,
    /// `exec:PROGRAM ARG…`.
    pub subject: String,
    /// Where the subject has several; default: its first. In a plan, empty for a driver that says its kinds
    /// only when it is connected.
    pub kind: String,
    /// A duration, or `renewed` for the library's own renewal. Default 3s.
    #[schemars(with = "String")]
    #[serde(rename(serialize = "lease_ns"), deserialize_with = "values::lease")]
    pub lease: Option<Length>,
    /// The lease that the library renews, where it lets it be chosen.
    #[serde(rename(serialize = "watchdog_ns"))]
    pub watchdog: Option<Length>,
    /// The longest wait of an acquire. Default 500ms.
    #[serde(rename(serialize = "wait_ns"))]
    pub wait: Length,
    /// `none`, `wait:K`, `wait:majority`, `wait:all` or `waitaof:K`. Default none.
    #[serde(deserialize_with = "values::durability")]
    pub durability: String,
    /// Permits that there are, for semaphores. Default 1, or as many as `[load] workload` is about.
    #[serde(deserialize_with = "values::count::<_, 1_000_000>")]
    pub permits: u32,
}

impl Default for Lock {
    fn default() -> Self {
        Self {
            subject: String::new(),
            kind: String::new(),
            // Long enough for a hand-over on a loaded machine, short enough to wait for a crash.
            lease: Some(Length(Duration::from_secs(3))),
            watchdog: None,
            wait: Length(Duration::from_millis(500)),
            durability: "none".to_owned(),
            permits: 1,
        }
    }
}

/// So many client processes a machine can have.
pub(super) const CLIENTS_MAX: u32 = 100;

/// What the clients do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = without_defaults)]
#[serde(default, deny_unknown_fields)]
pub struct Load {
    /// Client processes, each with its own connections and identity. Default 3.
    #[serde(skip_serializing, deserialize_with = "values::count::<_, CLIENTS_MAX>")]
    pub clients: u32,
    /// Tasks per client. Default 1.
    #[serde(skip_serializing, deserialize_with = "values::count::<_, 10_000>")]
    pub tasks: u32,
    /// Lock names. Default 1; where `workload` is given, as many as it has in a benchmark: one for each task
    /// that takes locks of its own, 1000 to choose from, and so on. It has never fewer than it needs.
    #[serde(skip_serializing, deserialize_with = "values::count::<_, 10_000>")]
    pub locks: u32,
    /// Every master of a cluster has locks. Default: only the first, so that a fault on it touches them all.
    #[serde(skip_serializing_if = "is_default")]
    pub spread: bool,
    /// What a task does over and over, by the name of a workload that connects no clients of its own:
    /// `contended`, `chain`, `herd`, `zipf` …; it says which locks are taken and in which order of steps, and
    /// `mix` where that is not given. Default: uniform.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "values::workload")]
    pub workload: Option<String>,
    /// Cycles begin on a schedule, so many a second in all, such as `2000/s`, whether the lock keeps up or
    /// not; `80% of knee` is that share of what the same clients complete in a closed loop of two seconds,
    /// before the load. Default: each task begins a cycle when the one before is over.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "values::cycles")]
    pub rate: Option<String>,
    /// How long a holder keeps the lock: a duration or a range such as `20ms..60ms`. Default 20ms.
    pub hold: Range,
    /// Pause between two rounds of a task: a duration or a range. Default 5ms.
    pub think: Range,
    /// Length of the load. Default 10s.
    #[serde(rename(serialize = "duration_ns"))]
    pub duration: Length,
    /// The load ends early, half a second after so many grants came since the last fault was injected and,
    /// where it has an end, healed. A slow machine gets the patience that a fast one does not need. Default:
    /// never.
    #[serde(deserialize_with = "values::some_count::<_, 1_000_000>")]
    pub enough: Option<u32>,
    /// A fault that some hold must outlive: granted before it, and held until it is healed and the servers
    /// take writes again. Without such a hold nothing is known. Default: none.
    #[serde(skip_serializing_if = "is_default")]
    pub outlives: String,
    /// Kinds by weight, for locks with two sides. Default: the lock's kind.
    #[serde(deserialize_with = "values::counts::<_, 1_000_000>")]
    pub mix: BTreeMap<String, u32>,
    /// Every holder extends by the full lease this often. Default: never.
    #[serde(rename(serialize = "extend_ns"))]
    pub extend: Option<Length>,
    /// Share of holds that take the lock once more inside, 0.0 to 1.0. Default 0.
    pub reenter: f64,
    /// Share of acquires that their callers give up at a moment drawn from their wait, as their language
    /// cancels a call, 0.0 to 1.0; what is granted until then is given back at that moment. Only in the first
    /// half of the load: the second shows what is left of them. Default 0.
    #[serde(skip_serializing_if = "is_default")]
    pub cancel: f64,
    /// Share of holds that another owner (thread, task) of the same client extends and releases than the one
    /// that acquired, 0.0 to 1.0. Default 0.
    #[serde(skip_serializing_if = "is_default")]
    pub owner_moves: f64,
    /// Share of cycles with a quarter of the lease and of the hold, 0.0 to 1.0. Default 0.
    #[serde(skip_serializing_if = "is_default")]
    pub short_leases: f64,
    /// Whether a caller whose release ended unknown releases once more. Default false.
    #[serde(skip_serializing_if = "is_default")]
    pub release_again: bool,
    /// As whom tasks ask: `tasks`, each as itself; `fresh`, each acquire as an owner that nobody has been
    /// before, as callers that name none; or `reserved`, as `fresh`, but every second task as owners with
    /// numbers from 2^63 on, which lock-core must refuse. Default tasks.
    #[schemars(with = "String")]
    #[serde(skip_serializing_if = "is_default")]
    pub owners: Owners,
    /// How long a writer writes before it becomes a reader, without anybody in between. Default: never.
    #[serde(rename(serialize = "downgrade_ns"), skip_serializing_if = "Option::is_none")]
    pub downgrade: Option<Length>,
    /// What the holder works on: `none`, `counter` or `register`. Default counter.
    #[schemars(with = "String")]
    pub protects: Protects,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Load {
    /// The workload that tasks run.
    pub fn workload(&self) -> &'static Workload {
        let name = self.workload.as_deref().unwrap_or("uniform");
        bench::workload::find(name).expect("checked when it was read")
    }

    /// How many lock names `tasks` tasks take, if so many are wished for, or their workload has them.
    pub(crate) fn locks_for(&self, tasks: u32, wished: Option<u32>) -> u32 {
        let workload = self.workload();
        match self.workload {
            Some(_) => (workload.locks(tasks, wished)).max(workload.asks.fewest_locks()),
            None => wished.unwrap_or(1),
        }
    }

    /// Kinds by weight that cycles ask for, of a lock whose own is `kind` (empty: its first) and that offers
    /// `offered` (empty: it says so only when it is connected).
    pub(crate) fn kinds(&self, kind: &str, offered: &[String]) -> Result<BTreeMap<String, u32>, String> {
        let asks = self.workload().asks;
        let lacks = |kind: &String| !offered.is_empty() && !offered.contains(kind);
        let mix: BTreeMap<String, u32> = match asks {
            _ if !self.mix.is_empty() => self.mix.clone(),
            // Both sides are asked for by name, whichever kind is the lock's own.
            CycleShape::Sides { .. } => asks.mix("").into_iter().collect(),
            CycleShape::One => asks.mix(kind).into_iter().collect(),
            _ => asks.mix(&asks.kind(kind, offered)?).into_iter().collect(),
        };
        match mix.keys().find(|kind| !kind.is_empty() && lacks(kind)) {
            Some(kind) => Err(format!("it has no kind `{kind}`; it has {}", offered.join(", "))),
            None => Ok(mix),
        }
    }
}

impl Default for Load {
    fn default() -> Self {
        Self {
            clients: 3,
            tasks: 1,
            locks: 1,
            spread: false,
            workload: None,
            rate: None,
            hold: Range::constant(Duration::from_millis(20)),
            think: Range::constant(Duration::from_millis(5)),
            duration: Length(Duration::from_secs(10)),
            enough: None,
            outlives: String::new(),
            mix: BTreeMap::new(),
            extend: None,
            reenter: 0.0,
            cancel: 0.0,
            owner_moves: 0.0,
            short_leases: 0.0,
            release_again: false,
            owners: Owners::Tasks,
            downgrade: None,
            protects: Protects::default(),
        }
    }
}

/// A fault, when, for how long, and on whom.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[schemars(rename = "Fault", transform = without_defaults, extend("required" = ["fault"]))]
#[serde(default, deny_unknown_fields)]
pub(super) struct FaultTable {
    /// So long after the load began. Default 0s: before its first call.
    pub(super) at: Option<Length>,
    /// `first-grant`.
    #[schemars(with = "Option<String>")]
    pub(super) after: Option<TriggerEvent>,
    /// A command on the wire.
    pub(super) when: Option<String>,
    /// How long; absent: until the end.
    pub(super) r#for: Option<Length>,
    /// Its kind.
    #[schemars(with = "FaultName")]
    pub(super) fault: Option<FaultName>,
    /// A role, a node, a client, a link `A -> B`, or groups `A | B`. Default for faults on nodes: master.
    pub(super) on: Option<String>,
    /// Its settings.
    #[schemars(with = "BTreeMap<String, SettingValue>")]
    #[serde(rename = "with")]
    _with: IgnoredAny,
}

/// What a fault can come after.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum TriggerEvent {
    FirstGrant,
}

/// Faults that are drawn from the seed, all of them before anything starts.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "Random", transform = without_defaults)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct RandomTable {
    /// Which: a list of faults, or a table of faults and weights.
    #[schemars(with = "RandomFaults")]
    #[serde(deserialize_with = "weights")]
    pub(super) faults: Weights,
    /// What is drawn of the load and the lock, for the whole run: `kind`, `lease`, `reenter`, `extend`,
    /// `cancel`, `owner_moves`. Default: nothing.
    pub(super) operations: Vec<DrawnOperation>,
    /// On what, each fault on one that it can act on; default: `any`.
    pub(super) on: OneOrMore,
    /// From one injection to the next: a duration or a range. Default 1s..2s.
    pub(super) every: Range,
    /// How long each lasts: a duration or a range. Default 300ms..800ms.
    pub(super) r#for: Range,
    /// Never more of them than this at the same time. Default 1.
    #[serde(deserialize_with = "values::count::<_, 100>")]
    pub(super) at_once: u32,
    /// Their settings, by fault.
    #[schemars(with = "BTreeMap<String, BTreeMap<String, SettingValue>>")]
    #[serde(rename = "with")]
    _with: IgnoredAny,
}

impl Default for RandomTable {
    /// A fault each second or two, over before the next.
    fn default() -> Self {
        let ms = Duration::from_millis;
        Self {
            faults: BTreeMap::new(),
            operations: Vec::new(),
            on: OneOrMore::One("any".to_owned()),
            every: Range::new(ms(1000), ms(2000)),
            r#for: Range::new(ms(300), ms(800)),
            at_once: 1,
            _with: IgnoredAny,
        }
    }
}

/// Something of the operations of a run that is drawn from its seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DrawnOperation {
    /// One of the lock's kinds that one holder has alone.
    Kind,
    /// The lease: a third, all or twice of what the file says.
    Lease,
    /// The share of holds that take the lock once more, where the kind allows it by its name.
    Reenter,
    /// Whether holders extend a lease that is not renewed, and how often.
    Extend,
    /// The share of acquires that their callers give up.
    Cancel,
    /// The share of holds that another owner of the client extends and releases.
    #[serde(rename = "owner_moves")]
    OwnerMoves,
}

/// Faults, evenly or by weight.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[allow(dead_code, reason = "only its shape is used")]
enum RandomFaults {
    Names(Vec<FaultName>),
    Weights(BTreeMap<String, u32>),
}

/// A fault of this build.
#[derive(Debug, Clone, Copy, JsonSchema)]
#[schemars(extend("enum" = crate::faults::names()))]
pub(super) struct FaultName(#[schemars(with = "String")] pub(super) &'static FaultKind);

impl<'de> Deserialize<'de> for FaultName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        word(deserializer, "the name of a fault", |word| {
            let names = crate::faults::names();
            crate::faults::find(word).map(Self).ok_or_else(|| values::one_of_these(word, names))
        })
    }
}

/// How often a fault is drawn, against the sum of all weights.
type Weight = values::Count<1_000_000>;

type Weights = BTreeMap<&'static str, (&'static FaultKind, u32)>;

/// A list of names, or a table of names and weights.
fn weights<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Weights, D::Error> {
    struct Faults;
    impl<'de> Visitor<'de> for Faults {
        type Value = Weights;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list of faults, or a table of faults and weights")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Weights, A::Error> {
            let mut weights = Weights::new();
            while let Some(FaultName(kind)) = list.next_element()? {
                weights.insert(kind.name, (kind, 1));
            }
            Ok(weights)
        }

        fn visit_map<A: MapAccess<'de>>(self, mut table: A) -> Result<Weights, A::Error> {
            let mut weights = Weights::new();
            while let Some((FaultName(kind), weight)) = table.next_entry::<FaultName, Weight>()? {
                weights.insert(kind.name, (kind, weight.0));
            }
            Ok(weights)
        }
    }
    deserializer.deserialize_any(Faults)
}

/// One expression or a list of them.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "a list such as [\"any\", \"any client\", \"clients -> master\"]")]
pub(super) enum OneOrMore {
    One(String),
    More(Vec<String>),
}

/// A word, a number, yes/no, or a list of words.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[allow(dead_code, reason = "only its shape is used")]
enum SettingValue {
    Scalar(Scalar),
    Words(Vec<Scalar>),
}

/// What must come out: `clean`, `violated` or `at-most N/min`. A verdict left out is reported, not judged.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Expect", transform = without_defaults)]
#[serde(default, deny_unknown_fields)]
pub(super) struct ExpectTable {
    belief: Option<Expectation>,
    contract: Option<Expectation>,
    confirmed: Option<Expectation>,
    effect: Option<Expectation>,
    liveness: Option<Expectation>,
    /// The longest time from a fault to the next grant, such as `< 3s`; it holds for each fault.
    #[serde(deserialize_with = "values::recovery")]
    recovery: Option<String>,
    /// The longest time in ms from a fault until the first holder is told that it lost its lock, such as
    /// `< 50`; it holds for each fault.
    #[serde(deserialize_with = "values::bound")]
    told_ms: Option<String>,
    /// How evenly clients are granted since the last fault was over, such as `> 0.5`: Jain's index, 1 is
    /// even.
    #[serde(deserialize_with = "values::bound")]
    fairness: Option<String>,
    /// The most connections of one client, such as `< 8`.
    #[serde(deserialize_with = "values::bound")]
    connections: Option<String>,
    /// The most subscriptions of all clients together, such as `< 500`.
    #[serde(deserialize_with = "values::bound")]
    subscriptions: Option<String>,
    /// The most resident memory of one client's process in MB, such as `< 300`.
    #[serde(deserialize_with = "values::bound")]
    memory_mb: Option<String>,
}

impl ExpectTable {
    /// Whether it expects anything but `clean` of a verdict.
    pub(super) fn expects_harm(&self) -> bool {
        let mut all = self.by_class().into_iter();
        all.any(|(class, word)| CLASSES.contains(&class.as_str()) && word != "clean")
    }

    /// What is expected, by the name of its field.
    pub(super) fn by_class(&self) -> BTreeMap<String, String> {
        let fields = serde_json::to_value(self).expect("plain words");
        let fields: BTreeMap<_, Option<_>> = serde_json::from_value(fields).expect("plain words");
        fields.into_iter().filter_map(|(class, word)| Some((class, word?))).collect()
    }
}

/// What a verdict should be, as its words.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
struct Expectation(String);

impl<'de> Deserialize<'de> for Expectation {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        word(deserializer, values::EXPECTATION, |word| values::expectation(word).map(Self))
    }
}

/// The keys of a scenario file, sorted.
pub const KEYS: [&str; 11] =
    ["about", "audit", "claim", "expect", "faults", "hooks", "load", "lock", "name", "random", "topology"];

/// The JSON schema of a scenario file, pretty-printed, with a line feed at its end.
pub fn json_schema() -> String {
    schema_of::<File>()
}
