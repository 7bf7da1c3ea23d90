//! When a server has started: conditions asked for until they hold, a server dies, or time is up.

use std::path::Path;
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use redis::Value;

use super::fleet::{Fleet, log_end, log_tail};
use crate::baseline::{ANSWER, System, listens};
use crate::layout::{MASTER_NAME, PlannedNode};
use crate::node_commands::{ask, ask_all, entry, field, items, server_version, text};
use crate::{ClusterError, Role, Topology, TopologyKind};

/// Pause between two questions, of up to 16 nodes. It grows with the square of their number, as the answers
/// do: else the questions would keep the processors from the start.
const POLL: Duration = Duration::from_millis(5);

/// The line of its configuration that a server of Redis did not start with, by its log.
fn refused_line(log: &Path) -> Option<String> {
    let text = log_tail(log).ok()?;
    let (_, said) = text.rsplit_once("FATAL CONFIG FILE ERROR")?;
    Some(said.lines().find_map(|line| line.trim().strip_prefix(">>> '"))?.trim_end_matches('\'').to_owned())
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Start<'f> {
    fleet: &'f Fleet,
    until: Instant,
    timeout: Duration,
}

impl Start<'_> {
    pub(crate) fn new(fleet: &Fleet, timeout: Duration) -> Start<'_> {
        Start { fleet, until: Instant::now() + timeout, timeout }
    }

    /// Asks until `condition` holds; its error says what was missing, for the message at a timeout.
    async fn until<T, Answer>(
        self,
        node: &PlannedNode,
        condition: impl Fn() -> Answer,
    ) -> Result<T, ClusterError>
    where
        Answer: Future<Output = Result<T, String>>,
    {
        loop {
            if let Some(status) = self.fleet.ended(&node.name) {
                let message = format!(
                    "{} ({}) ended while it was starting: {status}; {}\n\
                     remedy: correct the line that the log complains about, or free what it names as taken",
                    node.name,
                    node.address,
                    log_end(&node.log)
                );
                return Err(match refused_line(&node.log) {
                    Some(line) => ClusterError::Setting { line, message },
                    None => ClusterError::new(message),
                });
            }
            let missing = match condition().await {
                Ok(value) => return Ok(value),
                Err(missing) => missing,
            };
            if Instant::now() > self.until {
                bail!(
                    "{} ({}) was not ready within {:?}: {missing}; {}\n\
                     remedy: give it more time, or fewer nodes, if this machine is loaded",
                    node.name,
                    node.address,
                    self.timeout,
                    log_end(&node.log)
                );
            }
            let nodes = self.fleet.nodes.len() as u32;
            tokio::time::sleep(POLL.max(POLL * (nodes * nodes) / 256)).await;
        }
    }

    pub(crate) async fn start_server(self, node: &PlannedNode) -> Result<(), ClusterError> {
        self.fleet.spawn(&node.name).await?;
        self.wait_until_ready(node).await
    }

    /// Waits until a server that was started can be used.
    pub(crate) async fn wait_until_ready(self, node: &PlannedNode) -> Result<(), ClusterError> {
        if let Some(system) = self.fleet.system {
            return self.until_serving(system, node).await;
        }
        self.wait_for_pong(node).await?;
        match node.role {
            Role::Sentinel => self.hurry_sentinel(node).await,
            Role::Master | Role::Replica => Ok(()),
        }
    }

    /// Waits until the node serves, or only listens if most of its ensemble is down: there can be no leader.
    async fn until_serving(self, system: &dyn System, node: &PlannedNode) -> Result<(), ClusterError> {
        self.until(node, || async {
            let why = match system.hello(node.address).await {
                Ok(_) => return Ok(()),
                Err(why) => why,
            };
            let all = &self.fleet.nodes;
            let there = all.iter().filter(|node| self.fleet.pid(&node.name).is_some());
            if there.count() <= all.len() / 2 && listens(node.address).await { Ok(()) } else { Err(why) }
        })
        .await
    }

    /// Waits until the node answers PING, which it refuses while it loads its data.
    async fn wait_for_pong(self, node: &PlannedNode) -> Result<(), ClusterError> {
        self.until(node, || async {
            match ask(&node.dial, &["PING"], ANSWER).await? {
                Value::SimpleString(word) if word == "PONG" => Ok(()),
                other => Err(format!("PING was answered {:?}", text(&other))),
            }
        })
        .await
    }

    pub(crate) async fn version(self) -> Result<String, ClusterError> {
        let first = &self.fleet.nodes[0];
        self.until(first, || async {
            if let Some(system) = self.fleet.system {
                return system.version(first.address).await;
            }
            let info = text(&ask(&first.dial, &["INFO", "server"], ANSWER).await?);
            server_version(&info).map(str::to_owned).ok_or_else(|| "INFO names no version".to_owned())
        })
        .await
    }

    async fn wait_for_link(self, replica: &PlannedNode) -> Result<(), ClusterError> {
        self.until(replica, || async {
            let info = text(&ask(&replica.dial, &["INFO", "replication"], ANSWER).await?);
            expect(field(&info, "master_link_status"), "master_link_status", "up")
        })
        .await
    }

    /// `replicas` replicas acknowledge something that was sent through the master's stream after they were
    /// linked. Linked alone would not do: the stream may start later.
    pub(crate) async fn wait_for_replicas(
        self,
        master: &PlannedNode,
        replicas: u32,
    ) -> Result<(), ClusterError> {
        let wanted = replicas.to_string();
        self.until(master, || async {
            // A message to nobody: it travels to replicas and leaves no key.
            let commands: [&[&str]; 2] = [&["PUBLISH", "locklab:ready", ""], &["WAIT", &wanted, "50"]];
            match ask_all(&master.dial, &commands, ANSWER).await?.last().map(text) {
                Some(counted) if counted == wanted => Ok(()),
                counted => Err(format!("WAIT counts {counted:?} of {wanted} replicas")),
            }
        })
        .await
    }

    /// Shortens a sentinel's periods, which no configuration file holds. A ping period under 250 ms would
    /// break failovers: a replica's INFO then counts as stale. A sentinel that was stalled for 2 s, as by a
    /// slow disk, trusts nothing for the tilt period, whose default of 30 s would outlast most experiments.
    async fn hurry_sentinel(self, sentinel: &PlannedNode) -> Result<(), ClusterError> {
        const PERIODS: &str = "SENTINEL DEBUG info-period 500 ask-period 100 ping-period 300 publish-period 100 \
                               min-link-reconnect-period 100 tilt-period 1000";
        let args: Vec<&str> = PERIODS.split(' ').collect();
        self.until(sentinel, || async {
            ask(&sentinel.dial, &args, ANSWER).await.map(drop).map_err(|error| format!("{PERIODS}: {error}"))
        })
        .await
    }

    /// Every sentinel knows every replica, linked to the master, and every peer.
    async fn wait_for_sentinels(self, topology: &Topology) -> Result<(), ClusterError> {
        let sentinels = self.fleet.nodes.iter().filter(|node| node.role == Role::Sentinel);
        try_join_all(sentinels.map(|sentinel| async move {
            self.until(sentinel, || async {
                let master = ask(&sentinel.dial, &["SENTINEL", "MASTER", MASTER_NAME], ANSWER).await?;
                for (name, wanted) in [
                    ("flags", "master"),
                    ("num-slaves", &topology.replicas.to_string()),
                    ("num-other-sentinels", &(topology.sentinels - 1).to_string()),
                ] {
                    expect(entry(&master, name).as_deref(), name, wanted)?;
                }
                let asked = ["SENTINEL", "REPLICAS", MASTER_NAME];
                for replica in items(&ask(&sentinel.dial, &asked, ANSWER).await?) {
                    for (name, wanted) in [("flags", "slave"), ("master-link-status", "ok")] {
                        expect(entry(replica, name).as_deref(), name, wanted)?;
                    }
                }
                Ok(())
            })
            .await
        }))
        .await
        .map(drop)
    }

    /// Every member calls the cluster ok, knows all others, and lists every replica; every replica is linked.
    async fn wait_for_cluster(self, topology: &Topology) -> Result<(), ClusterError> {
        let known = &self.fleet.nodes.len().to_string();
        // Each range is two bounds, the master, and the replicas that the member believes to be of use.
        let entry = 3 + topology.replicas as usize;
        try_join_all(self.fleet.nodes.iter().map(|node| async move {
            if node.role == Role::Replica {
                self.wait_for_link(node).await?;
            }
            self.until(node, || async {
                let info = text(&ask(&node.dial, &["CLUSTER", "INFO"], ANSWER).await?);
                for (name, wanted) in [("cluster_state", "ok"), ("cluster_known_nodes", known)] {
                    expect(field(&info, name), name, wanted)?;
                }
                let slots = ask(&node.dial, &["CLUSTER", "SLOTS"], ANSWER).await?;
                let ranges = items(&slots);
                let whole = ranges.iter().filter(|range| items(range).len() == entry).count();
                if whole == topology.shards as usize && whole == ranges.len() {
                    Ok(())
                } else {
                    Err(format!("{whole} of {} slot ranges list all replicas", topology.shards))
                }
            })
            .await
        }))
        .await
        .map(drop)
    }

    /// Waits for what a topology promises beyond servers that answer.
    pub(crate) async fn wait_until_settled(self, topology: &Topology) -> Result<(), ClusterError> {
        match topology.kind {
            TopologyKind::Sentinel => {
                self.wait_for_sentinels(topology).await?;
                self.wait_for_replicas(&self.fleet.nodes[0], topology.replicas).await
            }
            TopologyKind::Cluster => self.wait_for_cluster(topology).await,
            _ => Ok(()),
        }
    }
}

fn expect(found: Option<&str>, name: &str, wanted: &str) -> Result<(), String> {
    if found == Some(wanted) {
        return Ok(());
    }
    let found = found.unwrap_or_default();
    Err(format!("{name} is `{found}`, not yet `{wanted}`"))
}

/// Names of the modules that a server has loaded; none if it does not say.
pub(crate) async fn modules(node: &PlannedNode) -> Vec<String> {
    let Ok(answer) = ask(&node.dial, &["MODULE", "LIST"], ANSWER).await else { return Vec::new() };
    items(&answer).iter().filter_map(|module| entry(module, "name")).collect()
}
