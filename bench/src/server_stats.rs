//! What the servers of a target have counted so far, asked over connections of its own.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use crate::links::Links;

/// What all data nodes of a target have counted since they started.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ServerCounts {
    /// Commands, those called by scripts included, the questions of [`ServerWatch`] not.
    pub calls: u64,
    /// CPU time, user and system, in microseconds.
    pub cpu_us: f64,
    /// Bytes received and sent, replication included, the questions of [`ServerWatch`] nearly all left out.
    pub bytes: u64,
    /// Memory in use now.
    pub memory_bytes: u64,
}

/// Connections to every data node: masters and replicas, as they were found when it was made.
pub struct ServerWatch {
    links: Links,
    nodes: Vec<String>,
    /// Bytes of the answers to our own questions.
    answered: AtomicU64,
}

impl ServerWatch {
    /// Finds the data nodes; `None` where that fails: figures are then absent, never wrong.
    pub async fn find(target: &str) -> Option<Self> {
        let links = Links::parse(target, Duration::from_secs(2)).ok()?;
        let nodes = links.data_nodes().await.ok()?;
        Some(ServerWatch {
            links,
            nodes,
            answered: AtomicU64::new(0),
        })
    }

    /// Asks every node; `None` if one of them does not answer.
    pub async fn counts(&self) -> Option<ServerCounts> {
        let mut sum = ServerCounts::default();
        let mut answered = 0;
        for node in &self.nodes {
            let mut info = redis::cmd("INFO");
            info.arg("commandstats")
                .arg("cpu")
                .arg("stats")
                .arg("memory");
            let text: String = self.links.ask(node, &info).await.ok()?;
            let one = read(&text)?;
            // The server counts an answer after it was made up: what it tells the next time contains this one.
            answered += text.len() as u64;
            sum.calls += one.calls;
            sum.cpu_us += one.cpu_us;
            sum.bytes += one.bytes;
            sum.memory_bytes += one.memory_bytes;
        }
        let before = self.answered.fetch_add(answered, Relaxed);
        sum.bytes = sum.bytes.saturating_sub(before);
        Some(sum)
    }

    /// The median of some PINGs to the first node.
    pub async fn round_trip(&self) -> Option<Duration> {
        const PINGS: usize = 21;
        let node = self.nodes.first()?;
        let mut times = Vec::new();
        for _ in 0..PINGS {
            let sent = std::time::Instant::now();
            self.links
                .ask::<String>(node, &redis::cmd("PING"))
                .await
                .ok()?;
            times.push(sent.elapsed());
        }
        times.sort();
        Some(times[PINGS / 2])
    }

    /// `redis_version` of every node.
    pub async fn versions(&self) -> BTreeMap<String, String> {
        let mut versions = BTreeMap::new();
        for node in &self.nodes {
            let mut info = redis::cmd("INFO");
            info.arg("server");
            if let Ok(text) = self.links.ask::<String>(node, &info).await
                && let Some(version) = text.lines().find_map(|l| l.strip_prefix("redis_version:"))
            {
                versions.insert(node.clone(), version.trim().to_owned());
            }
        }
        versions
    }
}

/// One server's INFO.
fn read(info: &str) -> Option<ServerCounts> {
    let mut counts = ServerCounts::default();
    let mut seen_cpu = false;
    for line in info.lines() {
        if let Some(stat) = line.strip_prefix("cmdstat_") {
            let (command, figures) = stat.split_once(':')?;
            if command == "info" {
                continue;
            }
            let calls = figures.split(',').find_map(|f| f.strip_prefix("calls="))?;
            counts.calls += calls.parse::<u64>().ok()?;
        } else if let Some(seconds) = line
            .strip_prefix("used_cpu_sys:")
            .or_else(|| line.strip_prefix("used_cpu_user:"))
        {
            counts.cpu_us += seconds.trim().parse::<f64>().ok()? * 1e6;
            seen_cpu = true;
        } else if let Some(bytes) = line
            .strip_prefix("total_net_input_bytes:")
            .or_else(|| line.strip_prefix("total_net_output_bytes:"))
        {
            counts.bytes += bytes.trim().parse::<u64>().ok()?;
        } else if let Some(bytes) = line.strip_prefix("used_memory:") {
            counts.memory_bytes = bytes.trim().parse().ok()?;
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
        assert_eq!(counts.calls, 12);
        assert_eq!((counts.bytes, counts.memory_bytes), (100, 1_048_576));
        assert!((counts.cpu_us - 2e6).abs() < 1.0);
        assert_eq!(read("nothing of the kind"), None);
    }
}
