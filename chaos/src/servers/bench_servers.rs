//! Our own servers for a benchmark: where each lock is measured, delays of links, when disks are written.

use std::time::Duration;

use bench::abilities::Abilities;
use bench::driver::{BenchPlan, Placement};
use bench::server_stats::ServerWatch;
use bench::subject::SubjectError;
use bench::subjects::{by_comma, find, system_of, usual};
use cluster_config::{Deployment, LinkFault, LinkGuard, LinkTable, Node, Party, Topology};

use crate::audit::place;

/// Redis writes each grant to its disk before it answers it.
pub fn sync_every_write(topology: &mut Topology) {
    let lines = [("appendonly", "yes"), ("appendfsync", "always")];
    let lines = lines.map(|(name, value)| (name.to_owned(), value.to_owned()));
    topology.config.extend(lines);
}

/// Where each subject of a plan is measured: on every one of the deployments that is for it. The plan then
/// names a subject once for each.
///
/// # Errors
/// A lock that is on none of them.
pub fn places(
    running: &[Deployment],
    wished: &[String],
    fsync: bool,
    plan: &mut BenchPlan,
) -> Result<Vec<Placement>, SubjectError> {
    let wished = by_comma(wished);
    let mut places = Vec::new();
    let mut names = Vec::new();
    for deployment in running {
        let (url, kind) = (deployment.url(), deployment.topology().kind);
        let system = system_of(&url);
        let nodes = deployment.nodes().iter();
        let processes: Option<Vec<u32>> = nodes.map(|node| deployment.pid(&node.name)).collect();
        let processes = processes.filter(|_| system.is_some()).unwrap_or_default();
        let locks = if wished.is_empty() { usual(&url, &plan.workloads) } else { wished.clone() };
        for name in locks {
            let subject = find(&name)?;
            let has = Abilities::assumed(subject.kinds());
            // On a single deployment a lock that does not fit reports that itself.
            let fits = subject.system() == system && (system.is_some() || place(kind, &name, &has).is_ok());
            if fits || running.len() == 1 {
                places.push(Placement {
                    target: url.clone(),
                    topology: kind.to_string(),
                    replicas: deployment.topology().replicas,
                    durability: match subject.durability() {
                        Some(shipped) => shipped,
                        None if fsync && plan.durability == "none" => "fsync",
                        None => &plan.durability,
                    }
                    .to_owned(),
                    processes: processes.clone(),
                });
                names.push(name);
            }
        }
    }
    if let Some(name) = wished.iter().find(|name| !names.contains(name)) {
        let kinds: Vec<_> = running.iter().map(|one| one.topology().kind.name()).collect();
        let kinds = kinds.join(", ");
        return Err(SubjectError::Usage(format!("{name} is a lock on none of these topologies: {kinds}")));
    }
    plan.subjects = names;
    Ok(places)
}

/// The round trip to the first server at its own address.
pub async fn direct_round_trip(deployment: &Deployment) -> Option<Duration> {
    let node = deployment.nodes().first()?;
    let url = format!("redis://{}", node.address);
    ServerWatch::find(&url).await?.round_trip().await
}

/// Makes every byte between clients and servers late by `latency`, at most `jitter` more or less, for as long
/// as the guards live.
pub fn delay(links: &LinkTable, nodes: &[Node], latency: Duration, jitter: Duration) -> Vec<LinkGuard> {
    let clients = Party::Client(0);
    let both = nodes.iter().flat_map(|node| {
        let server = Party::Node(node.name.clone());
        [(clients.clone(), server.clone()), (server, clients.clone())]
    });
    both.map(|(from, to)| links.apply(&from, &to, LinkFault::Delay { latency, jitter })).collect()
}
