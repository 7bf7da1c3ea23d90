//! PostgreSQL: one server that trusts everybody, with a database `locklab`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use async_trait::async_trait;

use super::{System, exchange, program, settings, shell};
use crate::layout::PlannedNode;
use crate::proc_fs::entries;
use crate::{ClusterError, Role, Server, Topology};

/// What a new data directory gets.
const BOOTSTRAP: &str = r#"
    "$1" -D "$3" -A trust -U postgres -E UTF8 --no-locale --no-sync
    echo 'create database locklab;' | "$2" --single -D "$3" postgres
"#;

#[derive(Debug)]
pub(super) struct Postgres;

#[async_trait]
impl System for Postgres {
    fn find(&self, server: &str) -> Result<Server, ClusterError> {
        // The newest that is installed, in Debian's place for it.
        let versions = entries(Path::new("/usr/lib/postgresql"));
        let mut folders: Vec<PathBuf> = versions.map(|version| version.path().join("bin")).collect();
        folders.sort_unstable();
        let mut found =
            program(server, "postgres", "LOCKLAB_POSTGRES", "postgres", folders.into_iter().rev())?;
        // initdb is beside it, and not beside a link to it.
        found.path = found.path.canonicalize().unwrap_or(found.path);
        Ok(found)
    }

    fn url(&self, addresses: &str) -> String {
        format!("postgres://postgres@{addresses}/locklab")
    }

    fn plan(&self, topology: &Topology, nodes: &mut [PlannedNode]) {
        for node in nodes {
            let data = node.dir.join("data");
            node.args = vec!["-D".to_owned(), data.to_string_lossy().into_owned()];
            node.args.extend(settings(topology, setting));
            node.args.extend(setting("listen_addresses", &node.address.ip().to_string()));
            node.args.extend(setting("port", &node.address.port().to_string()));
            node.args.extend(setting("unix_socket_directories", ""));
        }
    }

    fn refuses_root(&self) -> bool {
        true
    }

    fn bootstrap(&self, server: &Path, node: &PlannedNode) -> Option<Command> {
        let data = node.dir.join("data");
        let initdb = server.with_file_name("initdb");
        (!data.exists()).then(|| shell(BOOTSTRAP, [&initdb, server, &data]))
    }

    async fn hello(&self, address: SocketAddr) -> Result<(Role, String), String> {
        let mut hello = Vec::from(&b"\0\0\0\0\0\x03\0\0user\0postgres\0database\0locklab\0\0"[..]);
        hello[3] = hello.len() as u8;
        // Messages are a letter, a length that counts itself, the rest; Z: ready for a query, E: an error.
        let last = |said: &[u8]| {
            let (mut at, mut kind) = (0, None);
            while let Some([letter, a, b, c, d]) = said.get(at..at + 5) {
                at += 1 + u32::from_be_bytes([*a, *b, *c, *d]) as usize;
                kind = Some(*letter).filter(|_| at <= said.len());
            }
            kind
        };
        let said = exchange(address, &hello, |said| matches!(last(said), Some(b'Z' | b'E'))).await?;
        let text = String::from_utf8_lossy(&said);
        let version = text.split("server_version\0").nth(1).unwrap_or_default();
        match last(&said) {
            Some(b'Z') => Ok((Role::Master, version.to_owned())),
            _ => Err(format!("it says {text:?}")),
        }
    }
}

fn setting(name: &str, value: &str) -> Vec<String> {
    vec!["-c".to_owned(), format!("{name}={value}")]
}
