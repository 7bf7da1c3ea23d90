//! Apache ZooKeeper: one server or an ensemble, from the jars of its release, asked by its four-letter words.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use async_trait::async_trait;

use super::{System, chosen, exchange, settings, shell};
use crate::layout::PlannedNode;
use crate::proc_fs::entries;
use crate::server::{in_path, servers_dir, version};
use crate::{ClusterError, Role, Server, Topology};

const VARIABLE: &str = "LOCKLAB_ZOOKEEPER";

/// The folder may be a pattern (an image has its version in the name); without separators it stays one word.
const RUN: &str = r#"IFS=; cd $1; shift; exec java -Xmx256m -Djava.net.preferIPv4Stack=true -cp '*' "$@""#;

#[derive(Debug)]
pub(super) struct ZooKeeper;

#[async_trait]
impl System for ZooKeeper {
    /// Its path is the folder of its jars.
    fn find(&self, server: &str) -> Result<Server, ClusterError> {
        let folder = chosen(server, "zookeeper", VARIABLE)
            .unwrap_or_else(|| servers_dir().unwrap_or_default().join("zookeeper"));
        let remedy = format!(
            "`make setup-baselines` gets them; or name a folder with zookeeper-*.jar and all that it needs in {VARIABLE}"
        );
        let mut jars = entries(&folder).map(|jar| jar.file_name().to_string_lossy().into_owned());
        // Not zookeeper-jute-3.9.5.jar.
        let found = jars.find_map(|jar| version(jar.strip_prefix("zookeeper-")?));
        let version =
            found.ok_or_else(|| missing!("no jars of ZooKeeper in {}; {remedy}", folder.display()))?;
        if in_path("java").is_none() {
            return Err(missing!(
                "java was not found, which ZooKeeper runs in; `make setup-baselines` installs it"
            ));
        }
        Ok(Server {
            path: folder,
            flavour: "zookeeper".to_owned(),
            version: version.trim_end_matches('.').to_owned(),
        })
    }

    fn url(&self, addresses: &str) -> String {
        format!("zookeeper://{addresses}")
    }

    fn plan(&self, topology: &Topology, nodes: &mut [PlannedNode]) {
        let port = nodes[0].address.port();
        let names: Vec<String> = (1..=nodes.len()).map(|id| format!("member-{id}")).collect();
        // A server listens at its own entry of the list, and tells others to dial it there. So entries are
        // names, which are its own address to itself and its proxy to the others.
        let members = names.iter().enumerate();
        let members: String = members
            .map(|(index, name)| {
                let id = index + 1;
                format!("server.{id}={name}:{}:{}\n", port + 1, port + 2)
            })
            .collect();
        let addresses: Vec<_> = nodes.iter().map(|node| (node.address, node.announced)).collect();
        let ensemble = nodes.len() > 1;
        for (own, node) in nodes.iter_mut().enumerate() {
            let hosts = addresses.iter().zip(&names).enumerate().map(|(index, ((real, announced), name))| {
                let seen = if index == own { real } else { announced };
                format!("{} {name}\n", seen.ip())
            });
            let hosts_path = node.dir.join("hosts");
            node.files = vec![
                (hosts_path.clone(), hosts.collect()),
                (node.dir.join("myid"), format!("{}\n", own + 1)),
            ];
            node.conf_path = node.dir.join("zoo.cfg");
            let lines = settings(topology, |name, value| vec![format!("{name}={value}\n")]);
            node.conf = format!(
                "tickTime=500\ninitLimit=10\nsyncLimit=4\nminSessionTimeout=1000\nmaxSessionTimeout=60000\nmaxClientCnxns=0\n{}\
                 # The harness's own.\n\
                 dataDir={}\nclientPort={port}\nclientPortAddress={}\nadmin.enableServer=false\n4lw.commands.whitelist=srvr\n",
                lines.concat(),
                node.dir.display(),
                node.address.ip(),
            );
            if ensemble {
                node.conf.push_str(&members);
                node.bus_ports = vec![port + 1, port + 2];
            }
            node.args = vec![
                format!("-Djdk.net.hosts.file={}", hosts_path.display()),
                "org.apache.zookeeper.server.quorum.QuorumPeerMain".to_owned(),
                node.conf_path.to_string_lossy().into_owned(),
            ];
        }
    }

    fn program(&self, server: &Path) -> Command {
        shell(RUN, [server])
    }

    async fn hello(&self, address: SocketAddr) -> Result<(Role, String), String> {
        let said = exchange(address, b"srvr", |_| false).await?;
        let said = String::from_utf8_lossy(&said).into_owned();
        match said.lines().find_map(|line| line.strip_prefix("Mode: ")) {
            Some("leader" | "standalone") => Ok((Role::Master, said)),
            Some("follower") => Ok((Role::Replica, said)),
            _ => Err(format!("srvr was answered {:?}", said.trim())),
        }
    }
}
