//! Finds the nodes and clients behind a role, by asking the servers who is what at this moment.

use std::collections::BTreeMap;
use std::time::Duration;

use cluster_config::{Deployment, Node, Party, Role, TopologyKind, slot_of};

use crate::faults::{FaultError, FaultWorld, Target, failed};
use crate::planning::partition;
use crate::polling::until;
use crate::scenario::{FaultParty, FaultSite};
use crate::servers::members;

const HOLDER_WITHIN: Duration = Duration::from_secs(5);

/// A server that runs and does not say what it is is asked again for so long.
const ROLES_WITHIN: Duration = Duration::from_secs(3);

/// Whom a fault hits now. `lock` is the lock whose slot says which master is meant in a cluster.
pub(crate) async fn resolve(
    on: &FaultSite,
    world: &FaultWorld,
    lock: &str,
) -> Result<Vec<Target>, FaultError> {
    let mut targets = match on {
        FaultSite::Parties(parties) => list(parties, world, lock)
            .await?
            .into_iter()
            .map(|party| match party {
                Party::Node(name) => Target::Node(name),
                Party::Client(number) => Target::Client(number),
            })
            .collect(),
        FaultSite::Link { from, to, both } => {
            let from = list(from, world, lock).await?;
            partition::between(&from, &list(to, world, lock).await?, *both)
        }
        FaultSite::Groups(groups) => {
            let mut members = Vec::new();
            for group in groups {
                members.push(list(group, world, lock).await?);
            }
            partition::cut(&members)
        }
    };
    targets.sort_unstable();
    targets.dedup();
    if targets.is_empty() {
        return Err(failed!("`{on}` is nobody at this moment"));
    }
    Ok(targets)
}

async fn list(parties: &[FaultParty], world: &FaultWorld, lock: &str) -> Result<Vec<Party>, FaultError> {
    let deployment = &world.deployment;
    let mut all = Vec::new();
    for who in parties {
        match who {
            FaultParty::Node(name) => all.push(Party::Node(name.clone())),
            FaultParty::Client(number) => all.push(Party::Client(*number)),
            FaultParty::Clients => all.extend((1..=world.clients.count()).map(Party::Client)),
            FaultParty::Holder => all.push(Party::Client(holder(world).await?)),
            FaultParty::Sentinels => {
                let sentinels = deployment.nodes().iter().filter(|node| node.role == Role::Sentinel);
                all.extend(sentinels.map(|node| Party::Node(node.name.clone())));
            }
            FaultParty::Master => all.push(Party::Node(master(deployment, lock).await?)),
            FaultParty::Masters => all.extend(with_role(deployment, Role::Master).await),
            FaultParty::Replicas => all.extend(with_role(deployment, Role::Replica).await),
            FaultParty::Minority
            | FaultParty::Majority
            | FaultParty::Any
            | FaultParty::Share { .. }
            | FaultParty::AnyClient => {
                return Err(failed!("the plan has not drawn `{who}`"));
            }
        }
    }
    Ok(all)
}

/// Who a single party is now.
pub(crate) async fn one(who: &FaultParty, world: &FaultWorld, lock: &str) -> Result<Party, FaultError> {
    let mut found = list(std::slice::from_ref(who), world, lock).await?;
    match (found.pop(), found.is_empty()) {
        (Some(party), true) => Ok(party),
        _ => Err(failed!("`{who}` is not one party at this moment")),
    }
}

/// Who has a role now. A server that runs is asked until it has answered: on a busy machine one that was left
/// out for being slow would go unharmed, and nobody would notice.
async fn with_role(deployment: &Deployment, wanted: Role) -> Vec<Party> {
    let servers: Vec<&Node> = deployment.nodes().iter().filter(|node| node.role != Role::Sentinel).collect();
    let roles: BTreeMap<String, Role> = if deployment.topology().kind.has_fixed_roles() {
        servers.iter().map(|node| (node.name.clone(), node.role)).collect()
    } else {
        let all_answer = || async {
            let roles = deployment.roles().await;
            let runs = |name| deployment.process_state(name).is_some_and(|state| state != 'T');
            let mut silent = servers.iter().filter(|node| !roles.contains_key(&node.name));
            (!silent.any(|node| runs(&node.name))).then_some(roles)
        };
        match until(ROLES_WITHIN, Duration::ZERO, all_answer).await {
            Some(roles) => roles,
            None => deployment.roles().await,
        }
    };
    roles.into_iter().filter(|(_, role)| *role == wanted).map(|(name, _)| Party::Node(name)).collect()
}

async fn holder(world: &FaultWorld) -> Result<u32, FaultError> {
    let look = || async { world.clients.holder() };
    let holder = until(HOLDER_WITHIN, Duration::from_millis(1), look).await;
    holder.ok_or_else(|| failed!("nobody held a lock for {HOLDER_WITHIN:?}"))
}

async fn master(deployment: &Deployment, lock: &str) -> Result<String, FaultError> {
    let named = match deployment.topology().kind {
        TopologyKind::Sentinel => by_sentinels(deployment).await,
        TopologyKind::Cluster => by_slot(deployment, slot_of(lock)).await,
        TopologyKind::Etcd3 | TopologyKind::ZooKeeper3 => by_election(deployment).await,
        _ => deployment.nodes().first().map(|node| node.name.clone()),
    };
    if let Some(name) = named {
        return Ok(name);
    }
    // Nobody could be asked: then the node that says of itself that it is master.
    named_master(deployment).await.ok_or_else(|| failed!("no server says that it is master"))
}

/// A server that says of itself that it is master.
async fn named_master(deployment: &Deployment) -> Option<String> {
    let mut roles = deployment.roles().await.into_iter();
    roles.find(|(_, role)| *role == Role::Master).map(|(name, _)| name)
}

/// The leader of an ensemble, once it has one.
async fn by_election(deployment: &Deployment) -> Option<String> {
    let look = || named_master(deployment);
    until(ROLES_WITHIN, Duration::from_millis(10), look).await
}

async fn by_sentinels(deployment: &Deployment) -> Option<String> {
    for sentinel in deployment.nodes() {
        if sentinel.role != Role::Sentinel {
            continue;
        }
        let Ok(answer) = deployment.command(&sentinel.name, &["SENTINEL", "MASTERS"]).await else { continue };
        // Names and values in turn, one per line.
        let lines: Vec<&str> = answer.lines().collect();
        let pairs = || lines.chunks_exact(2);
        let value = |name| pairs().find(|pair| pair[0] == name).map(|pair| pair[1]);
        if let (Some(ip), Some(port)) = (value("ip"), value("port")) {
            return members::by_address(deployment, &format!("{ip}:{port}")).map(|node| node.name.clone());
        }
    }
    None
}

/// The master of a slot in the view of the first node that answers and knows a live one.
async fn by_slot(deployment: &Deployment, slot: u16) -> Option<String> {
    for node in deployment.nodes() {
        let Ok(known) = members::known_to(deployment, &node.name).await else { continue };
        let owner = known.iter().find(|member| member.is_live_master() && member.owns(slot));
        if let Some(node) = owner.and_then(|owner| owner.node(deployment)) {
            return Some(node.name.clone());
        }
    }
    None
}
