//! The form of `[topology]`, a table that other files may hold too: one type per table, from which its parser
//! and its JSON schema come.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use toml::Value;
use toml::de::DeTable;

use super::kind::Count;
use super::validate::ProblemPlace;
use super::{Persistence, ProvisionerKind, Topology, TopologyKind};
use crate::input::{
    FileErrors, Problems, Scalar, Section, one_of, read_file, read_table, schema_of, without_defaults,
};

/// The file that `locklab up` takes.
#[derive(JsonSchema)]
#[schemars(rename = "TopologyFile")]
#[allow(dead_code, reason = "only its shape is used")]
struct File {
    /// A name for people.
    name: Option<String>,
    /// A sentence for people.
    about: Option<String>,
    topology: TopologyTable,
}

const TOP_KEYS: [&str; 3] = ["name", "about", "topology"];

/// The servers.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[schemars(rename = "Topology", transform = without_defaults, extend("required" = ["kind"]))]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct TopologyTable {
    #[schemars(with = "TopologyKind")]
    kind: Option<TopologyKind>,
    /// Replicas per master (sentinel, cluster, masters).
    replicas: Option<NodeCount>,
    /// Independent masters (masters).
    masters: Option<NodeCount>,
    /// Masters that share the slots (cluster).
    shards: Option<NodeCount>,
    /// Sentinels (sentinel).
    sentinels: Option<NodeCount>,
    /// `redis`, `valkey`, a version such as `redis-7.2` or `valkey-9` (the newest of that line), or the path
    /// of a server binary. Of another system: the path of its program, or of the folder of ZooKeeper's jars.
    server: Option<String>,
    /// redis.conf lines for every node; of another system its own settings, as `heartbeat-interval = 50` of
    /// etcd.
    #[schemars(with = "Option<BTreeMap<String, Scalar>>")]
    #[serde(deserialize_with = "lines")]
    config: BTreeMap<String, String>,
    /// What the sentinels follow for their master: `down-after-milliseconds` (1000 here, 30000 as Redis has
    /// it), `failover-timeout`, `parallel-syncs`.
    #[schemars(with = "Option<BTreeMap<String, Scalar>>")]
    #[serde(deserialize_with = "lines")]
    sentinel_config: BTreeMap<String, String>,
    /// What a server writes to its disk. Default: what `config` says, and nothing.
    persistence: Option<Persistence>,
    /// A master refuses writes with fewer replicas in sight.
    min_replicas_to_write: Option<NodeCount>,
    /// Everything speaks TLS, with certificates made for the run. Default false.
    tls: Option<bool>,
    /// Clients need a user and a password; the URL has one. Default false.
    acl: Option<bool>,
    /// What servers run in. Default process.
    provisioner: Option<ProvisionerKind>,
    /// The image of containers, for example `redis:7.4`. Default: `redis:8` or `valkey/valkey:8` where a
    /// registry answers, else one that is built from the installed server.
    image: Option<String>,
}

/// A number of nodes; how many are allowed depends on the kind.
#[derive(Debug, Clone, Copy, JsonSchema)]
#[schemars(inline)]
struct NodeCount(#[schemars(with = "u32")] i64);

impl<'de> Deserialize<'de> for NodeCount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match i64::deserialize(deserializer) {
            Ok(count) => Ok(NodeCount(count)),
            Err(_) => Err(D::Error::custom("a whole number")),
        }
    }
}

impl NodeCount {
    /// As near to it as a topology can count.
    fn clamped(self) -> u32 {
        u32::try_from(self.0.max(0)).unwrap_or(u32::MAX)
    }
}

/// The rest of a line of redis.conf: a word, a number, or yes and no.
#[derive(Debug)]
struct Line(String);

impl<'de> Deserialize<'de> for Line {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Line(match Value::deserialize(deserializer)? {
            Value::String(text) => text,
            Value::Boolean(truth) => if truth { "yes" } else { "no" }.to_owned(),
            Value::Integer(number) => number.to_string(),
            // With its point: 1.0 stays 1.0.
            Value::Float(number) => format!("{number:?}"),
            _ => return Err(D::Error::custom("the rest of a redis.conf line, in quotes")),
        }))
    }
}

/// The JSON schema of a topology file, pretty-printed, with a line feed at its end.
pub fn json_schema() -> String {
    schema_of::<File>()
}

impl Topology {
    /// Parses the text of a file that holds a table `[topology]`; `file` is its name in messages.
    pub fn parse(file: &str, text: &str) -> Result<Topology, FileErrors> {
        Topology::parse_among(file, text, &[])
    }

    /// The same for a file that says more than a topology, for which the caller has a parser: `others` are
    /// its other keys.
    pub fn parse_among(file: &str, text: &str, others: &[&str]) -> Result<Topology, FileErrors> {
        read_file(file, text, |document, problems| read(document, others, problems))
    }
}

fn read<'a>(document: &'a DeTable<'a>, others: &[&str], problems: &'a Problems<'a>) -> Option<Topology> {
    /// What else the file says is its own parser's business.
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct FileDocument {
        topology: TopologyTable,
    }
    let top = Section { name: "a topology file", table: Some(document), start: 0, problems };
    top.allow(&[&TOP_KEYS, others].concat());
    if top.get("topology").is_none() {
        problems.add(0..0, "[topology] with its `kind` is missing");
    }
    let whole = read_table::<FileDocument>(document, top.name, problems).value?;
    whole.topology.checked(top.inside("topology"))
}

impl TopologyTable {
    /// The topology that is meant; `None` if it is missing or anything in it is wrong, which is then among
    /// the problems. `section` is where the table was read.
    pub fn checked(self, section: Section<'_>) -> Option<Topology> {
        section.table?;
        if section.get("kind").is_none() {
            let kinds = one_of(TopologyKind::ALL.map(TopologyKind::name));
            section.complain("kind", format!("[topology] needs `kind`: {kinds}"));
        }
        let mut topology = Topology::of(self.kind?);
        let counted = self.counts(section, &mut topology);
        let topology = Topology {
            config: self.config,
            sentinel_config: self.sentinel_config,
            persistence: self.persistence,
            // With a wrong number of replicas nothing can be said of it.
            min_replicas_to_write: (self.min_replicas_to_write.filter(|_| counted))
                .map_or(0, NodeCount::clamped),
            tls: self.tls.unwrap_or(false),
            acl: self.acl.unwrap_or(false),
            provisioner: self.provisioner.unwrap_or_default(),
            image: self.image,
            server: self.server.unwrap_or(topology.server),
            ..topology
        };
        let complaints = topology.complaints();
        let sound = complaints.is_empty();
        for (at, message) in complaints {
            let span = match at {
                ProblemPlace::Key(key) => section.span(key),
                ProblemPlace::Config(table, name) => section.inside(table).span(&name),
            };
            section.problems.add(span, message);
        }
        (counted && sound).then_some(topology)
    }

    /// Counts that are given. Whether the kind allows them all: one that it does not allow is reported.
    fn counts(&self, section: Section<'_>, topology: &mut Topology) -> bool {
        let mut all_allowed = true;
        let applies = topology.kind.counts();
        let given = [
            ("replicas", self.replicas),
            ("masters", self.masters),
            ("shards", self.shards),
            ("sentinels", self.sentinels),
        ]
        .map(|(key, few)| (key, few.map(|few| few.0)));
        for (key, count) in given {
            if !applies.iter().any(|known| known.key == key) && count.is_some_and(|count| count != 0) {
                section.complain(key, format!("`{key}` does not apply to a `{}` topology", topology.kind));
            }
        }
        for known @ Count { key, .. } in applies {
            let given = given.iter().filter(|(known, _)| known == key).find_map(|(_, count)| *count);
            if let Some(problem) = given.and_then(|count| known.complaint(topology.kind, count)) {
                section.complain(key, problem);
                all_allowed = false;
            } else if let Some(count) = given {
                *topology.number_mut(key) = NodeCount(count).clamped();
            }
        }
        if let Some(NodeCount(found @ ..0)) = self.min_replicas_to_write {
            let problem = format!(
                "min-replicas-to-write = {found}: allowed is a whole number from 0 to the number of replicas per master"
            );
            section.complain("min-replicas-to-write", problem);
            all_allowed = false;
        }
        all_allowed
    }
}

/// Lines of redis.conf by their directives.
fn lines<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, String>, D::Error> {
    let lines = BTreeMap::<String, Line>::deserialize(deserializer)?;
    Ok(lines.into_iter().map(|(name, Line(rest))| (name, rest)).collect())
}
