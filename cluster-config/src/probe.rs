//! Answers "could anybody write to this lock's servers right now?" by writing, over connections of its own.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::future::{join_all, select_ok};
use futures_util::stream::{FuturesUnordered, StreamExt};
use redis::Value;
use redis::aio::MultiplexedConnection;

use crate::access::Dial;
use crate::node_commands::Failure;
use crate::slot::probe_key;
use crate::{Node, Role, TopologyKind, Writer, node_commands};

/// Connections kept between probes, and the node that took the last write.
#[derive(Debug)]
pub(crate) struct Prober {
    master_name: String,
    /// What every key that is written begins with.
    prefix: String,
    connections: Mutex<BTreeMap<SocketAddr, MultiplexedConnection>>,
    last_writer: Mutex<Option<String>>,
    /// Who writes in its place to somebody else's servers that are not Redis.
    writer: Option<Arc<dyn Writer>>,
}

impl Prober {
    /// For servers whose sentinels know the master by this name; writes keys that begin with `prefix`.
    pub(crate) fn new(master_name: &str, prefix: &str, writer: Option<Arc<dyn Writer>>) -> Prober {
        Prober {
            master_name: master_name.to_owned(),
            prefix: prefix.to_owned(),
            connections: Mutex::default(),
            last_writer: Mutex::default(),
            writer,
        }
    }

    /// Whether a write to the lock's slot succeeds within `timeout`.
    pub(crate) async fn probe(
        &self,
        kind: TopologyKind,
        nodes: &[Node],
        lock: &str,
        timeout: Duration,
    ) -> bool {
        let key = probe_key(&self.prefix, lock);
        if let Some(writer) = &self.writer {
            return writer.writes(&key, timeout).await;
        }
        if let Some(system) = kind.system() {
            return system.writes(nodes, timeout).await;
        }
        let attempt = async {
            match kind {
                TopologyKind::Masters => self.majority(nodes, &key, timeout).await,
                TopologyKind::Sentinel => self.sentinels_master(nodes, &key, timeout).await,
                TopologyKind::Cluster => self.slot_owner(nodes, &key, timeout).await,
                _ => self.write(&nodes[0], &key, timeout).await.is_ok(),
            }
        };
        tokio::time::timeout(timeout, attempt).await.unwrap_or(false)
    }

    async fn majority(&self, nodes: &[Node], key: &str, timeout: Duration) -> bool {
        let mut writes: FuturesUnordered<_> =
            nodes.iter().map(|node| self.write(node, key, timeout)).collect();
        let mut done = 0;
        while let Some(write) = writes.next().await {
            done += usize::from(write.is_ok());
            if done > nodes.len() / 2 {
                return true;
            }
        }
        false
    }

    /// Writes where most sentinels send clients. An isolated old master that still takes writes does not
    /// count.
    async fn sentinels_master(&self, nodes: &[Node], key: &str, timeout: Duration) -> bool {
        match self.voted_master(nodes, timeout / 2).await {
            Some(master) => self.write(master, key, timeout).await.is_ok(),
            // With all sentinels gone clients have only the master they know.
            None => self.anyone(nodes, key, timeout).await,
        }
    }

    async fn voted_master<'a>(&self, nodes: &'a [Node], timeout: Duration) -> Option<&'a Node> {
        let sentinels = || nodes.iter().filter(|node| node.role == Role::Sentinel);
        let mut answers: FuturesUnordered<_> = sentinels()
            .map(|sentinel| {
                let args = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", &self.master_name];
                self.send(&sentinel.dial, args, timeout)
            })
            .collect();
        let mut votes: BTreeMap<String, usize> = BTreeMap::new();
        while let Some(answer) = answers.next().await {
            let Ok(answer) = answer else { continue };
            let count = votes.entry(node_commands::text(&answer).replace('\n', ":")).or_default();
            *count += 1;
            if *count > sentinels().count() / 2 {
                break;
            }
        }
        let (address, _) = votes.into_iter().max_by_key(|(_, count)| *count)?;
        nodes.iter().find(|node| node.announced.to_string() == address)
    }

    /// Writes where the last probe succeeded, else asks every member: only the slot's owner accepts.
    async fn slot_owner(&self, nodes: &[Node], key: &str, timeout: Duration) -> bool {
        let last = self.last_writer.lock().unwrap().clone();
        if let Some(last) = last.and_then(|last| nodes.iter().find(|node| node.name == last))
            && self.write(last, key, timeout / 2).await.is_ok()
        {
            return true;
        }
        self.anyone(nodes, key, timeout).await
    }

    async fn anyone(&self, nodes: &[Node], key: &str, timeout: Duration) -> bool {
        let data = nodes.iter().filter(|node| node.role != Role::Sentinel);
        let write = async |node: &Node| {
            let written = self.write(node, key, timeout).await;
            written.map(|_| node.name.clone())
        };
        match select_ok(data.map(|node| Box::pin(write(node)))).await {
            Ok((writer, _)) => {
                *self.last_writer.lock().unwrap() = Some(writer);
                true
            }
            Err(_) => false,
        }
    }

    /// One write; a kept connection that turns out to be dead is replaced once.
    async fn write(&self, node: &Node, key: &str, timeout: Duration) -> Result<Value, Failure> {
        let started = Instant::now();
        let set = ["SET", key, "1", "PX", "1000"];
        let write = self.send(&node.dial, set, timeout).await;
        match timeout.checked_sub(started.elapsed()) {
            Some(left) if !left.is_zero() && !matches!(write, Ok(_) | Err(Failure::Answered(_))) => {
                self.send(&node.dial, set, left).await
            }
            _ => write,
        }
    }

    async fn send<const N: usize>(
        &self,
        dial: &Dial,
        args: [&str; N],
        timeout: Duration,
    ) -> Result<Value, Failure> {
        let kept = self.connections.lock().unwrap().get(&dial.address).cloned();
        let mut connection = match kept {
            Some(connection) => connection,
            None => {
                let opened = node_commands::connect(dial, timeout).await?;
                self.connections.lock().unwrap().insert(dial.address, opened.clone());
                opened
            }
        };
        let answer = node_commands::send(&mut connection, &args, timeout).await;
        if !matches!(answer, Ok(_) | Err(Failure::Answered(_))) {
            self.connections.lock().unwrap().remove(&dial.address);
        }
        answer
    }
}

pub(crate) async fn roles(nodes: &[Node], timeout: Duration) -> BTreeMap<String, Role> {
    let data = nodes.iter().filter(|node| node.role != Role::Sentinel);
    let answers = join_all(data.map(|node| async move {
        let answer = node_commands::ask(&node.dial, &["ROLE"], timeout).await.ok()?;
        let role = match node_commands::text(node_commands::items(&answer).first()?).as_str() {
            "master" => Role::Master,
            "slave" => Role::Replica,
            _ => return None,
        };
        Some((node.name.clone(), role))
    }))
    .await;
    answers.into_iter().flatten().collect()
}
