//! What a run's clients take while the load goes on: connections, subscriptions, memory. The most of each is
//! kept.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::time::Duration;

use cluster_config::{Deployment, Role, local_addresses};
use tokio::sync::watch;

use crate::faults::ClientControl;
use crate::planning::plan::Plan;

const NAMES: [&str; 3] = ["connections", "subscriptions", "memory_mb"];

pub(crate) fn are_expected(plan: &Plan) -> bool {
    NAMES.iter().any(|name| plan.expect.contains_key(*name))
}

const EVERY: Duration = Duration::from_secs(1);

/// Looks until `stop`, and once more then: the most of each.
pub(crate) async fn watch(
    deployment: Arc<Deployment>,
    clients: Arc<dyn ClientControl>,
    mut stop: watch::Receiver<bool>,
) -> BTreeMap<String, f64> {
    let mut most: BTreeMap<String, f64> = BTreeMap::new();
    loop {
        let last = tokio::time::timeout(EVERY, stop.wait_for(|stop| *stop)).await.is_ok();
        let pids: Vec<u32> = (1..=clients.count()).filter_map(|n| clients.pid(n)).collect();
        let connections = pids.iter().map(|pid| local_addresses(*pid).len()).max();
        let memory_kb = pids.iter().filter_map(|pid| resident_kb(*pid)).max();
        let found = [
            connections.map(|count| count as f64),
            subscriptions(&deployment).await.map(|count| count as f64),
            memory_kb.map(|kb| kb as f64 / 1024.0),
        ];
        for (name, found) in NAMES.iter().zip(found) {
            if let Some(found) = found {
                let most = most.entry((*name).to_owned()).or_default();
                *most = most.max(found);
            }
        }
        if last {
            return most;
        }
    }
}

/// Subscriptions that clients have at the data nodes, of all three sorts; `None` where no server says.
async fn subscriptions(deployment: &Deployment) -> Option<u64> {
    let mut all = None;
    for node in deployment.nodes() {
        if node.role == Role::Sentinel {
            continue;
        }
        let list = ["CLIENT", "LIST", "TYPE", "pubsub"];
        if let Ok(list) = deployment.command(&node.name, &list).await {
            *all.get_or_insert(0) += subscribed(&list);
        }
    }
    all
}

fn subscribed(list: &str) -> u64 {
    let counts = list.split_ascii_whitespace().filter_map(|word| {
        let (name, count) = word.split_once('=')?;
        matches!(name, "sub" | "psub" | "ssub").then(|| count.parse::<u64>().ok())?
    });
    counts.sum()
}

fn resident_kb(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_sorts_of_subscriptions_count() {
        let list =
            "id=3 addr=127.0.0.1:1 name= sub=2 psub=1 ssub=40 multi=-1\nid=4 sub=7 psub=0 user=default\n";
        assert_eq!(subscribed(list), 50);
    }

    #[test]
    fn this_process_has_memory() {
        assert!(resident_kb(std::process::id()).expect("of Linux") > 1_000);
    }
}
