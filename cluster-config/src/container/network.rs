//! Where containers listen: on this machine's own loopback addresses, or behind ports that the engine publishes on 127.0.0.1.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use testcontainers::bollard::models::{HostConfig, HostConfigLogConfig, PortBinding};

use crate::layout::Layout;
use crate::{Access, Links, Topology, TopologyKind};

/// How containers are reached. Nothing listens beyond loopback in either form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    /// The machine's own network: each node has a loopback address of its own, as processes have, and links can be harmed.
    Host,
    /// Ports that the engine publishes on 127.0.0.1, the same number inside and outside: for engines in a virtual machine, as Docker
    /// Desktop. Sentinel and cluster nodes share the network of one container that nobody harms, so that addresses mean
    /// the same to nodes and to clients. Links between nodes do not pass this machine and cannot be harmed.
    Published,
}

/// The bus ports of a cluster lie so far above the client ports. They exist inside the shared network only.
const BUS_OFFSET: u16 = 10_000;

impl Network {
    /// Whether the nodes of this kind share one container's network.
    pub(crate) fn is_shared(self, kind: TopologyKind) -> bool {
        self == Network::Published && matches!(kind, TopologyKind::Sentinel | TopologyKind::Cluster)
    }

    /// How many ports in a row a topology needs.
    pub(crate) fn ports(self, topology: &Topology) -> u16 {
        match self {
            Network::Host => 2,
            Network::Published => topology.places().len() as u16,
        }
    }

    /// Places the nodes.
    pub(crate) fn layout(self) -> fn(&Topology, Links, u16, &Path, &Path, &Access) -> Layout {
        match self {
            Network::Host => Layout::plan,
            Network::Published => published,
        }
    }
}

/// All nodes on 127.0.0.1, each on a port of its own.
fn published(
    topology: &Topology,
    links: Links,
    port: u16,
    dir: &Path,
    data: &Path,
    access: &Access,
) -> Layout {
    let mut nodes = Layout::plan(topology, links, port, dir, data, access).nodes;
    for (index, node) in nodes.iter_mut().enumerate() {
        let own = port + index as u16;
        node.address = SocketAddr::from((Ipv4Addr::LOCALHOST, own));
        node.announced = node.address;
        node.bus_port = node.bus_port.map(|_| own + BUS_OFFSET);
        node.dial = access.dial(node.role, node.address, &node.dir);
    }
    let mut plan = Layout::of(topology, nodes, data, access);
    for node in &mut plan.nodes {
        node.conf.push_str(
            "\n# Published ports arrive on the container's own address. Nothing of this is seen outside of it.\nbind 0.0.0.0\n",
        );
    }
    plan
}

/// What is asked of the engine for one container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// In the network of this machine.
    Host,
    /// In the network of another container.
    In(String),
    /// In a network of its own, with these ports published on 127.0.0.1.
    Behind(Vec<u16>),
}

impl Place {
    /// Ports must be declared as well as bound.
    pub(crate) fn ports(&self) -> &[u16] {
        match self {
            Place::Behind(ports) => ports,
            Place::Host | Place::In(_) => &[],
        }
    }

    /// The settings. testcontainers' own way would publish on every address of this machine, and would make a stray network for
    /// a container that joins another's.
    pub(crate) fn settings(self) -> impl Fn(&mut HostConfig) + Send + Sync + 'static {
        move |host| {
            // Whatever the engine's default is: logs must be readable through it.
            host.log_config = Some(HostConfigLogConfig {
                typ: Some("json-file".to_owned()),
                config: None,
            });
            host.publish_all_ports = Some(false);
            host.port_bindings = Some(self.ports().iter().map(|port| binding(*port)).collect());
            host.network_mode = match &self {
                Place::Host => Some("host".to_owned()),
                Place::In(container) => Some(format!("container:{container}")),
                Place::Behind(_) => Some("bridge".to_owned()),
            };
        }
    }
}

fn binding(port: u16) -> (String, Option<Vec<PortBinding>>) {
    let here = PortBinding {
        host_ip: Some(Ipv4Addr::LOCALHOST.to_string()),
        host_port: Some(port.to_string()),
    };
    (format!("{port}/tcp"), Some(vec![here]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(kind: TopologyKind) -> Layout {
        let topology = Topology::of(kind);
        let (dir, data) = (Path::new("/tmp/lab"), Path::new("/tmp/lab/nodes"));
        let access = Access::of(&topology);
        published(&topology, Links::Direct, 17000, dir, data, &access)
    }

    #[test]
    fn published_nodes_differ_by_port_and_announce_where_they_are_reached() {
        let layout = plan(TopologyKind::Cluster);
        assert!(
            layout
                .url
                .starts_with("redis-cluster://127.0.0.1:17000,127.0.0.1:17001,")
        );
        let replica = &layout.nodes[4];
        assert_eq!(replica.address, "127.0.0.1:17004".parse().unwrap());
        assert_eq!(replica.announced, replica.address);
        assert!(
            replica.conf.contains("cluster-port 27004"),
            "{}",
            replica.conf
        );
        assert!(replica.conf.ends_with("bind 0.0.0.0\n"));
    }

    #[test]
    fn a_published_replica_is_told_its_masters_own_port() {
        let layout = plan(TopologyKind::Sentinel);
        assert!(layout.nodes[1].conf.contains("replicaof 127.0.0.1 17000"));
        assert!(
            layout.nodes[3]
                .conf
                .contains("sentinel monitor locklab 127.0.0.1 17000 2")
        );
        assert_eq!(
            Network::Published.ports(&Topology::of(TopologyKind::Sentinel)),
            6
        );
    }

    #[test]
    fn nothing_is_bound_beyond_loopback() {
        for place in [
            Place::Host,
            Place::In("holder".into()),
            Place::Behind(vec![17000, 17001]),
        ] {
            let mut host = HostConfig::default();
            let ports = place.ports().len();
            place.settings()(&mut host);
            assert_eq!(host.publish_all_ports, Some(false));
            let bindings = host.port_bindings.unwrap();
            assert_eq!(bindings.len(), ports);
            let mut addresses = bindings.values().flatten().flatten();
            assert!(addresses.all(|to| to.host_ip.as_deref() == Some("127.0.0.1")));
        }
    }
}
