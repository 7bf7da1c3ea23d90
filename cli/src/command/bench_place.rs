//! Where the clients of a benchmark run: in this process, or one process each, on other cores than the servers where there are enough.

use std::process::{Command, Stdio};
use std::sync::Arc;

use bench::driver::BenchPlan;
use bench::exec::ExecSubject;
use bench::subject::Subject;
use cluster_config::{Deployment, Topology, TopologyKind};

use crate::exit;

/// Servers of a kind; with `fsync` those of Redis write each grant to their disk before they answer it, as others do by themselves.
pub(super) fn topology(kind: TopologyKind, fsync: bool) -> Topology {
    let mut topology = Topology::of(kind);
    if fsync && kind.is_redis() {
        let lines = [("appendonly", "yes"), ("appendfsync", "always")];
        let lines = lines.map(|(name, value)| (name.to_owned(), value.to_owned()));
        topology.config.extend(lines);
    }
    topology
}

/// With fewer cores clients and servers cannot both have two.
const FEWEST_CORES: u32 = 4;

/// The cores of servers and of clients: the lower and the upper half; `None` where there are too few.
fn split(cores: u32) -> Option<(Vec<u32>, Vec<u32>)> {
    (cores >= FEWEST_CORES).then(|| ((0..cores / 2).collect(), (cores / 2..cores).collect()))
}

fn list(cores: &[u32]) -> String {
    let words: Vec<String> = cores.iter().map(u32::to_string).collect();
    words.join(",")
}

/// Keeps the servers on their half of the cores and says which half is the clients'. Nothing is done, and nothing said, where there
/// is one client, too few cores, or no `taskset`.
pub(super) fn pin_servers(deployment: &Deployment, clients: u32) -> Vec<u32> {
    let cores =
        std::thread::available_parallelism().map_or(1, |n| u32::try_from(n.get()).unwrap_or(1));
    let Some((servers, rest)) = split(cores).filter(|_| clients > 1) else {
        return Vec::new();
    };
    let pinned = deployment.nodes().iter().all(|node| {
        let Some(pid) = deployment.pid(&node.name) else {
            return false;
        };
        Command::new("taskset")
            .args(["-a", "-cp", &list(&servers), &pid.to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    });
    if pinned { rest } else { Vec::new() }
}

/// The subjects of a plan; with several clients each of ours is served by a process per client.
pub(super) fn subjects(plan: &BenchPlan) -> anyhow::Result<Vec<Arc<dyn Subject>>> {
    let program = std::env::current_exe()?.display().to_string();
    plan.subjects
        .iter()
        .map(|name| {
            let subject = bench::subjects::find(name).map_err(exit::usage)?;
            if let Some(why) = subject.missing() {
                return Err(exit::missing(why));
            }
            if !plan.client_processes || subject.program().is_some() {
                return Ok(subject);
            }
            let mut command = vec![program.clone(), "driver".to_owned(), name.clone()];
            if !plan.client_cores.is_empty() {
                let on = ["taskset", "-c", &list(&plan.client_cores)].map(str::to_owned);
                command.splice(0..0, on);
            }
            Ok(Arc::new(ExecSubject::for_subject(subject.as_ref(), command)) as Arc<dyn Subject>)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_and_clients_share_no_core() {
        assert_eq!(split(2), None);
        for cores in 4..20 {
            let (servers, clients) = split(cores).unwrap();
            assert!(servers.iter().all(|core| !clients.contains(core)));
            assert_eq!(servers.len() + clients.len(), cores as usize);
            assert!(servers.len() >= 2 && clients.len() >= 2);
        }
        assert_eq!(list(&[2, 3]), "2,3");
    }
}
