//! What the servers of a target have counted so far, asked over connections of its own; of other systems what
//! the kernel counts of their processes.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crate::environment::tree_cpu_us;
use crate::links::{Links, cmd};

/// What all data nodes of a target have counted since they started.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ServerCounts {
    /// Commands, those called by scripts included, the questions of [`ServerWatch`] not. What processes alone
    /// do not show is `None`.
    pub calls: Option<u64>,
    /// CPU time, user and system, in microseconds.
    pub cpu_us: f64,
    /// Bytes received and sent, replication included, the questions of [`ServerWatch`] nearly all left out.
    pub bytes: Option<u64>,
    /// Memory in use now.
    pub memory_bytes: Option<u64>,
    /// Connections of clients now.
    pub connections: Option<u64>,
}

/// Connections to every data node: masters and replicas, as they were found when it was made.
#[derive(Default)]
pub struct ServerWatch {
    /// `None`: servers that are not asked.
    links: Option<Links>,
    nodes: Vec<String>,
    processes: Vec<u32>,
    answered: AtomicU64,
}

impl ServerWatch {
    /// Finds the data nodes; `None` where that fails: figures are then absent, never wrong.
    pub async fn find(target: &str) -> Option<Self> {
        let links = Links::parse(target, Duration::from_secs(2)).ok()?;
        let nodes = links.data_nodes().await.ok()?;
        Some(ServerWatch { links: Some(links), nodes, ..ServerWatch::default() })
    }

    /// Servers without counters of their own: of their processes and those below, the CPU time is known.
    pub fn of_processes(processes: &[u32]) -> Self {
        ServerWatch { processes: processes.to_vec(), ..ServerWatch::default() }
    }

    /// Asks every node; `None` if one of them does not answer.
    pub async fn counts(&self) -> Option<ServerCounts> {
        let mut sum = ServerCounts::default();
        let Some(links) = &self.links else {
            let times = self.processes.iter().map(|pid| tree_cpu_us(*pid));
            sum.cpu_us = times.sum::<Option<f64>>()?;
            return Some(sum);
        };
        let add = |sum: &mut Option<u64>, one: Option<u64>| {
            *sum = Some(sum.unwrap_or(0) + one.unwrap_or(0));
        };
        let mut answered = 0;
        for node in &self.nodes {
            let info = cmd(&["INFO", "commandstats", "cpu", "stats", "memory", "clients"]);
            let text: String = links.ask(node, &info).await.ok()?;
            let one = read(&text)?;
            // The server counts an answer after it was made up: the next one tells it.
            answered += text.len() as u64;
            add(&mut sum.calls, one.calls);
            sum.cpu_us += one.cpu_us;
            add(&mut sum.bytes, one.bytes);
            add(&mut sum.memory_bytes, one.memory_bytes);
            add(&mut sum.connections, one.connections);
        }
        let before = self.answered.fetch_add(answered, Relaxed);
        sum.bytes = sum.bytes.map(|bytes| bytes.saturating_sub(before));
        Some(sum)
    }

    /// How many data nodes there are.
    pub(crate) fn nodes(&self) -> usize {
        self.nodes.len()
    }

    /// The median of some PINGs to the first node.
    pub async fn round_trip(&self) -> Option<Duration> {
        const PINGS: usize = 21;
        let (links, node) = (self.links.as_ref()?, self.nodes.first()?);
        let mut times = Vec::new();
        for _ in 0..PINGS {
            let sent = std::time::Instant::now();
            links.ask::<String>(node, &cmd(&["PING"])).await.ok()?;
            times.push(sent.elapsed());
        }
        times.sort_unstable();
        Some(times[PINGS / 2])
    }

    /// `redis_version` of every node.
    pub async fn versions(&self) -> BTreeMap<String, String> {
        let (info, mut versions) = (cmd(&["INFO", "server"]), BTreeMap::new());
        for (node, links) in self.nodes.iter().zip(self.links.iter().cycle()) {
            if let Ok(text) = links.ask::<String>(node, &info).await
                && let Some(version) = text.lines().find_map(|l| l.strip_prefix("redis_version:"))
            {
                versions.insert(node.clone(), version.trim().to_owned());
            }
        }
        versions
    }
}

fn read(info: &str) -> Option<ServerCounts> {
    let mut counts = ServerCounts::default();
    let mut seen_cpu = false;
    for line in info.lines() {
        let after = |names: &[&str]| names.iter().find_map(|name| line.strip_prefix(name));
        if let Some(stat) = line.strip_prefix("cmdstat_") {
            let (command, figures) = stat.split_once(':')?;
            if command == "info" {
                continue;
            }
            let calls = figures.split(',').find_map(|f| f.strip_prefix("calls="))?;
            *counts.calls.get_or_insert(0) += calls.parse::<u64>().ok()?;
        } else if let Some(seconds) = after(&["used_cpu_sys:", "used_cpu_user:"]) {
            counts.cpu_us += seconds.trim().parse::<f64>().ok()? * 1e6;
            seen_cpu = true;
        } else if let Some(bytes) = after(&["total_net_input_bytes:", "total_net_output_bytes:"]) {
            *counts.bytes.get_or_insert(0) += bytes.trim().parse::<u64>().ok()?;
        } else if let Some(bytes) = line.strip_prefix("used_memory:") {
            counts.memory_bytes = Some(bytes.trim().parse().ok()?);
        } else if let Some(clients) = line.strip_prefix("connected_clients:") {
            counts.connections = Some(clients.trim().parse().ok()?);
        }
    }
    seen_cpu.then_some(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn info_is_summed_without_its_own_calls() {
        let info = "# CPU\r\nused_cpu_sys:1.500000\r\nused_cpu_user:0.500000\r\nused_cpu_sys_children:9.0\r\n\
            # Commandstats\r\ncmdstat_set:calls=10,usec=1,usec_per_call=0.1\r\ncmdstat_info:calls=7,usec=1\r\n\
            cmdstat_client|setinfo:calls=2,usec=1\r\n# Stats\r\ntotal_net_input_bytes:70\r\ntotal_net_output_bytes:30\r\n\
            # Memory\r\nused_memory:1048576\r\nused_memory_rss:5\r\n";
        let counts = read(info).unwrap();
        assert_eq!(counts.calls, Some(12));
        assert_eq!((counts.bytes, counts.memory_bytes), (Some(100), Some(1_048_576)));
        assert!((counts.cpu_us - 2e6).abs() < 1.0);
        assert_eq!(read("nothing of the kind"), None);
    }
}
