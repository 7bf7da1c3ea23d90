//! A replica that was not due becomes master, by the word of the sentinels or the cluster, while its master
//! may be well.
//!
//! With sentinels: every other replica is barred by its `replica-priority`, the sentinels are given time to
//! read that, and then one is asked to fail over; the priorities are set back afterwards. In a cluster:
//! CLUSTER FAILOVER FORCE, which asks the other masters for their votes and not its own master for its last
//! writes. Among independent masters nobody votes: the replica is made a master by its own command and takes
//! over the address of the one it copied, which must be dead, as a floating address or a name does.

use std::time::Duration;

use cluster_config::{Deployment, Node, Role, TopologyKind};

use crate::faults::per_target::{OnEach, TargetContext};
use crate::faults::{FaultError, FaultKind, FaultWorld, Proof, Servers};
use crate::polling::is_so;
use crate::servers::members;

pub(crate) const KIND: FaultKind = FaultKind {
    name: "promote",
    about: "this replica, and no better one, becomes master, once; on a master: the last of its replicas does",
    servers: Servers::Data,
    one_shot: true,
    by_command: true,
    recovers: true,
    allowed: |topology, _, _| match topology.kind {
        TopologyKind::Sentinel | TopologyKind::Cluster | TopologyKind::Masters if topology.replicas > 0 => {
            Ok(())
        }
        kind => Err(format!("`promote` needs a replica, and this `{kind}` topology has none")),
    },
    ..FaultKind::of(&Promote)
};

/// Sentinels read priorities twice a second, vote, and reconfigure; on a busy machine all of it takes longer.
const LONGEST: Duration = Duration::from_secs(15);
const EVERY: Duration = Duration::from_millis(50);

struct Promote;

impl OnEach for Promote {
    type Kept = Proof;

    async fn harm(at: TargetContext<'_>) -> Result<Proof, FaultError> {
        let (name, deployment) = (at.node()?, &at.deployment());
        let kind = deployment.topology().kind;
        if kind == TopologyKind::Masters {
            return take_over(deployment, name).await;
        }
        let chosen = successor(at.world, name).await?;
        if kind == TopologyKind::Sentinel {
            by_sentinels(deployment, &chosen).await?;
        } else {
            deployment.command(&chosen, &["CLUSTER", "FAILOVER", "FORCE"]).await?;
        }
        Ok(promoted(deployment, &chosen).await)
    }
}

/// A replica of an independent master becomes master, and answers at the address of the one that it copied.
async fn take_over(deployment: &Deployment, name: &str) -> Result<Proof, FaultError> {
    let masters: Vec<&Node> = with_role(deployment, Role::Master).collect();
    let replicas: Vec<&Node> = with_role(deployment, Role::Replica).collect();
    // Replicas are dealt to the masters in turn.
    let pair = replicas
        .iter()
        .zip(masters.iter().cycle())
        .filter(|(replica, master)| replica.name == name || master.name == name)
        .last();
    let Some((replica, master)) = pair else {
        return Err(failed!("{name} has no replica"));
    };
    if deployment.pid(&master.name).is_some() {
        return Err(failed!("{} lives, and its address is its own: kill it first", master.name));
    }
    let both = format!("{} {}", replica.address.ip(), master.address.ip());
    deployment.command(&replica.name, &["REPLICAOF", "NO", "ONE"]).await?;
    deployment.command(&replica.name, &["CONFIG", "SET", "bind", &both]).await?;
    let there = deployment.command(&master.name, &["CONFIG", "GET", "bind"]).await?;
    let Proof { bit, words } = promoted(deployment, &replica.name).await;
    Ok(proof!(bit && there.contains(&both), "{words}, and answers where {} was", master.name))
}

pub(crate) fn with_role(deployment: &Deployment, role: Role) -> impl Iterator<Item = &Node> {
    deployment.nodes().iter().filter(move |node| node.role == role)
}

/// Who takes over when `name` is meant: a replica itself, for a master the last of its replicas.
pub(crate) async fn successor(world: &FaultWorld, name: &str) -> Result<String, FaultError> {
    let deployment = &world.deployment;
    if deployment.topology().kind != TopologyKind::Cluster {
        let roles = deployment.roles().await;
        let last = roles.iter().rev().find(|(_, role)| **role == Role::Replica);
        return match (roles.get(name), last) {
            (Some(Role::Replica), _) => Ok(name.to_owned()),
            (_, Some((last, _))) => Ok(last.clone()),
            (_, None) => Err(failed!("no replica answers")),
        };
    }
    let mut last = None;
    for node in deployment.nodes() {
        let Ok(known) = members::known_to(deployment, &node.name).await else { continue };
        let own = known.iter().find(|member| member.is_myself());
        let Some(master_id) = own.and_then(|own| own.master_id.clone()) else { continue };
        if node.name == name {
            return Ok(node.name.clone());
        }
        let mut masters = known.iter().filter(|member| member.id == master_id);
        let master = masters.find_map(|member| member.node(deployment));
        if master.is_some_and(|master| master.name == name) {
            last = Some(node.name.clone());
        }
    }
    last.ok_or_else(|| failed!("no replica of {name} answers"))
}

/// Bars every other replica, waits until all sentinels have read it, and tells one to fail over.
pub(crate) async fn by_sentinels(deployment: &Deployment, chosen: &str) -> Result<(), FaultError> {
    let mut others = deployment.roles().await;
    others.retain(|name, role| *role == Role::Replica && name != chosen);
    let others: Vec<String> = others.into_keys().collect();
    let mut before = Vec::new();
    for other in &others {
        let answer = deployment.command(other, &["CONFIG", "GET", "replica-priority"]).await?;
        before.push((other, answer.lines().nth(1).unwrap_or("100").to_owned()));
        set_priority(deployment, other, "0").await?;
    }
    let outcome = barred_then_told(deployment, &others, chosen).await;
    for (other, priority) in before {
        // One that died meanwhile comes back with the priority of its configuration.
        let _ = set_priority(deployment, other, &priority).await;
    }
    outcome
}

async fn set_priority(deployment: &Deployment, node: &str, to: &str) -> Result<(), FaultError> {
    deployment.command(node, &["CONFIG", "SET", "replica-priority", to]).await?;
    Ok(())
}

async fn barred_then_told(
    deployment: &Deployment,
    others: &[String],
    chosen: &str,
) -> Result<(), FaultError> {
    let sentinels = with_role(deployment, Role::Sentinel);
    let sentinels: Vec<&str> = sentinels.map(|node| node.name.as_str()).collect();
    let group = cluster_config::layout::MASTER_NAME;
    for sentinel in &sentinels {
        if !is_so(LONGEST, EVERY, || all_barred(deployment, sentinel, others)).await {
            return Err(failed!("{sentinel} does not see the new priorities"));
        }
    }
    // A sentinel refuses while it is at a failover already, or thinks the chosen one unfit for the moment.
    let taken = is_so(LONGEST, EVERY, || async {
        for sentinel in &sentinels {
            if deployment.command(sentinel, &["SENTINEL", "FAILOVER", group]).await.is_ok() {
                return true;
            }
        }
        false
    });
    if !taken.await {
        return Err(failed!("no sentinel would fail over"));
    }
    // Priorities are set back only when the choice has been made.
    match promoted(deployment, chosen).await {
        Proof { bit: true, .. } => Ok(()),
        Proof { words, .. } => Err(FaultError(words)),
    }
}

async fn all_barred(deployment: &Deployment, sentinel: &str, others: &[String]) -> bool {
    let group = cluster_config::layout::MASTER_NAME;
    let ask = ["SENTINEL", "REPLICAS", group];
    let Ok(answer) = deployment.command(sentinel, &ask).await else { return false };
    // Names and values in turn: `ip` begins each replica, `slave-priority` is of the last one seen.
    let lines: Vec<&str> = answer.lines().collect();
    let mut address = None;
    let mut barred = Vec::new();
    for pair in lines.chunks(2) {
        match pair {
            ["name", named] => address = Some(*named),
            ["slave-priority", "0"] => barred.extend(address),
            _ => {}
        }
    }
    others.iter().all(|other| {
        barred
            .iter()
            .any(|address| members::by_address(deployment, address).is_some_and(|node| node.name == *other))
    })
}

async fn promoted(deployment: &Deployment, name: &str) -> Proof {
    let is_master = || async { deployment.roles().await.get(name) == Some(&Role::Master) };
    match is_so(LONGEST, EVERY, is_master).await {
        true => proof!(true, "{name} says that it is master"),
        false => proof!(false, "{name} is no master after {LONGEST:?}"),
    }
}
