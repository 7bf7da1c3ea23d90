//! The JSON schema of a topology file, for editors.
//!
//! The types here say only what an editor can check. The parser reads the file by hand, because its messages need the
//! place of every value; a test holds the keys of the two together.

use std::collections::BTreeMap;

use schemars::JsonSchema;

use super::{ContainerNetwork, Persistence, ProvisionerKind, TopologyKind};
use crate::Role;
use crate::input::{Scalar, schema_of};

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

/// The servers.
#[derive(Debug, JsonSchema)]
#[schemars(rename = "Topology", deny_unknown_fields, rename_all = "kebab-case")]
#[allow(dead_code, reason = "only its shape is used")]
pub struct TopologyTable {
    kind: TopologyKind,
    /// Replicas per master (sentinel, cluster, masters).
    replicas: Option<u32>,
    /// Independent masters (masters).
    masters: Option<u32>,
    /// Masters that share the slots (cluster).
    shards: Option<u32>,
    /// Sentinels (sentinel).
    sentinels: Option<u32>,
    /// `redis`, `valkey`, a version such as `redis-7.2`, or the path of a server binary.
    server: Option<String>,
    /// redis.conf lines for every node.
    config: Option<BTreeMap<String, Scalar>>,
    /// What a server writes to its disk. Default: what `config` says, and nothing.
    persistence: Option<Persistence>,
    /// A master refuses writes with fewer replicas in sight.
    min_replicas_to_write: Option<u32>,
    /// Everything speaks TLS, with certificates made for the run. Default false.
    tls: Option<bool>,
    /// Clients need a user and a password; the URL has one. Default false.
    acl: Option<bool>,
    /// More users.
    users: Option<Vec<UserTable>>,
    /// What is special about single nodes: the first with a role describes the first node of that role, and so on.
    nodes: Option<Vec<NodeTable>>,
    /// What servers run in. Default process.
    provisioner: Option<ProvisionerKind>,
    /// The image of containers, for example `redis:7.4`. Default: `redis:8` or `valkey/valkey:8` where a registry answers, else one
    /// that is built from the installed server.
    image: Option<String>,
    /// How containers are reached. Default: the host's network where the engine shares it with this machine.
    container_network: Option<ContainerNetwork>,
}

/// A user besides the one in the URL.
#[derive(Debug, JsonSchema)]
#[schemars(rename = "User", deny_unknown_fields)]
#[allow(dead_code, reason = "only its shape is used")]
struct UserTable {
    name: String,
    password: String,
    /// In the words of Redis' ACLs. Default `~* &* +@all`.
    rules: Option<String>,
}

/// A node that differs from the others of its role.
#[derive(Debug, JsonSchema)]
#[schemars(rename = "Node", deny_unknown_fields)]
#[allow(dead_code, reason = "only its shape is used")]
struct NodeTable {
    /// Its job at start. Default master.
    role: Option<Role>,
    /// Its name in commands, scenarios and logs. Default: by place, n1 or s1.
    name: Option<String>,
    /// Its own redis.conf lines; they win over those of every node.
    config: Option<BTreeMap<String, Scalar>>,
}

/// The JSON schema of a topology file, pretty-printed, with a line feed at its end.
pub fn json_schema() -> String {
    schema_of::<File>()
}

#[cfg(test)]
mod tests {
    use super::super::file::{NODE_KEYS, TOPOLOGY_KEYS, USER_KEYS};
    use crate::input::schema_keys;

    #[test]
    fn parser_and_schema_know_the_same_keys() {
        let schema = super::json_schema();
        for (pointer, known) in [
            ("/$defs/Topology/properties", TOPOLOGY_KEYS.as_slice()),
            ("/$defs/User/properties", USER_KEYS.as_slice()),
            ("/$defs/Node/properties", NODE_KEYS.as_slice()),
        ] {
            let mut known = known.to_vec();
            known.sort_unstable();
            assert_eq!(schema_keys(&schema, pointer).unwrap(), known, "{pointer}");
        }
    }
}
