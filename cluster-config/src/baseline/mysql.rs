//! MariaDB, for locks on MySQL: one server that admits everybody, with a database `locklab`.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use async_trait::async_trait;

use super::{System, exchange, flag, program, settings, shell};
use crate::layout::PlannedNode;
use crate::{ClusterError, Role, Server, Topology};

/// What a new data directory gets. One statement stands on one line, as the server wants it here.
const BOOTSTRAP: &str = r#"
    mkdir "$2"
    {
        echo 'create database mysql;'
        echo 'use mysql;'
        cat /usr/share/mysql/mysql_system_tables.sql /usr/share/mysql/mysql_performance_tables.sql \
            /usr/share/mysql/mysql_system_tables_data.sql
        echo 'create database locklab;'
    } | "$1" --no-defaults --bootstrap --user="$(id -un)" --datadir="$2"
"#;

#[derive(Debug)]
pub(super) struct Mysql;

#[async_trait]
impl System for Mysql {
    fn find(&self, server: &str) -> Result<Server, ClusterError> {
        program(server, "mariadb", "LOCKLAB_MARIADBD", "mariadbd", ["/usr/sbin".into()])
    }

    fn url(&self, addresses: &str) -> String {
        format!("mysql://root@{addresses}/locklab")
    }

    fn plan(&self, topology: &Topology, nodes: &mut [PlannedNode]) {
        for node in nodes {
            node.args = vec!["--no-defaults".to_owned()];
            node.args.extend(settings(topology, flag));
            for (name, value) in [
                (
                    "user",
                    nix::unistd::User::from_uid(nix::unistd::geteuid())
                        .ok()
                        .flatten()
                        .map_or_else(|| "root".to_owned(), |user| user.name),
                ),
                ("datadir", node.dir.join("data").to_string_lossy().into_owned()),
                ("bind-address", node.address.ip().to_string()),
                ("port", node.address.port().to_string()),
                // Its path may be longer than a socket's can be; nobody needs it.
                ("socket", format!("@locklab-{}", node.address)),
            ] {
                node.args.extend(flag(name, &value));
            }
            node.args.push("--skip-grant-tables".to_owned());
        }
    }

    fn bootstrap(&self, server: &Path, node: &PlannedNode) -> Option<Command> {
        let data = node.dir.join("data");
        (!data.exists()).then(|| shell(BOOTSTRAP, [server, &data]))
    }

    async fn hello(&self, address: SocketAddr) -> Result<(Role, String), String> {
        // It speaks first: a length of three bytes, a number, the version of its protocol, or 0xff and an
        // error, and its own, which ends with a zero.
        let ended = |said: &[u8]| said.get(4) == Some(&0xff) || said[4.min(said.len())..].contains(&0);
        let said = exchange(address, b"", ended).await?;
        let text = String::from_utf8_lossy(said.get(5..).unwrap_or_default());
        let own = text.split('\0').next().unwrap_or_default();
        match said.get(4) {
            // MariaDB's comes after one that old clients of MySQL expect.
            Some(10) => Ok((Role::Master, own.trim_start_matches("5.5.5-").to_owned())),
            _ => Err(format!("it greets with {text:?}")),
        }
    }
}
