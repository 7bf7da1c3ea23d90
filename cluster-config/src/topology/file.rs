//! Parses `[topology]`, the table of a topology file that other files may hold too.

use std::collections::BTreeMap;
use std::ops::Range;

use toml::de::{DeTable, DeValue};

use super::kind::Count;
use super::validate::At;
use super::{NodeSpec, ProvisionerKind, Secret, Topology, TopologyKind, User};
use crate::Role;
use crate::input::{FileErrors, Problems, Section, one_of, shown};
use crate::words::Word;

/// What `[topology]` may hold.
pub const TOPOLOGY_KEYS: [&str; 16] = [
    "kind",
    "replicas",
    "masters",
    "shards",
    "sentinels",
    "server",
    "config",
    "persistence",
    "min-replicas-to-write",
    "tls",
    "acl",
    "users",
    "nodes",
    "provisioner",
    "image",
    "container-network",
];
pub(super) const USER_KEYS: [&str; 3] = ["name", "password", "rules"];
pub(super) const NODE_KEYS: [&str; 3] = ["role", "name", "config"];

const TOP_KEYS: [&str; 3] = ["name", "about", "topology"];

impl Topology {
    /// Parses the text of a file that holds a table `[topology]`; `file` is its name in messages.
    ///
    /// # Errors
    /// Everything that is wrong, in the order of the file.
    pub fn parse(file: &str, text: &str) -> Result<Topology, FileErrors> {
        Topology::parse_among(file, text, &[])
    }

    /// The same for a file that says more than a topology, for which the caller has a parser: `others` are its other keys.
    ///
    /// # Errors
    /// As [`Topology::parse`].
    pub fn parse_among(file: &str, text: &str, others: &[&str]) -> Result<Topology, FileErrors> {
        let problems = Problems::new(text);
        let (document, errors) = DeTable::parse_recoverable(text);
        for error in &errors {
            problems.add(error.span().unwrap_or(0..0), error.message());
        }
        // After a mistake of grammar the rest is a guess, and complaints about it would be noise.
        let topology = if errors.is_empty() {
            read(document.get_ref(), others, &problems)
        } else {
            None
        };
        match topology {
            Some(topology) if problems.is_empty() => Ok(topology),
            _ => Err(problems.into_errors(file)),
        }
    }
}

fn read<'a>(
    document: &'a DeTable<'a>,
    others: &[&str],
    problems: &'a Problems<'a>,
) -> Option<Topology> {
    let top = Section {
        name: "a topology file",
        table: Some(document),
        start: 0,
        problems,
    };
    top.allow(&[&TOP_KEYS, others].concat());
    if top.get("topology").is_none() {
        problems.add(0..0, "[topology] with its `kind` is missing");
    }
    parse_topology(top.table("topology", "[topology]"))
}

/// Reads the table `[topology]`; `None` if it is missing or anything in it is wrong, which is then among the problems.
pub fn parse_topology(section: Section<'_>) -> Option<Topology> {
    section.table?;
    section.allow(&TOPOLOGY_KEYS);
    let kind = kind(section);
    let config = config(section.table("config", "config = { … }"));
    let server = section.text("server");
    let persistence = choice(section, "persistence");
    let min_replicas_to_write = section.count("min-replicas-to-write", 0, 99);
    let tls = section.truth("tls");
    let acl = section.truth("acl");
    let provisioner = choice::<ProvisionerKind>(section, "provisioner");
    let image = section.text("image");
    let network = choice(section, "container-network");
    let user_sections = section.tables("users", "[[topology.users]]");
    let users: Vec<User> = user_sections.iter().map(|user| self::user(*user)).collect();
    let node_sections = section.tables("nodes", "[[topology.nodes]]");
    let nodes = node_sections.iter().map(|node| self::node(*node)).collect();

    let mut topology = Topology::of(kind?);
    topology.nodes = nodes;
    counts(section, &mut topology);
    topology.config = config;
    topology.persistence = persistence;
    topology.min_replicas_to_write = min_replicas_to_write.unwrap_or(0);
    topology.tls = tls.unwrap_or(false);
    topology.acl = acl.unwrap_or(false);
    topology.users = users;
    topology.provisioner = provisioner.unwrap_or_default();
    topology.image = image.map(str::to_owned);
    topology.container_network = network;
    if let Some(server) = server {
        topology.server = server.to_owned();
    }
    if acl == Some(false) && !topology.users.is_empty() {
        section.problems.add(
            section.span("acl"),
            "`acl` is false, and users are given; leave out one of the two",
        );
    }
    let complaints = topology.complaints();
    let sound = complaints.is_empty();
    for (at, message) in complaints {
        let span = span(&at, section, &node_sections, &user_sections);
        section.problems.add(span, message);
    }
    sound.then_some(topology)
}

fn kind(section: Section<'_>) -> Option<TopologyKind> {
    if section.get("kind").is_none() {
        section.problems.add(
            section.start..section.start,
            format!(
                "[topology] needs `kind`: {}",
                one_of(TopologyKind::ALL.map(TopologyKind::name))
            ),
        );
    }
    choice(section, "kind")
}

/// The word under a key.
fn choice<W: Word>(section: Section<'_>, key: &str) -> Option<W> {
    section.word(key, W::of_word)
}

/// Counts that are given; where one is not, as many as nodes are described, if any are.
fn counts(section: Section<'_>, topology: &mut Topology) {
    let applies = topology.kind.counts();
    for key in ["replicas", "masters", "shards", "sentinels"] {
        if !applies.iter().any(|known| known.key == key)
            && section.count(key, 0, 99).is_some_and(|count| count != 0)
        {
            section.problems.add(
                section.span(key),
                format!("`{key}` does not apply to a `{}` topology", topology.kind),
            );
        }
    }
    for Count { key, role, .. } in applies {
        let described = topology.nodes.iter().filter(|node| node.role == *role);
        let described = u32::try_from(described.count()).unwrap_or(u32::MAX);
        // The count is per master; masters come first.
        let masters = match role {
            Role::Replica => topology.count(Role::Master).max(1),
            _ => 1,
        };
        let implied = (described > 0).then(|| described.div_ceil(masters));
        if let Some(count) = section.count(key, 0, 99).or(implied) {
            *topology.number_mut(key) = count;
        }
    }
}

fn user(section: Section<'_>) -> User {
    section.allow(&USER_KEYS);
    for key in ["name", "password"] {
        if section.get(key).is_none() {
            section.problems.add(
                section.start..section.start,
                format!("{} needs `{key}`", section.name),
            );
        }
    }
    // Not through `text`, whose complaint would repeat the value.
    let password = section.get("password").map(|value| value.get_ref());
    if password.is_some_and(|value| value.as_str().is_none()) {
        section.problems.add(
            section.span("password"),
            "`password` is no string in quotes",
        );
    }
    User {
        // What is missing was said above; said once is enough.
        name: section.text("name").unwrap_or("missing").to_owned(),
        password: password.and_then(DeValue::as_str).map(Secret::new),
        rules: section.text("rules").unwrap_or(User::EVERYTHING).to_owned(),
    }
}

fn node(section: Section<'_>) -> NodeSpec {
    section.allow(&NODE_KEYS);
    NodeSpec {
        role: choice(section, "role").unwrap_or(Role::Master),
        name: section.text("name").map(str::to_owned),
        config: config(section.table("config", "config = { … }")),
    }
}

/// Where in the file a complaint of the topology belongs.
fn span(
    at: &At,
    section: Section<'_>,
    nodes: &[Section<'_>],
    users: &[Section<'_>],
) -> Range<usize> {
    let line = |section: Section<'_>, name: &str| {
        let config = section.table("config", "config");
        config.span(name)
    };
    match at {
        At::Key(key) => section.span(key),
        At::Config(name) => line(section, name),
        At::Node(index, key) => nodes[*index].span(key),
        At::NodeConfig(index, name) => line(nodes[*index], name),
        At::User(index, key) => users[*index].span(key),
    }
}

fn config(section: Section<'_>) -> BTreeMap<String, String> {
    let mut config = BTreeMap::new();
    for (key, value) in section.table.into_iter().flatten() {
        let text = match value.get_ref() {
            DeValue::String(text) => text.clone().into_owned(),
            DeValue::Boolean(truth) => if *truth { "yes" } else { "no" }.to_owned(),
            number @ (DeValue::Integer(_) | DeValue::Float(_)) => shown(number),
            other => {
                section.problems.add(
                    value.span(),
                    format!(
                        "`{}` is {}; allowed is the rest of a redis.conf line, in quotes",
                        key.get_ref(),
                        shown(other)
                    ),
                );
                continue;
            }
        };
        config.insert(key.get_ref().clone().into_owned(), text);
    }
    config
}
