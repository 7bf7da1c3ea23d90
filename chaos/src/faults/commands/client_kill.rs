//! Servers drop the connections of all their clients, or of one client.

use std::time::Duration;

use cluster_config::{LinkFault, LinkTable, Party, Role, local_addresses};

use crate::faults::per_target::{OnEach, TargetContext};
use crate::faults::{FaultError, FaultKind, FaultWorld, Proof, SettingKind, SettingSpec, Target, TargetKind};
use crate::polling::{is_so, until};

pub(crate) const KIND: FaultKind = FaultKind {
    name: "client-kill",
    about: "the server drops its clients' connections, or every server those of one client, once",
    hits: TargetKind::Process,
    settings: &[SettingSpec::optional(
        "type",
        SettingKind::OneOf(&["normal", "pubsub", "replica", "master"]),
    )
    .about(
        "on a node, which connections: `normal`, `pubsub`, `replica` or `master`; default normal and pubsub",
    )],
    one_shot: true,
    by_command: true,
    ..FaultKind::of(&ClientKill)
};

/// So long a proxy may take to close connections that are refused from now on.
const CLOSED_WITHIN: Duration = Duration::from_secs(1);

/// So long clients may take to come back to a server that was just started again.
const CONNECTED_WITHIN: Duration = Duration::from_secs(1);

struct ClientKill;

impl OnEach for ClientKill {
    type Kept = Proof;

    async fn harm(at: TargetContext<'_>) -> Result<Proof, FaultError> {
        let types = at.text("type").map_or(vec!["normal", "pubsub"], |one| vec![one]);
        match at.target {
            Target::Node(name) => all_of(at.world, name, &types).await,
            Target::Client(number) => match at.deployment().links() {
                // A server behind a proxy sees the proxy's address: the proxy closes instead.
                Ok(table) => Ok(by_proxies(at.world, table, *number).await),
                Err(_) => by_servers(at.world, *number).await,
            },
            Target::Link(..) => Err(failed!("a link is no client")),
        }
    }
}

async fn all_of(world: &FaultWorld, name: &str, types: &[&str]) -> Result<Proof, FaultError> {
    let drop_all = || async {
        let mut dropped = 0;
        for class in types {
            match kill(world, name, &["TYPE", class]).await {
                Ok(count) => dropped += count,
                Err(error) => return Some(Err(error)),
            }
        }
        (dropped > 0).then_some(Ok(dropped))
    };
    // Right after a restart nobody is back yet.
    let dropped = until(CONNECTED_WITHIN, Duration::from_millis(20), drop_all).await;
    let dropped = dropped.transpose()?.unwrap_or(0);
    Ok(proof!(dropped > 0, "{name} dropped {dropped} connections"))
}

/// How many connections a server dropped by a filter of `CLIENT KILL`.
async fn kill(world: &FaultWorld, name: &str, filter: &[&str]) -> Result<u64, FaultError> {
    let mut command = vec!["CLIENT", "KILL", "SKIPME", "yes"];
    command.extend(filter);
    Ok(world.command(name, &command).await?.trim().parse().unwrap_or(0))
}

async fn by_servers(world: &FaultWorld, client: u32) -> Result<Proof, FaultError> {
    let pid = world.clients.pid(client);
    let addresses = local_addresses(pid.ok_or_else(|| failed!("client {client} has no process"))?);
    let mut dropped = 0;
    for node in world.deployment.nodes() {
        // A sentinel has no `CLIENT KILL` by address, and a dead server no clients.
        if node.role == Role::Sentinel || world.deployment.is_down(&node.name) {
            continue;
        }
        for address in &addresses {
            dropped += kill(world, &node.name, &["ADDR", &address.to_string()]).await?;
        }
    }
    Ok(proof!(dropped > 0, "the servers dropped {dropped} connections of c{client}"))
}

async fn by_proxies(world: &FaultWorld, table: &LinkTable, client: u32) -> Proof {
    let nodes = world.deployment.nodes();
    let client_party = Party::Client(client);
    let (mut open, mut guards) = (0, Vec::new());
    for node in nodes {
        let node = Party::Node(node.name.clone());
        open += table.open_connections(&client_party, &node) as u64;
        guards.push(table.apply(&client_party, &node, LinkFault::Refuse));
    }
    let closed = || -> u64 { guards.iter().map(|guard| guard.effect().connections).sum() };
    let all_closed = || async { closed() >= open.max(1) };
    is_so(CLOSED_WITHIN, Duration::from_millis(1), all_closed).await;
    let closed = closed();
    proof!(closed > 0, "the proxies dropped {closed} connections of c{client}")
}
