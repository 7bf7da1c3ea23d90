//! Says what is special about one node: a name of its own, configuration lines of its own.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Role;
use crate::input::{Scalar, without_defaults};

/// A node that differs from the others of its role.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Node", transform = without_defaults)]
#[serde(deny_unknown_fields)]
pub struct NodeSpec {
    /// Its job at start. Default master.
    #[schemars(with = "Option<Role>")]
    #[serde(default = "master")]
    pub role: Role,
    /// Its name in commands, scenarios and logs. Default: by place, n1 or s1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its own redis.conf lines; they win over those of every node.
    #[schemars(with = "Option<BTreeMap<String, Scalar>>")]
    #[serde(
        default,
        deserialize_with = "super::file::lines",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub config: BTreeMap<String, String>,
}

fn master() -> Role {
    Role::Master
}

impl NodeSpec {
    /// Nothing special about a node of this role.
    pub fn of(role: Role) -> Self {
        NodeSpec {
            role,
            name: None,
            config: BTreeMap::new(),
        }
    }
}

/// What a scenario calls parties, and the folder of certificates: a node of such a name could not be told from them.
const WORDS: [&str; 15] = [
    "any",
    "client",
    "clients",
    "holder",
    "majority",
    "master",
    "masters",
    "minority",
    "node",
    "nodes",
    "replica",
    "replicas",
    "sentinel",
    "sentinels",
    "tls",
];

/// What is wrong with the name of the node that would by its place be `place`; `None`: nothing.
pub(super) fn name_complaint(name: &str, place: &str) -> Option<String> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if !name.starts_with(|c: char| c.is_ascii_lowercase())
        || !name.chars().all(plain)
        || name.len() > 32
    {
        return Some(format!(
            "the name {name:?} is no name of a node: a letter, then letters, digits and -, all small, 32 at most"
        ));
    }
    if WORDS.contains(&name) {
        return Some(format!(
            "the name {name:?} means something else in scenarios; take another"
        ));
    }
    let numbered = name
        .strip_prefix(['n', 's', 'c'])
        .is_some_and(|rest| rest.parse::<u32>().is_ok());
    (numbered && name != place).then(|| {
        format!("the name {name:?} is the name of another place: n1, s1 and c1 are given by number; this one is {place}")
    })
}
