//! Turns a topology and a port into nodes, addresses and configuration files, as data; starts nothing.
//!
//! Data node `i`, from 1, listens on `127.0.0.(10+i)` and dials from there; sentinel `j` does so on `127.0.0.(100+j)`.
//! All nodes share one port, cluster buses the next. With proxied links a node is *announced* as the same last octet in
//! `127.0.1.0/24`, same port, where its fault proxy listens; the source address of a connection then tells its link.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use crate::{Links, Role, Topology, TopologyKind};

/// The name under which sentinels know the master; it is the path of a sentinel URL.
pub const MASTER_NAME: &str = "locklab";

/// A master is called down after this much silence. Together with the sentinels' periods a promotion takes about 2 s.
const SENTINEL_DOWN_AFTER_MS: u32 = 1000;

const DATA_OCTET: u8 = 10;
const SENTINEL_OCTET: u8 = 100;

/// Where every node of a topology lives and how it is configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// Masters first, then replicas, then sentinels.
    pub nodes: Vec<PlannedNode>,
    /// What lock clients connect to: announced addresses.
    pub url: String,
}

/// One node before it is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedNode {
    /// `n1`…, `s1`….
    pub name: String,
    /// Its job at start.
    pub role: Role,
    /// Where it really listens.
    pub address: SocketAddr,
    /// What it tells others.
    pub announced: SocketAddr,
    /// Port of the cluster bus, on the same addresses.
    pub bus_port: Option<u16>,
    /// Index of the master that a replica copies.
    pub master: Option<usize>,
    /// Its own directory: data and configuration.
    pub dir: PathBuf,
    /// Its configuration file.
    pub conf_path: PathBuf,
    /// What that file says at first.
    pub conf: String,
    /// Where its output goes.
    pub log: PathBuf,
}

impl Layout {
    /// Places every node of a valid topology: data below `data`, logs below `dir`, both absolute.
    pub fn plan(topology: &Topology, links: Links, port: u16, dir: &Path, data: &Path) -> Layout {
        let masters = match topology.kind {
            TopologyKind::Single | TopologyKind::Sentinel => 1,
            TopologyKind::Cluster => topology.shards,
            TopologyKind::Masters => topology.masters,
        } as usize;
        let data_nodes = topology.data_nodes() as usize;
        let sentinels = match topology.kind {
            TopologyKind::Sentinel => topology.sentinels as usize,
            _ => 0,
        };

        let mut nodes: Vec<PlannedNode> = Vec::with_capacity(data_nodes + sentinels);
        for index in 0..data_nodes {
            let role = if index < masters {
                Role::Master
            } else {
                Role::Replica
            };
            nodes.push(PlannedNode {
                master: (index >= masters).then(|| (index - masters) % masters),
                bus_port: (topology.kind == TopologyKind::Cluster).then_some(port + 1),
                ..place(
                    format!("n{}", index + 1),
                    role,
                    DATA_OCTET + 1 + index as u8,
                    links,
                    port,
                    dir,
                    data,
                )
            });
        }
        for index in 0..sentinels {
            let octet = SENTINEL_OCTET + 1 + index as u8;
            nodes.push(PlannedNode {
                master: Some(0),
                ..place(
                    format!("s{}", index + 1),
                    Role::Sentinel,
                    octet,
                    links,
                    port,
                    dir,
                    data,
                )
            });
        }
        for index in 0..nodes.len() {
            nodes[index].conf = conf(topology, &nodes, index);
        }
        Layout {
            url: url(topology.kind, &nodes),
            nodes,
        }
    }

    /// Every address that must be free: real ones, and announced ones where a proxy will listen; bus ports included.
    pub fn listens(&self) -> Vec<SocketAddr> {
        let mut all = Vec::new();
        for node in &self.nodes {
            for address in [node.address, node.announced] {
                let bus = node
                    .bus_port
                    .map(|port| SocketAddr::new(address.ip(), port));
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

fn place(
    name: String,
    role: Role,
    octet: u8,
    links: Links,
    port: u16,
    dir: &Path,
    data: &Path,
) -> PlannedNode {
    let at = |third: u8| SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 0, third, octet)), port);
    let own_dir = data.join(&name);
    PlannedNode {
        role,
        address: at(0),
        announced: match links {
            Links::Direct => at(0),
            Links::Proxied => at(1),
        },
        bus_port: None,
        master: None,
        conf_path: own_dir.join("redis.conf"),
        dir: own_dir,
        conf: String::new(),
        log: dir.join("logs").join(format!("{name}.log")),
        name,
    }
}

/// Fills the templates for one node and appends the topology's own lines, which win because they come last.
fn conf(topology: &Topology, nodes: &[PlannedNode], index: usize) -> String {
    let node = &nodes[index];
    let mut template = String::new();
    match node.role {
        Role::Sentinel => template.push_str(include_str!("../conf/sentinel.conf")),
        Role::Master | Role::Replica => {
            template.push_str(include_str!("../conf/data.conf"));
            if topology.kind == TopologyKind::Cluster {
                template.push_str(include_str!("../conf/cluster.conf"));
            } else if node.role == Role::Replica {
                template.push_str(include_str!("../conf/replica.conf"));
            }
        }
    }
    let master = node
        .master
        .map_or(node.announced, |master| nodes[master].announced);
    let mut text = fill(
        &template,
        &[
            ("address", node.address.ip().to_string()),
            ("port", node.address.port().to_string()),
            ("announced", node.announced.ip().to_string()),
            ("bus_port", node.bus_port.unwrap_or_default().to_string()),
            ("dir", quoted(&node.dir)),
            ("master_name", MASTER_NAME.to_owned()),
            ("master_announced", master.ip().to_string()),
            ("master_port", master.port().to_string()),
            ("quorum", (topology.sentinels / 2 + 1).to_string()),
            ("down_after_ms", SENTINEL_DOWN_AFTER_MS.to_string()),
        ],
    );
    if node.role != Role::Sentinel && !topology.config.is_empty() {
        text.push_str("\n# The topology's own lines.\n");
        for (directive, value) in &topology.config {
            let value = if value.is_empty() { "\"\"" } else { value };
            let _ = writeln!(text, "{directive} {value}");
        }
    }
    text
}

fn fill(template: &str, words: &[(&str, String)]) -> String {
    words
        .iter()
        .fold(template.to_owned(), |text, (word, value)| {
            text.replace(&format!("{{{{{word}}}}}"), value)
        })
}

/// A path as redis.conf reads it back: in double quotes, so that blanks survive.
fn quoted(path: &Path) -> String {
    let text = path.to_string_lossy();
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

fn url(kind: TopologyKind, nodes: &[PlannedNode]) -> String {
    let announced = |wanted: fn(Role) -> bool| {
        let addresses: Vec<String> = nodes
            .iter()
            .filter(|node| wanted(node.role))
            .map(|node| node.announced.to_string())
            .collect();
        addresses.join(",")
    };
    match kind {
        TopologyKind::Single => format!("redis://{}/0", announced(|_| true)),
        TopologyKind::Sentinel => format!(
            "redis-sentinel://{}/{MASTER_NAME}",
            announced(|role| role == Role::Sentinel)
        ),
        TopologyKind::Cluster => format!("redis-cluster://{}", announced(|_| true)),
        TopologyKind::Masters => format!("redlock://{}", announced(|_| true)),
    }
}

/// The slots of master `index` out of `masters`, as an inclusive range within 0 to 16,383.
pub fn slot_range(index: usize, masters: usize) -> (u16, u16) {
    let first = index * 16384 / masters;
    let last = (index + 1) * 16384 / masters - 1;
    (first as u16, last as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(kind: TopologyKind, links: Links) -> Layout {
        Layout::plan(
            &Topology::of(kind),
            links,
            17000,
            Path::new("/tmp/lab"),
            Path::new("/tmp/lab/nodes"),
        )
    }

    #[test]
    fn masters_come_first_then_replicas_then_sentinels() {
        let layout = plan(TopologyKind::Sentinel, Links::Direct);
        let names: Vec<&str> = layout.nodes.iter().map(|node| node.name.as_str()).collect();
        assert_eq!(names, ["n1", "n2", "n3", "s1", "s2", "s3"]);
        assert_eq!(layout.nodes[0].role, Role::Master);
        assert_eq!(layout.nodes[2].role, Role::Replica);
        assert_eq!(layout.nodes[3].role, Role::Sentinel);
    }

    #[test]
    fn a_direct_node_announces_where_it_listens() {
        let layout = plan(TopologyKind::Single, Links::Direct);
        assert_eq!(layout.nodes[0].address, layout.nodes[0].announced);
        assert_eq!(layout.url, "redis://127.0.0.11:17000/0");
        assert_eq!(layout.listens().len(), 1);
    }

    #[test]
    fn a_proxied_node_announces_the_same_octet_in_the_next_network() {
        let layout = plan(TopologyKind::Sentinel, Links::Proxied);
        assert_eq!(
            layout.nodes[1].announced,
            "127.0.1.12:17000".parse().unwrap()
        );
        assert_eq!(
            layout.url,
            "redis-sentinel://127.0.1.101:17000,127.0.1.102:17000,127.0.1.103:17000/locklab"
        );
        let replica = &layout.nodes[1].conf;
        assert!(replica.contains("replicaof 127.0.1.11 17000"), "{replica}");
        assert!(replica.contains("bind-source-addr 127.0.0.12"), "{replica}");
    }

    #[test]
    fn a_cluster_needs_bus_ports_on_real_and_announced_addresses() {
        let layout = plan(TopologyKind::Cluster, Links::Proxied);
        assert_eq!(layout.listens().len(), 6 * 2 * 2);
        assert_eq!(layout.nodes[4].master, Some(1));
        assert!(layout.nodes[4].conf.contains("cluster-port 17001"));
        assert!(
            layout.nodes[4]
                .conf
                .contains("cluster-announce-ip 127.0.1.15")
        );
    }

    #[test]
    fn no_word_of_a_template_stays_unfilled() {
        for kind in TopologyKind::ALL {
            for node in plan(kind, Links::Proxied).nodes {
                assert!(!node.conf.contains("{{"), "{}", node.conf);
            }
        }
    }

    #[test]
    fn own_lines_come_last_and_stay_away_from_sentinels() {
        let mut topology = Topology::of(TopologyKind::Sentinel);
        topology.config.insert("appendonly".into(), "yes".into());
        let layout = Layout::plan(
            &topology,
            Links::Direct,
            17000,
            Path::new("/tmp/lab"),
            Path::new("/tmp/lab/nodes"),
        );
        let data = &layout.nodes[0].conf;
        assert!(
            data.rfind("appendonly yes") > data.rfind("appendonly no"),
            "{data}"
        );
        assert!(!layout.nodes[5].conf.contains("appendonly"));
    }

    #[test]
    fn slots_are_shared_out_without_gap_or_overlap() {
        for masters in 1..=9 {
            let mut next = 0;
            for index in 0..masters {
                let (first, last) = slot_range(index, masters);
                assert_eq!(first, next);
                next = last + 1;
            }
            assert_eq!(next, 16384);
        }
    }

    #[test]
    fn a_directory_with_blanks_is_quoted() {
        let layout = Layout::plan(
            &Topology::of(TopologyKind::Single),
            Links::Direct,
            17000,
            Path::new("/tmp/my \"lab\""),
            Path::new("/tmp/my \"lab\"/nodes"),
        );
        assert!(
            layout.nodes[0]
                .conf
                .contains(r#"dir "/tmp/my \"lab\"/nodes/n1""#)
        );
    }
}
