//! Where containers listen: on this machine's own loopback addresses, or behind ports that the engine publishes on 127.0.0.1.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use testcontainers::bollard::models::{HostConfig, HostConfigLogConfig, PortBinding};

use crate::layout::{Layout, Plan};
use crate::{Access, ContainerNetwork, Links, Topology, TopologyKind};

/// The engine's own network, where a container with published ports is unless it joins another's.
pub(crate) const BRIDGE: &str = "bridge";

/// The bus ports of a cluster lie so far above the client ports. They exist inside the shared network only.
const BUS_OFFSET: u16 = 10_000;

/// How nodes are placed in a network, and how many ports in a row they need.
pub(crate) fn plan(network: ContainerNetwork, topology: &Topology) -> (Plan, u16) {
    match network {
        ContainerNetwork::Host => (Layout::plan, 3),
        ContainerNetwork::Published => (published, topology.places().len() as u16),
    }
}

pub(crate) fn is_shared(network: ContainerNetwork, kind: TopologyKind) -> bool {
    network == ContainerNetwork::Published
        && matches!(kind, TopologyKind::Sentinel | TopologyKind::Cluster)
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
    for (index, planned) in nodes.iter_mut().enumerate() {
        let own = port + index as u16;
        for port in &mut planned.bus_ports {
            *port = own + BUS_OFFSET;
        }
        let node = &mut planned.node;
        node.address = SocketAddr::from((Ipv4Addr::LOCALHOST, own));
        node.announced = node.address;
        node.dial = access.dial(node.role, node.address, &planned.dir);
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
pub(crate) enum NetworkMode {
    Host,
    /// In the network of another container.
    In(String),
    /// In a network of its own, with these ports published on 127.0.0.1.
    Behind(Vec<u16>),
}

impl NetworkMode {
    /// Ports must be declared as well as bound.
    pub(crate) fn ports(&self) -> &[u16] {
        match self {
            NetworkMode::Behind(ports) => ports,
            NetworkMode::Host | NetworkMode::In(_) => &[],
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
                NetworkMode::Host => Some("host".to_owned()),
                NetworkMode::In(container) => Some(format!("container:{container}")),
                NetworkMode::Behind(_) => Some(BRIDGE.to_owned()),
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

    fn placed(kind: TopologyKind) -> Layout {
        let topology = Topology::of(kind);
        let (dir, data) = (Path::new("/tmp/lab"), Path::new("/tmp/lab/nodes"));
        let access = Access::of(&topology);
        published(&topology, Links::Direct, 17000, dir, data, &access)
    }

    #[test]
    fn published_nodes_differ_by_port_and_announce_where_they_are_reached() {
        let layout = placed(TopologyKind::Cluster);
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
        let layout = placed(TopologyKind::Sentinel);
        assert!(layout.nodes[1].conf.contains("replicaof 127.0.0.1 17000"));
        assert!(
            layout.nodes[3]
                .conf
                .contains("sentinel monitor locklab 127.0.0.1 17000 2")
        );
        let sentinels = Topology::of(TopologyKind::Sentinel);
        assert_eq!(plan(ContainerNetwork::Published, &sentinels).1, 6);
    }

    #[test]
    fn nothing_is_bound_beyond_loopback() {
        for place in [
            NetworkMode::Host,
            NetworkMode::In("holder".into()),
            NetworkMode::Behind(vec![17000, 17001]),
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
