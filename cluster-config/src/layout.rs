//! Plans the nodes, addresses and configuration files of a topology as data; starts nothing.
//!
//! Data node `i`, from 1, listens on `127.0.0.(10+i)` and dials from there; sentinel `j` does so on
//! `127.0.0.(100+j)`. All nodes share one port, cluster buses the next. With proxied links a node is
//! *announced* as the same last octet in `127.0.1.0/24`, same port, where its fault proxy listens; the source
//! address of a connection then tells its link.

use std::fmt::{self, Write as _};
use std::net::SocketAddr;
use std::ops::Deref;
use std::path::{Path, PathBuf};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::access::{Access, TlsFiles};
use crate::topology::{NodeOutline, OWN_USER};
use crate::{Links, Node, Role, Secret, Topology, TopologyKind};

/// The name under which sentinels know the master; it is the path of a sentinel URL.
pub const MASTER_NAME: &str = "locklab";

/// A master is called down after this silence. With the sentinels' periods a promotion takes about 2 s.
const SENTINEL_DOWN_AFTER_MS: u32 = 1000;

/// The same in a cluster of a few nodes.
const NODE_TIMEOUT_MS: u32 = 1500;

/// The characters that are percent-encoded in a path within a URL's query.
const QUERY_ENCODED: AsciiSet =
    NON_ALPHANUMERIC.remove(b'/').remove(b'-').remove(b'.').remove(b'_').remove(b'~');
const DATA_OCTET: u8 = 10;
const SENTINEL_OCTET: u8 = 100;

/// Where every node of a topology lives and how it is configured. Shown without passwords.
#[derive(Clone, PartialEq, Eq)]
pub struct Layout {
    /// Masters first, then replicas, then sentinels.
    pub nodes: Vec<PlannedNode>,
    /// What lock clients connect to: announced addresses, and the password if there is one.
    pub url: String,
    /// The same without the password, for everything that is kept or shown.
    pub shown_url: String,
    /// The certificates to be made before anything starts, if the nodes speak TLS.
    pub(crate) tls: Option<TlsFiles>,
}

impl fmt::Debug for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Layout")
            .field("url", &self.shown_url)
            .field("nodes", &self.nodes)
            .finish_non_exhaustive()
    }
}

/// One node before it is started. Shown without its configuration, in which passwords stand.
#[derive(Clone, PartialEq, Eq)]
pub struct PlannedNode {
    /// What it is once it runs.
    pub node: Node,
    /// Ports on which nodes talk to each other, on the same addresses: a cluster's bus, an ensemble's own.
    pub bus_ports: Vec<u16>,
    /// Index of the master that a replica copies.
    pub master: Option<usize>,
    /// Its own directory: data and configuration.
    pub dir: PathBuf,
    /// Its configuration file.
    pub conf_path: PathBuf,
    /// What that file says at first.
    pub conf: String,
    /// What its program is started with.
    pub args: Vec<String>,
    /// More files that say who it is, and their texts.
    pub files: Vec<(PathBuf, String)>,
}

impl PlannedNode {
    /// One of which nothing else is known.
    pub(crate) fn new(node: Node) -> PlannedNode {
        PlannedNode {
            node,
            bus_ports: Vec::new(),
            master: None,
            dir: PathBuf::new(),
            conf_path: PathBuf::new(),
            conf: String::new(),
            args: Vec::new(),
            files: Vec::new(),
        }
    }

    /// The first of its bus ports; 0 where it has none.
    pub(crate) fn bus_port(&self) -> u16 {
        self.bus_ports.first().copied().unwrap_or_default()
    }
}

impl Deref for PlannedNode {
    type Target = Node;

    fn deref(&self) -> &Node {
        &self.node
    }
}

impl fmt::Debug for PlannedNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.node.fmt(f)
    }
}

impl Layout {
    /// Places every node of a valid topology: data below `data`, logs below `dir`, both absolute.
    pub fn plan(
        topology: &Topology,
        links: Links,
        port: u16,
        dir: &Path,
        data: &Path,
        access: &Access,
    ) -> Layout {
        let masters = topology.count(Role::Master) as usize;
        let planned = |(index, place): (usize, NodeOutline)| {
            let name = place.name();
            let base = match place.role {
                Role::Sentinel => SENTINEL_OCTET,
                Role::Master | Role::Replica => DATA_OCTET,
            };
            // 200 data nodes at most, as `Topology::validate` says: an octet holds them.
            let octet = base + place.number as u8;
            let at = |third: u8| SocketAddr::from(([127, 0, third, octet], port));
            let own_dir = data.join(&name);
            let node = Node {
                role: place.role,
                address: at(0),
                announced: match links {
                    Links::Direct => at(0),
                    Links::Proxied => at(1),
                },
                dial: access.dial(place.role, at(0), &own_dir),
                log: dir.join("logs").join(format!("{name}.log")),
                name,
            };
            PlannedNode {
                master: match place.role {
                    Role::Master => None,
                    Role::Replica => Some((index - masters) % masters),
                    Role::Sentinel => Some(0),
                },
                bus_ports: Vec::from_iter((topology.kind == TopologyKind::Cluster).then_some(port + 1)),
                conf_path: own_dir.join("redis.conf"),
                dir: own_dir,
                ..PlannedNode::new(node)
            }
        };
        let mut nodes: Vec<PlannedNode> = topology.places().into_iter().enumerate().map(planned).collect();
        match topology.kind.system() {
            None => Layout::of(topology, nodes, data, access),
            Some(system) => {
                system.plan(topology, &mut nodes);
                let url = system.url(&addresses(&nodes, None));
                Layout { shown_url: url.clone(), url, nodes, tls: None }
            }
        }
    }

    /// What follows from where the nodes are: their configuration and the URL.
    pub(crate) fn of(
        topology: &Topology,
        mut nodes: Vec<PlannedNode>,
        data: &Path,
        access: &Access,
    ) -> Layout {
        let tls = access.tls.then(|| TlsFiles::below(data));
        let text = |index| conf(topology, &nodes, index, access, tls.as_ref());
        let texts: Vec<String> = (0..nodes.len()).map(text).collect();
        if topology.kind == TopologyKind::Cluster {
            for index in 0..nodes.len() {
                let members = (nodes[index].dir.join(MEMBERS_FILE), members(&nodes, index));
                nodes[index].files.push(members);
            }
        }
        for (node, text) in nodes.iter_mut().zip(texts) {
            node.conf = text;
            node.args = vec![node.conf_path.to_string_lossy().into_owned()];
            if node.role == Role::Sentinel {
                node.args.push("--sentinel".to_owned());
            }
        }
        let url = |show: fn(&Secret) -> &str| {
            let passwords = [&access.password, &access.sentinel_password];
            url(topology.kind, &nodes, passwords.map(|password| password.as_ref().map(show)), tls.as_ref())
        };
        Layout { url: url(Secret::reveal), shown_url: url(|_| "***"), nodes, tls }
    }

    /// Every address that must be free: real ones, announced ones where a proxy will listen, bus ports.
    pub fn listen_addresses(&self) -> Vec<SocketAddr> {
        let mut all = Vec::new();
        for node in &self.nodes {
            for address in [node.address, node.announced] {
                let bus = node.bus_ports.iter().map(|port| SocketAddr::new(address.ip(), *port));
                for candidate in std::iter::once(address).chain(bus) {
                    if !all.contains(&candidate) {
                        all.push(candidate);
                    }
                }
            }
        }
        all
    }
}

/// The file in which a member of a cluster keeps who all members are and what they have.
const MEMBERS_FILE: &str = "nodes.conf";

/// The file of the member `own` of a new cluster. It names all members, so that they need no introductions.
fn members(nodes: &[PlannedNode], own: usize) -> String {
    // Distinct from those of every cluster that runs beside it, since that has another port.
    let id = |index: usize| format!("{:08x}{:032x}", nodes[index].announced.port(), index + 1);
    let masters = nodes.iter().filter(|node| node.master.is_none()).count();
    let mut text = String::new();
    for (index, node) in nodes.iter().enumerate() {
        let (role, master, epoch, slots) = match node.master {
            // Distinct epochs spare the members the rounds in which they would settle a collision.
            None => {
                let (first, last) = slot_range(index, masters);
                ("master", "-".to_owned(), index + 1, format!(" {first}-{last}"))
            }
            Some(master) => ("slave", id(master), 0, String::new()),
        };
        let myself = if index == own { "myself," } else { "" };
        let (id, at, bus) = (id(index), node.announced, node.bus_port());
        let _ = writeln!(text, "{id} {at}@{bus} {myself}{role} {master} 0 0 {epoch} connected{slots}");
    }
    let _ = writeln!(text, "vars currentEpoch {masters} lastVoteEpoch 0");
    text
}

/// `hz`, and the node timeout in milliseconds; gentler in large clusters, where each hears from all others.
fn timer_settings(topology: &Topology) -> (u32, u32) {
    const FEW: u32 = 24;
    let nodes = topology.data_nodes();
    (if nodes <= FEW { 100 } else { 10 }, NODE_TIMEOUT_MS * nodes.max(FEW) / FEW)
}

/// Fills the templates for one node and appends the topology's own lines, which win because they come last.
fn conf(
    topology: &Topology,
    nodes: &[PlannedNode],
    index: usize,
    access: &Access,
    tls: Option<&TlsFiles>,
) -> String {
    let node = &nodes[index];
    let master = node.master.map_or(node.announced, |master| nodes[master].announced);
    let (hz, node_timeout_ms) = timer_settings(topology);
    let mut words = vec![
        ("hz", hz.to_string()),
        ("node_timeout_ms", node_timeout_ms.to_string()),
        ("address", node.address.ip().to_string()),
        ("port", node.address.port().to_string()),
        ("announced", node.announced.ip().to_string()),
        ("bus_port", node.bus_port().to_string()),
        ("dir", quoted(&node.dir)),
        ("master_name", MASTER_NAME.to_owned()),
        ("master_announced", master.ip().to_string()),
        ("master_port", master.port().to_string()),
        ("quorum", (topology.sentinels / 2 + 1).to_string()),
        ("down_after_ms", SENTINEL_DOWN_AFTER_MS.to_string()),
        ("user", OWN_USER.to_owned()),
    ];
    if let Some(password) = &access.password {
        words.push(("password", password.reveal().to_owned()));
    }
    if let Some(password) = &access.sentinel_password {
        words.push(("sentinel_password", password.reveal().to_owned()));
    }
    if let (Some(tls), Some(socket)) = (tls, &node.dial.socket) {
        words.push(("tls_cert", quoted(&tls.cert)));
        words.push(("tls_key", quoted(&tls.key)));
        words.push(("tls_ca", quoted(&tls.ca)));
        words.push(("socket", quoted(socket)));
    }
    let mut text = fill(&template(topology.kind, node.role, access), &words);
    text.push_str(&match node.role {
        Role::Sentinel => sentinel_config_lines(topology),
        _ => config_lines(topology),
    });
    text
}

/// The lines of sentinel.conf that a topology asks for, to stand below those that they replace.
pub fn sentinel_config_lines(topology: &Topology) -> String {
    let asked = topology.sentinel_config.iter();
    asked.map(|(name, value)| format!("sentinel {name} {MASTER_NAME} {value}\n")).collect()
}

/// The lines of redis.conf that a topology asks for on every data node, its own last.
pub fn config_lines(topology: &Topology) -> String {
    let mut text = String::new();
    let chosen = topology.persistence.map_or(&[][..], |wanted| wanted.lines());
    lines(&mut text, "What is kept on disk.", chosen.iter().copied());
    let least = topology.min_replicas_to_write.to_string();
    let least = (topology.min_replicas_to_write > 0).then_some(("min-replicas-to-write", least.as_str()));
    lines(&mut text, "Writes need replicas.", least.into_iter());
    let common = topology.config.iter();
    lines(
        &mut text,
        "The topology's own lines.",
        common.map(|(name, value)| (name.as_str(), value.as_str())),
    );
    text
}

fn template(kind: TopologyKind, role: Role, access: &Access) -> String {
    let cluster = kind == TopologyKind::Cluster;
    let mut parts = match role {
        Role::Sentinel => vec![include_str!("../conf/sentinel.conf")],
        Role::Master | Role::Replica => vec![include_str!("../conf/data.conf")],
    };
    if cluster {
        parts.push(include_str!("../conf/cluster.conf"));
    } else if role == Role::Replica {
        parts.push(include_str!("../conf/replica.conf"));
    }
    if access.tls {
        parts.push(include_str!("../conf/tls.conf"));
        if cluster {
            parts.push(include_str!("../conf/tls-cluster.conf"));
        }
    }
    if access.password.is_some() {
        parts.push(match role {
            Role::Sentinel => include_str!("../conf/sentinel-users.conf"),
            Role::Master | Role::Replica => include_str!("../conf/users.conf"),
        });
    }
    parts.concat()
}

/// Appends configuration lines under a heading; nothing if there are none.
fn lines<'a>(text: &mut String, heading: &str, lines: impl Iterator<Item = (&'a str, &'a str)>) {
    for (index, (directive, value)) in lines.enumerate() {
        if index == 0 {
            let _ = writeln!(text, "\n# {heading}");
        }
        let value = if value.is_empty() { "\"\"" } else { value };
        let _ = writeln!(text, "{directive} {value}");
    }
}

fn fill(template: &str, words: &[(&str, String)]) -> String {
    words
        .iter()
        .fold(template.to_owned(), |text, (word, value)| text.replace(&format!("{{{{{word}}}}}"), value))
}

/// A path as redis.conf reads it back: in double quotes, so that blanks survive.
fn quoted(path: &Path) -> String {
    let text = path.to_string_lossy();
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

fn addresses(nodes: &[PlannedNode], only: Option<Role>) -> String {
    let nodes = nodes.iter().filter(|node| only.is_none_or(|only| only == node.role));
    let addresses: Vec<String> = nodes.map(|node| node.announced.to_string()).collect();
    addresses.join(",")
}

fn url(
    kind: TopologyKind,
    nodes: &[PlannedNode],
    [password, sentinel_password]: [Option<&str>; 2],
    tls: Option<&TlsFiles>,
) -> String {
    let s = if tls.is_some() { "s" } else { "" };
    let (scheme, only, path) = match kind {
        TopologyKind::Sentinel => {
            (format!("redis{s}-sentinel"), Some(Role::Sentinel), format!("/{MASTER_NAME}"))
        }
        TopologyKind::Cluster => (format!("redis{s}-cluster"), None, String::new()),
        TopologyKind::Masters => (format!("redlock{s}"), Some(Role::Master), String::new()),
        _ => (format!("redis{s}"), None, "/0".to_owned()),
    };
    let addresses = addresses(nodes, only);
    let user = password.map_or(String::new(), |password| format!("{OWN_USER}:{password}@"));
    let mut query = String::new();
    if let Some(password) = sentinel_password {
        query.push_str(&format!("?sentinel-password={password}"));
    }
    if let Some(tls) = tls {
        let mark = if query.is_empty() { '?' } else { '&' };
        let ca = tls.ca.to_string_lossy();
        query.push_str(&format!("{mark}tls-ca={}", utf8_percent_encode(&ca, &QUERY_ENCODED)));
    }
    format!("{scheme}://{user}{addresses}{path}{query}")
}

/// The slots of master `index` out of `masters`, as an inclusive range within 0 to 16,383.
pub fn slot_range(index: usize, masters: usize) -> (u16, u16) {
    let first = index * 16384 / masters;
    let last = (index + 1) * 16384 / masters - 1;
    (first as u16, last as u16)
}
