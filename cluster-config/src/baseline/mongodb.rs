//! MongoDB: one server that admits everybody. Untested, since no package source has its server: it runs from
//! its makers' image, or as a program that is given.

use std::net::SocketAddr;

use async_trait::async_trait;

use super::{System, exchange, flag, program, settings};
use crate::layout::PlannedNode;
use crate::{ClusterError, Role, Server, Topology};

/// buildInfo on the database `admin`: length, number, number answered, OP_MSG, no flags, a document of BSON.
const BUILD_INFO: &[u8] = b"\x38\0\0\0\x01\0\0\0\0\0\0\0\xdd\x07\0\0\0\0\0\0\0\
    \x23\0\0\0\x10buildInfo\0\x01\0\0\0\x02$db\0\x06\0\0\0admin\0\0";

#[derive(Debug)]
pub(super) struct MongoDb;

#[async_trait]
impl System for MongoDb {
    fn find(&self, server: &str) -> Result<Server, ClusterError> {
        program(server, "mongodb", "LOCKLAB_MONGOD", "mongod", [])
    }

    fn url(&self, addresses: &str) -> String {
        format!("mongodb://{addresses}/locklab")
    }

    fn plan(&self, topology: &Topology, nodes: &mut [PlannedNode]) {
        for node in nodes {
            node.args = settings(topology, flag);
            for (name, value) in [
                ("dbpath", node.dir.to_string_lossy().into_owned()),
                ("bind_ip", node.address.ip().to_string()),
                ("port", node.address.port().to_string()),
            ] {
                node.args.extend(flag(name, &value));
            }
            node.args.push("--nounixsocket".to_owned());
        }
    }

    async fn hello(&self, address: SocketAddr) -> Result<(Role, String), String> {
        let whole = |said: &[u8]| {
            let length = said.first_chunk().map(|length| u32::from_le_bytes(*length));
            length.is_some_and(|length| said.len() >= length as usize)
        };
        let said = exchange(address, BUILD_INFO, whole).await?;
        let said = String::from_utf8_lossy(&said);
        // The field's type and name, the length of its text, and its text.
        let version = said.split("\u{2}version\0").nth(1).and_then(|found| found.get(4..));
        let version = version.ok_or_else(|| format!("buildInfo was answered {said:?}"))?;
        Ok((Role::Master, version.replace('\0', " ")))
    }
}
