//! Draws what a scenario leaves to chance about its faults: times and parties, from the plan's generator.

use std::collections::{BTreeMap, VecDeque};

use cluster_config::Topology;
use rand::RngExt as _;
use rand::SeedableRng as _;
use rand::seq::SliceRandom as _;
use rand_chacha::ChaCha8Rng;

use crate::checkers::record::kinds::is_alone;
use crate::faults::find;
use crate::scenario::{
    Candidate, DrawnOperation, FaultParty, FaultSite, FaultSpec, FaultTrigger, Length, OnMessage, RandomSpec,
    Range, Scenario, data_nodes, quorum, role_members, share_sizes,
};

/// The same `on` with every party that is left to chance drawn. A `minority` and a `majority` in one
/// expression have nobody in common.
pub(crate) fn drawn(on: &FaultSite, topology: &Topology, clients: u32, rng: &mut ChaCha8Rng) -> FaultSite {
    let mut shuffled: Option<Vec<String>> = None;
    let mut shares = shares(on, topology, clients, rng);
    let mut list = |parties: &[FaultParty]| -> Vec<FaultParty> {
        let mut all = Vec::new();
        for who in parties {
            match who {
                FaultParty::Minority | FaultParty::Majority => {
                    let names = shuffled.get_or_insert_with(|| {
                        let mut names = quorum(topology);
                        names.shuffle(rng);
                        names
                    });
                    let minority = (names.len() - 1) / 2;
                    let mut part = match who {
                        FaultParty::Minority => names[..minority].to_vec(),
                        _ => names[minority..].to_vec(),
                    };
                    // Of an even number the smallest majority is meant, and one is in neither.
                    part.truncate(names.len() / 2 + 1);
                    part.sort_unstable();
                    all.extend(part.into_iter().map(FaultParty::Node));
                }
                FaultParty::Any => {
                    let names = data_nodes(topology);
                    all.push(FaultParty::Node(names[rng.random_range(0..names.len())].clone()));
                }
                FaultParty::AnyClient => all.push(FaultParty::Client(rng.random_range(1..=clients))),
                FaultParty::Share { .. } => all.extend(shares.pop_front().unwrap_or_default()),
                other => all.push(other.clone()),
            }
        }
        all
    };
    match on {
        FaultSite::Parties(parties) => FaultSite::Parties(list(parties)),
        FaultSite::Link { from, to, both } => FaultSite::Link { from: list(from), to: list(to), both: *both },
        FaultSite::Groups(groups) => FaultSite::Groups(groups.iter().map(|group| list(group)).collect()),
    }
}

/// Who the shares in an expression are, in their order. Those of one role have nobody in common.
fn shares(
    on: &FaultSite,
    topology: &Topology,
    clients: u32,
    rng: &mut ChaCha8Rng,
) -> VecDeque<Vec<FaultParty>> {
    let wanted = on.everybody().filter_map(|who| match who {
        FaultParty::Share { percent, role } => Some((role, *percent)),
        _ => None,
    });
    let wanted: Vec<(&String, u32)> = wanted.collect();
    let mut of_role = BTreeMap::new();
    for (role, _) in &wanted {
        of_role.entry(*role).or_insert_with(|| {
            let mut members = role_members(role, topology, clients);
            members.shuffle(rng);
            let of_this = wanted.iter().filter(|(other, _)| other == role);
            let percents: Vec<u32> = of_this.map(|(_, percent)| *percent).collect();
            let sizes = share_sizes(&percents, members.len());
            let parts = sizes.into_iter().map(|size| members.drain(..size).collect());
            parts.collect::<VecDeque<Vec<FaultParty>>>()
        });
    }
    wanted.iter().map(|(role, _)| of_role.get_mut(role)?.pop_front()).map(Option::unwrap_or_default).collect()
}

/// The same `when` with the parties of a message that are left to chance drawn.
pub(crate) fn when(
    when: &FaultTrigger,
    topology: &Topology,
    clients: u32,
    rng: &mut ChaCha8Rng,
) -> FaultTrigger {
    let FaultTrigger::OnMessage(message) = when else { return when.clone() };
    let mut party = |who: &Option<FaultParty>| {
        let on = FaultSite::Parties(who.iter().cloned().collect());
        match drawn(&on, topology, clients, rng) {
            FaultSite::Parties(mut parties) => parties.pop(),
            _ => None,
        }
    };
    FaultTrigger::OnMessage(OnMessage {
        from: party(&message.from),
        to: party(&message.to),
        ..message.clone()
    })
}

/// A server that came back has so long to load, to be found and copied from, before the next fault.
const ROOM_NS: u64 = 1_000_000_000;

/// A fault that was drawn, and when it is over, also for whom it hit.
struct Slot {
    until_ns: u64,
    on: FaultSite,
}

/// The same scenario with what it leaves to chance of its operations drawn, from a generator of their own:
/// its faults are those that the seed gave before there was any.
pub(crate) fn operations(scenario: &Scenario, spec: &RandomSpec, seed: u64) -> Scenario {
    const APART: u64 = 0x6f70_6572_6174_696f;
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ APART);
    let mut drawn = scenario.clone();
    let mut one_of = |count: usize| rng.random_range(0..count);
    // In one order, whatever that of the file: the kind decides what the others may be.
    let asked = |operation| spec.operations.contains(&operation);
    if asked(DrawnOperation::Kind) {
        let found = bench::subjects::find(&scenario.lock.subject);
        let mut kinds = found.map(|found| found.kinds()).unwrap_or_default();
        kinds.retain(|kind| is_alone(kind) && kind != "write" && kind != "redlock");
        if !kinds.is_empty() {
            drawn.lock.kind = kinds.swap_remove(one_of(kinds.len()));
        }
    }
    if let (true, Some(lease)) = (asked(DrawnOperation::Lease), scenario.lock.lease) {
        drawn.lock.lease = Some(Length([lease.0 / 3, lease.0, lease.0 * 2][one_of(3)]));
    }
    if asked(DrawnOperation::Reenter) {
        let share = [0.0, 0.2, 0.5][one_of(3)];
        let again = ["", "reentrant", "fair", "spin"].contains(&&*drawn.lock.kind);
        drawn.load.reenter = if again { share } else { 0.0 };
    }
    if asked(DrawnOperation::Extend) {
        let part = [None, Some(4), Some(8)][one_of(3)];
        let lease = drawn.lock.lease.filter(|_| drawn.load.downgrade.is_none());
        drawn.load.extend = part.zip(lease).map(|(part, lease)| Length(lease.0 / part));
    }
    if asked(DrawnOperation::Cancel) {
        drawn.load.cancel = [0.0, 0.2, 0.5][one_of(3)];
    }
    if asked(DrawnOperation::OwnerMoves) {
        drawn.load.owner_moves = [0.0, 0.2, 0.5][one_of(3)];
    }
    drawn
}

/// Draws faults until the load's end: never more than allowed, and never two on one process, at a time.
pub(crate) fn random(
    spec: &RandomSpec,
    topology: &Topology,
    clients: u32,
    duration_ns: u64,
    rng: &mut ChaCha8Rng,
) -> Vec<FaultSpec> {
    /// So often another fault is drawn where one would hit a process that is being harmed already.
    const TRIES: u32 = 8;
    let mut faults = Vec::new();
    let mut active: Vec<Slot> = Vec::new();
    let mut at_ns = 0;
    if spec.faults.is_empty() {
        return faults;
    }
    loop {
        at_ns += between(spec.every, rng);
        let lasts_ns = between(spec.lasts, rng);
        active.retain(|slot| slot.until_ns > at_ns);
        while active.len() >= spec.at_once as usize {
            at_ns = active.iter().map(|slot| slot.until_ns).min().unwrap_or(at_ns);
            active.retain(|slot| slot.until_ns > at_ns);
        }
        if at_ns + lasts_ns >= duration_ns {
            return faults;
        }
        for _ in 0..TRIES {
            let weight = |candidate: &Candidate| u64::from(candidate.weight);
            let mut ticket = rng.random_range(0..spec.faults.iter().map(weight).sum());
            let Some(candidate) = spec.faults.iter().find(|candidate| {
                let hit = ticket < weight(candidate);
                ticket = ticket.saturating_sub(weight(candidate));
                hit
            }) else {
                continue;
            };
            let on = &candidate.on[rng.random_range(0..candidate.on.len())];
            let on = drawn(on, topology, clients, rng);
            if active.iter().any(|slot| may_meet(&slot.on, &on)) {
                continue;
            }
            let kind = find(&candidate.fault);
            let one_shot = kind.is_some_and(|kind| kind.one_shot);
            let recovers = kind.is_some_and(|kind| kind.recovers);
            faults.push(FaultSpec {
                span: 0,
                fault: candidate.fault.clone(),
                when: FaultTrigger::AtNs(at_ns),
                lasts_ns: (!one_shot).then_some(lasts_ns),
                on: on.clone(),
                with: candidate.with.clone(),
            });
            active.push(Slot { until_ns: at_ns + lasts_ns + u64::from(recovers) * ROOM_NS, on });
            break;
        }
    }
}

fn between(range: Range, rng: &mut ChaCha8Rng) -> u64 {
    rng.random_range(range.min_ns..=range.max_ns)
}

/// Whether two faults may hit one process. A role can be anybody of its sort; links are nobody's process.
fn may_meet(a: &FaultSite, b: &FaultSite) -> bool {
    let (FaultSite::Parties(a), FaultSite::Parties(b)) = (a, b) else { return false };
    a.iter().any(|a| b.iter().any(|b| same(a, b)))
}

fn same(a: &FaultParty, b: &FaultParty) -> bool {
    match (a, b) {
        (FaultParty::Node(a), FaultParty::Node(b)) => a == b,
        (FaultParty::Client(a), FaultParty::Client(b)) => a == b,
        (FaultParty::Sentinels, other) | (other, FaultParty::Sentinels) => *other == FaultParty::Sentinels,
        (a, b) => a.is_client() == b.is_client(),
    }
}
