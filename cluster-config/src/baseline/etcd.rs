//! etcd: one member or several, asked over the JSON form of their API.

use std::net::SocketAddr;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::select_ok;
use serde_json::Value;

use super::{System, exchange, flag, program, settings};
use crate::layout::PlannedNode;
use crate::{ClusterError, Node, Role, Server, Topology};

#[derive(Debug)]
pub(super) struct Etcd;

#[async_trait]
impl System for Etcd {
    fn find(&self, server: &str) -> Result<Server, ClusterError> {
        program(server, "etcd", "LOCKLAB_ETCD", "etcd", [])
    }

    fn url(&self, addresses: &str) -> String {
        format!("etcd://{addresses}")
    }

    fn plan(&self, topology: &Topology, nodes: &mut [PlannedNode]) {
        let peer = |node: &PlannedNode, ip| format!("http://{ip}:{}", node.address.port() + 1);
        let members = nodes.iter();
        let members: Vec<String> =
            members.map(|node| format!("{}={}", node.name, peer(node, node.announced.ip()))).collect();
        // The members of one cluster alone have it, so that no two take each other's in.
        let token = nodes[0].dir.to_string_lossy().into_owned();
        for node in nodes {
            node.bus_ports = vec![node.address.port() + 1];
            let data = node.dir.join("data");
            let (listens, says) = (peer(node, node.address.ip()), peer(node, node.announced.ip()));
            node.args = settings(topology, flag);
            for (name, value) in [
                ("name", node.name.clone()),
                ("data-dir", data.to_string_lossy().into_owned()),
                ("listen-client-urls", format!("http://{}", node.address)),
                ("advertise-client-urls", format!("http://{}", node.announced)),
                ("listen-peer-urls", listens),
                ("initial-advertise-peer-urls", says),
                ("initial-cluster", members.join(",")),
                ("initial-cluster-token", token.clone()),
            ] {
                node.args.extend(flag(name, &value));
            }
        }
    }

    async fn hello(&self, address: SocketAddr) -> Result<(Role, String), String> {
        let status = ask(address, "/v3/maintenance/status", "{}").await?;
        let (own, leader) = (&status["header"]["member_id"], &status["leader"]);
        let role = match leader.as_str() {
            None | Some("0") => return Err("it knows no leader".to_owned()),
            Some(_) if own == leader => Role::Master,
            Some(_) => Role::Replica,
        };
        let version = status["version"].as_str().unwrap_or_default();
        Ok((role, version.to_owned()))
    }

    async fn writes(&self, nodes: &[Node], timeout: Duration) -> bool {
        // "locklab:probe" and "1", as JSON carries bytes.
        const PUT: &str = r#"{"key": "bG9ja2xhYjpwcm9iZQ==", "value": "MQ=="}"#;
        let put = |node: &Node| Box::pin(ask(node.address, "/v3/kv/put", PUT));
        matches!(tokio::time::timeout(timeout, select_ok(nodes.iter().map(put))).await, Ok(Ok(_)))
    }
}

async fn ask(address: SocketAddr, path: &str, body: &str) -> Result<Value, String> {
    // HTTP/1.0: the answer comes whole and ends with the connection.
    let request =
        format!("POST {path} HTTP/1.0\r\nHost: {address}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    let answer = exchange(address, request.as_bytes(), |_| false).await?;
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.lines().next().unwrap_or_default();
    if !status.contains(" 200 ") {
        return Err(format!("{path} was answered {status:?} {}", body.trim()));
    }
    serde_json::from_str(body).map_err(|error| format!("{path}: {error}"))
}
