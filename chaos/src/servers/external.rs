//! Holds a scenario against somebody else's servers: what can be asked of them, and what cannot, by whom and
//! what can be done about it.

use cluster_config::{Role, Topology, TopologyKind};

use crate::faults::engine::Engine;
use crate::faults::{self, FaultKind, find};
use crate::scenario::{
    FaultParty, FaultSite, FaultSpec, FaultTrigger, Scenario, parse_on, when_on_redis_alone,
};
use crate::servers::hooks::Hooks;

/// What the owner of the servers allows.
#[derive(Clone)]
pub struct Allowed<'a> {
    /// What the servers are.
    pub topology: &'a Topology,
    /// All of them are on this machine: commands to them need no further word.
    pub loopback: bool,
    /// Clients hold the servers' certificates against their addresses.
    pub named_by_address: bool,
    /// Faults by command that are allowed all the same.
    pub faults: &'a [String],
    /// Who else carries faults out there.
    pub engine: Option<&'a dyn Engine>,
}

/// The same scenario for these servers, or everything that they cannot do: the fault's index from 0, and why.
pub fn for_servers(mut scenario: Scenario, allowed: &Allowed<'_>) -> Result<Scenario, Vec<(usize, String)>> {
    let mut wrong = Vec::new();
    for (index, fault) in scenario.faults.iter_mut().enumerate() {
        match parse_on(&fault.on.to_string(), Some(allowed.topology), scenario.load.clients) {
            Ok(on) => fault.on = on,
            Err(problems) => {
                wrong.extend(problems.into_iter().map(|problem| (index, problem)));
                continue;
            }
        }
        let Some(kind) = fault.kind() else { continue };
        if allowed.engine.is_some_and(|engine| engine.takes(fault)) {
            continue;
        }
        if let Err(why) = possible(kind, fault, allowed, &scenario.hooks) {
            wrong.push((index, why));
        }
    }
    if wrong.is_empty() {
        scenario.topology = allowed.topology.clone();
        Ok(scenario)
    } else {
        Err(wrong)
    }
}

/// Faults of a scenario that need a word which the servers' owner has not given: the fault's index from 0,
/// and why. To say so the servers need not be asked.
pub fn not_allowed(scenario: &Scenario, loopback: bool, allowed: &[String]) -> Vec<(usize, String)> {
    let wrong = scenario.faults.iter().enumerate().filter_map(|(index, fault)| {
        let name = fault.fault.as_str();
        let hooked = scenario.hooks.contains_key(name);
        (!hooked && find(name).is_some_and(|kind| kind.by_command))
            .then(|| word(name, loopback, allowed))?
            .err()
            .map(|why| (index, why))
    });
    wrong.collect()
}

fn word(name: &str, loopback: bool, allowed: &[String]) -> Result<(), String> {
    if loopback || allowed.iter().any(|allowed| allowed == name) {
        return Ok(());
    }
    Err(format!("`{name}` on servers that are not on this machine needs their owner's word: --allow {name}"))
}

fn possible(kind: &FaultKind, fault: &FaultSpec, allowed: &Allowed<'_>, hooks: &Hooks) -> Result<(), String> {
    let name = kind.name;
    if !allowed.topology.kind.is_redis() {
        if let FaultTrigger::OnMessage(_) = fault.when {
            return Err(when_on_redis_alone(allowed.topology.kind));
        }
        faults::allowed(kind, allowed.topology, &fault.on, &fault.with)?;
    }
    if kind.hits.link() {
        if allowed.named_by_address {
            return Err(format!(
                "`{name}` needs a proxy before the servers, and their certificates are for their own addresses; add tls-server-name=NAME \
                 to the target's URL, with a name that they are for as well"
            ));
        }
        return on_links(name, &fault.on, allowed.topology);
    }
    let commanded = kind.by_command;
    if !commanded && on_clients_only(&fault.on) || hooks.contains_key(name) {
        return Ok(());
    }
    if !commanded {
        return Err(format!(
            "`{name}` on `{}` needs the hands of the servers' owner: give the command for it, [hooks] {name} = \"… {{node}} …\"",
            fault.on
        ));
    }
    faults::allowed(kind, allowed.topology, &fault.on, &fault.with)?;
    word(name, allowed.loopback, allowed.faults)
}

/// A proxy stands between clients and servers only, and only where these announce no addresses.
fn on_links(name: &str, on: &FaultSite, topology: &Topology) -> Result<(), String> {
    if topology.kind.announces_addresses() {
        return Err(format!(
            "`{name}` needs proxies, which clients of somebody else's {} servers would pass by, since those announce \
             addresses of their own; take a `single` or `masters` target for it",
            topology.kind
        ));
    }
    let between_servers = |a: &[FaultParty], b: &[FaultParty]| {
        !a.iter().all(FaultParty::is_client) && !b.iter().all(FaultParty::is_client)
    };
    let servers_alone = match on {
        FaultSite::Parties(_) => false,
        FaultSite::Link { from, to, .. } => between_servers(from, to),
        FaultSite::Groups(groups) => groups.iter().enumerate().any(|(index, group)| {
            let later = &groups[index + 1..];
            later.iter().any(|other| between_servers(group, other))
        }),
    };
    let replicas = topology.count(Role::Replica) > 0;
    if servers_alone && (replicas || topology.kind != TopologyKind::Masters) {
        return Err(format!(
            "`{name}` on `{on}`: links between somebody else's servers do not pass through here; only those of clients do"
        ));
    }
    Ok(())
}

fn on_clients_only(on: &FaultSite) -> bool {
    matches!(on, FaultSite::Parties(parties) if parties.iter().all(FaultParty::is_client))
}
