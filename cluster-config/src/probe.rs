//! Answers "could anybody write to this lock's servers right now?" by writing a key in the slot of its name.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::future::{join_all, select_ok};
use futures_util::stream::{FuturesUnordered, StreamExt};
use redis::Value;
use redis::aio::MultiplexedConnection;

use crate::access::Dial;
use crate::node_commands::Failure;
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

    /// Writes where most sentinels send clients. An isolated old master that takes writes does not count.
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
                self.send(&sentinel.dial, ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", &self.master_name], timeout)
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
        let write = async |node: &Node| self.write(node, key, timeout).await.map(|_| node.name.clone());
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

/// Slot of a key, 0 to 16,383: CRC16 (XMODEM) of its hash tag, as the Redis Cluster specification has it.
pub fn slot_of(key: impl AsRef<[u8]>) -> u16 {
    let key = key.as_ref();
    crc16(&key[tag(key)]) % 16384
}

/// What is hashed of a key: what stands between the first `{` and the next `}`, unless that is empty.
fn tag(key: &[u8]) -> Range<usize> {
    let from = key.iter().position(|byte| *byte == b'{').map_or(0, |open| open + 1);
    match key[from..].iter().position(|byte| *byte == b'}') {
        Some(length) if from > 0 && length > 0 => from..from + length,
        _ => 0..key.len(),
    }
}

/// A key of the harness's own in the slot of `lock`; it begins with `prefix`, in which there is no brace.
fn probe_key(prefix: &str, lock: &str) -> String {
    let key = format!("{prefix}probe:{{{}}}", &lock[tag(lock.as_bytes())]);
    if slot_of(&key) == slot_of(lock) {
        return key;
    }
    // A name with a brace of its own cannot serve as a tag; about one number in 16,384 hits its slot as well.
    let wanted = slot_of(lock);
    (0_u32..)
        .map(|number| format!("{prefix}probe:{number}"))
        .find(|key| slot_of(key) == wanted)
        .unwrap_or(key)
}

fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |mut crc, byte| {
        crc ^= u16::from(*byte) << 8;
        for _ in 0..8 {
            let carry = crc & 0x8000 != 0;
            crc <<= 1;
            if carry {
                crc ^= 0x1021;
            }
        }
        crc
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_agree_with_the_cluster_specification() {
        // The specification's own check value, and the slot that redis-cli prints for "foo".
        assert_eq!(crc16(b"123456789"), 0x31c3);
        assert_eq!(slot_of("foo"), 12182);
        assert_eq!(slot_of("{foo}bar"), 12182);
        assert_eq!(slot_of("{}foo"), crc16(b"{}foo") % 16384);
    }

    #[test]
    fn a_probe_key_lies_in_the_slot_of_its_lock_whatever_braces_that_has() {
        for lock in ["orders", "a{b}c", "{}x", "a}b", "a{b", "", "}{", "{{x}}"] {
            assert_eq!(slot_of(probe_key("locklab:", lock)), slot_of(lock), "{lock:?}");
        }
    }
}
