//! Says what is special about one node: a name of its own, configuration lines of its own.

use std::collections::BTreeMap;

use crate::Role;

/// A node that differs from the others of its role.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct NodeSpec {
    /// Its job at start.
    pub role: Role,
    /// Its name in commands, scenarios, logs and directories; `None`: by place, `n1` or `s1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its own configuration lines; they come after those of every node and win.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub config: BTreeMap<String, String>,
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
