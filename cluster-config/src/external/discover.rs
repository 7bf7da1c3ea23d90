//! Asks somebody's servers what they are: a target's addresses in, its nodes with roles out. Reads only.

use std::net::SocketAddr;
use std::time::Duration;

use redis::Value;

use super::ExternalTarget;
use crate::access::Dial;
use crate::node_commands::{ask, entry, items, text};
use crate::{ClusterError, Role, Topology, TopologyKind};

/// Longest wait for one answer; the servers may be far away.
pub(super) const ANSWER: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DiscoveredServer {
    pub(crate) role: Role,
    pub(crate) address: SocketAddr,
}

/// More servers than this are no cluster or group that Redis knows, whatever a server says.
const MEMBERS_MAX: usize = 1_000;

fn server(role: Role, address: SocketAddr) -> DiscoveredServer {
    DiscoveredServer { role, address }
}

/// The servers behind a target, masters first, then replicas, then sentinels; and the shape that they form.
/// An error (`missing`): nobody answered, or what answered is of another kind.
pub(crate) async fn discover(
    target: &ExternalTarget,
) -> Result<(Topology, Vec<DiscoveredServer>), ClusterError> {
    if !target.kind.is_redis() {
        return Ok(members_by_address(target));
    }
    let found = match target.kind {
        TopologyKind::Sentinel => sentinels(target).await?,
        TopologyKind::Cluster => cluster(target).await?,
        _ => masters(target).await?,
    };
    let count =
        |role| u32::try_from(found.iter().filter(|found| found.role == role).count()).unwrap_or(u32::MAX);
    let mut topology = Topology::of(target.kind);
    match target.kind {
        TopologyKind::Masters => topology.masters = count(Role::Master),
        TopologyKind::Sentinel => {
            topology.replicas = count(Role::Replica);
            topology.sentinels = count(Role::Sentinel);
        }
        TopologyKind::Cluster => {
            topology.shards = count(Role::Master);
            topology.replicas = count(Role::Replica).div_ceil(topology.shards.max(1));
        }
        _ => {}
    }
    Ok((topology, found))
}

/// Servers of another system: its clients know them by the URL's addresses alone, and so does the harness.
fn members_by_address(target: &ExternalTarget) -> (Topology, Vec<DiscoveredServer>) {
    let topology = Topology::of(target.kind);
    let places = topology.places().into_iter().zip(&target.addresses);
    (topology, places.map(|(place, address)| server(place.role, *address)).collect())
}

/// All masters of a set, of which one at least answers.
async fn masters(target: &ExternalTarget) -> Result<Vec<DiscoveredServer>, ClusterError> {
    let pong = |dial: Dial| async move { Ok(ask(&dial, &["PING"], ANSWER).await?) };
    first_answer(target, Role::Master, pong).await?;
    Ok(target.addresses.iter().map(|address| server(Role::Master, *address)).collect())
}

/// Whether each server that a target names answers; sentinels and clusters say themselves which do.
pub(super) async fn require_all(target: &ExternalTarget) -> Result<(), ClusterError> {
    let is_known_by_others = matches!(target.kind, TopologyKind::Sentinel | TopologyKind::Cluster);
    if is_known_by_others || !target.kind.is_redis() {
        return Ok(());
    }
    for address in &target.addresses {
        ask(&target.dial(Role::Master, *address), &["PING"], ANSWER)
            .await
            .map_err(|why| unreachable(*address, &why))?;
    }
    Ok(())
}

async fn sentinels(target: &ExternalTarget) -> Result<Vec<DiscoveredServer>, ClusterError> {
    let watched_servers = |dial: Dial| async move { watched_servers(&dial, &target.master_name).await };
    let mut all = first_answer(target, Role::Sentinel, watched_servers).await?;
    let sentinels = target.addresses.iter();
    all.extend(sentinels.map(|address| server(Role::Sentinel, *address)));
    Ok(all)
}

/// What the first of the target's servers says that answers.
async fn first_answer<T, F: Future<Output = Result<T, String>>>(
    target: &ExternalTarget,
    role: Role,
    asked: impl Fn(Dial) -> F,
) -> Result<T, ClusterError> {
    let mut last = missing!("the target names no server");
    for address in &target.addresses {
        match asked(target.dial(role, *address)).await {
            Ok(said) => return Ok(said),
            Err(why) => last = unreachable(*address, &why),
        }
    }
    Err(last)
}

async fn watched_servers(sentinel: &Dial, name: &str) -> Result<Vec<DiscoveredServer>, String> {
    let master = ask(sentinel, &["SENTINEL", "MASTER", name], ANSWER).await?;
    let replicas = ask(sentinel, &["SENTINEL", "REPLICAS", name], ANSWER).await?;
    let mut all = vec![server(Role::Master, announced(&master).await?)];
    for replica in items(&replicas).iter().take(MEMBERS_MAX) {
        let address = announced(replica).await?;
        if all.iter().all(|found| found.address != address) {
            all.push(server(Role::Replica, address));
        }
    }
    Ok(all)
}

/// `ip` and `port` of a flat name-value array.
async fn announced(entries: &Value) -> Result<SocketAddr, String> {
    let value = |name: &str| entry(entries, name).ok_or_else(|| format!("the sentinel says no {name}"));
    let address = format!("{}:{}", value("ip")?, value("port")?);
    resolved(&address).await
}

async fn cluster(target: &ExternalTarget) -> Result<Vec<DiscoveredServer>, ClusterError> {
    let nodes = |dial: Dial| async move { Ok(ask(&dial, &["CLUSTER", "NODES"], ANSWER).await?) };
    let view = text(&first_answer(target, Role::Master, nodes).await?);
    let members = members(&view);
    let masters = members.iter().filter(|(role, ..)| *role == Role::Master).count();
    if masters == 0 || members.len() > MEMBERS_MAX {
        return Err(missing!(
            "the target lists {} members in CLUSTER NODES, {masters} of them masters with slots; of a cluster that serves there is a master \
             at least, and at most {MEMBERS_MAX} members are known",
            members.len()
        ));
    }
    let mut all = Vec::new();
    for (role, _, address) in members {
        all.push(server(role, resolved(address).await.map_err(|why| missing!("{address}: {why}"))?));
    }
    Ok(all)
}

/// The living members in CLUSTER NODES: role, first slot, address; masters by slot, then replicas by address.
fn members(view: &str) -> Vec<(Role, Option<u16>, &str)> {
    let mut members: Vec<_> = view.lines().filter_map(member).collect();
    members.sort_unstable();
    members
}

/// Reads `<id> <ip:port@bus[,host]> <flags> <master> <ping> <pong> <epoch> <link> <slots…>`.
fn member(line: &str) -> Option<(Role, Option<u16>, &str)> {
    let words: Vec<&str> = line.split(' ').collect();
    let flags: Vec<&str> = words.get(2)?.split(',').collect();
    let bad = ["fail", "noaddr", "handshake"];
    if bad.iter().any(|bad| flags.contains(bad)) {
        return None;
    }
    let slots = words.get(8);
    let slot = slots.and_then(|range| range.split('-').next()?.parse().ok());
    let role = match (flags.contains(&"master"), slot) {
        (true, Some(_)) => Role::Master,
        // A master without slots serves nobody.
        (true, None) => return None,
        (false, _) => Role::Replica,
    };
    Some((role, slot, words[1].split('@').next()?))
}

pub(super) async fn resolved(address: &str) -> Result<SocketAddr, String> {
    tokio::net::lookup_host(address)
        .await
        .map_err(|error| format!("{address}: {error}"))?
        .next()
        .ok_or_else(|| format!("{address} has no address"))
}

fn unreachable(address: SocketAddr, why: &dyn std::fmt::Display) -> ClusterError {
    missing!("{address} does not answer as its URL says: {why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn living_members_are_listed_by_slot_and_the_others_not_at_all() {
        let view = "a 10.0.0.2:6379@16379 master - 0 0 2 connected 8192-16383\n\
                    b 10.0.0.1:6379@16379,host myself,master - 0 0 1 connected 0-8191\n\
                    c 10.0.0.3:6379@16379 slave b 0 0 1 connected\n\
                    d :0@0 slave,noaddr b 0 0 1 disconnected\n\
                    e 10.0.0.5:6379@16379 master,fail - 0 0 3 disconnected\n\
                    f 10.0.0.6:6379@16379 master - 0 0 4 connected\n";
        assert_eq!(
            members(view),
            [
                (Role::Master, Some(0), "10.0.0.1:6379"),
                (Role::Master, Some(8192), "10.0.0.2:6379"),
                (Role::Replica, None, "10.0.0.3:6379")
            ]
        );
    }
}
