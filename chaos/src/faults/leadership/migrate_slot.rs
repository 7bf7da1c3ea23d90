//! Slots move from one master of a cluster to another under load, the locks' own first.
//!
//! In the order of the Redis documentation: the target begins to import and the source to migrate, keys move
//! by MIGRATE, and the new owner is announced, once it knows the configuration epochs of the other masters.
//! Between the steps there is a pause, so that clients meet each phase: ASK for keys that are gone already,
//! then MOVED.

use std::collections::BTreeSet;
use std::time::Duration;

use cluster_config::{Deployment, Topology, TopologyKind, slot_of};

use crate::faults::per_target::{OnEach, TargetContext};
use crate::faults::{
    FaultError, FaultKind, FaultWorld, Proof, Servers, SettingKind, SettingSpec, error_count, settings,
};
use crate::polling::is_so;
use crate::scenario::{FaultParty, FaultSite, Settings};
use crate::servers::members::{self, Member};

pub(crate) const SLOTS: SettingSpec =
    SettingSpec::optional("slots", SettingKind::Count(1, 16_384)).about("how many; default 1");
pub(crate) const TO: SettingSpec = SettingSpec::optional("to", SettingKind::Node(Servers::Masters))
    .about("the master that gets them, such as n2; default: the next one");

pub(crate) const KIND: FaultKind = FaultKind {
    name: "migrate-slot",
    about: "slots with their keys move to another master of the cluster while clients use them, the lock's own first, once",
    settings: &[
        SLOTS,
        TO,
        SettingSpec::optional("pause", SettingKind::Duration)
            .about("how long each phase lasts for a slot; default 100ms"),
    ],
    servers: Servers::Masters,
    one_shot: true,
    by_command: true,
    allowed,
    ..FaultKind::of(&MigrateSlot)
};

const PAUSE: Duration = Duration::from_millis(100);

/// Keys per MIGRATE, and how long one may take.
const KEYS_AT_ONCE: &str = "100";
const MIGRATE_MS: &str = "2000";

/// Gossip passes all masters within a second; a network that is cut is not waited for until it heals.
const EPOCHS_WITHIN: Duration = Duration::from_secs(3);
const EVERY: Duration = Duration::from_millis(20);

pub(crate) fn allowed(topology: &Topology, on: &FaultSite, with: &Settings) -> Result<(), String> {
    if topology.kind != TopologyKind::Cluster || topology.shards < 2 {
        return Err(format!(
            "moving slots needs a cluster of at least two masters, and this is a `{}` topology",
            topology.kind
        ));
    }
    let Some(to) = settings::text(with, "to") else { return Ok(()) };
    match on {
        FaultSite::Parties(parties) if parties.contains(&FaultParty::Node(to.to_owned())) => {
            Err(format!("`to` is \"{to}\", and the slots are on it already"))
        }
        _ => Ok(()),
    }
}

struct MigrateSlot;

impl OnEach for MigrateSlot {
    type Kept = Proof;

    async fn harm(at: TargetContext<'_>) -> Result<Proof, FaultError> {
        let from = at.node()?.to_owned();
        let (count, to) = wanted_move(at.deployment(), &from, &at.injection.with).await?;
        let pause = at.time("pause").unwrap_or(PAUSE);
        SlotMigration { world: at.world, from, to, pause }.slots(count).await
    }
}

/// How many slots of `from` are to move, and to which master.
pub(crate) async fn wanted_move(
    deployment: &Deployment,
    from: &str,
    with: &Settings,
) -> Result<(usize, String), FaultError> {
    let count = settings::count(with, "slots").unwrap_or(1) as usize;
    let to = match settings::text(with, "to") {
        Some(to) => to.to_owned(),
        None => next_master(deployment, from).await?,
    };
    Ok((count, to))
}

/// The live master that follows `from` in the order of names, round again after the last.
async fn next_master(deployment: &Deployment, from: &str) -> Result<String, FaultError> {
    let mut known = members::known_to(deployment, from).await?;
    known.retain(|member| member.is_live_master() && member.slots().next().is_some());
    let nodes = known.iter().filter_map(|member| member.node(deployment));
    let masters: BTreeSet<&str> = nodes.map(|node| node.name.as_str()).collect();
    let next = masters.iter().find(|name| **name > from).or(masters.first()).filter(|name| **name != from);
    next.map(|name| (*name).to_owned()).ok_or_else(|| failed!("there is no master beside {from}"))
}

/// So many slots of `from` for `target`, those of the locks first, and what `from` knows of itself.
pub(crate) async fn chosen(
    world: &FaultWorld,
    from: &str,
    (target, to): (&Member, &str),
    count: usize,
) -> Result<(Member, Vec<u16>), FaultError> {
    let source = members::itself(&world.deployment, from).await?;
    if !target.is_live_master() {
        return Err(failed!("{to} is no master"));
    }
    let mut slots: Vec<u16> = world.locks.iter().map(slot_of).collect();
    slots.extend(source.slots());
    let mut seen = BTreeSet::new();
    slots.retain(|slot| source.owns(*slot) && seen.insert(*slot));
    slots.truncate(count);
    if slots.len() < count {
        let there = slots.len();
        return Err(failed!("{from} has {there} slots, not {count}"));
    }
    Ok((source, slots))
}

struct SlotMigration<'w> {
    world: &'w FaultWorld,
    from: String,
    to: String,
    pause: Duration,
}

impl SlotMigration<'_> {
    async fn command(&self, node: &str, args: &[&str]) -> Result<String, FaultError> {
        Ok(self.world.deployment.command(node, args).await?)
    }

    async fn slots(&self, count: usize) -> Result<Proof, FaultError> {
        let world = self.world;
        let target = members::itself(&world.deployment, &self.to).await?;
        let (source, slots) = chosen(world, &self.from, (&target, &self.to), count).await?;
        let redirections = |word: &'static str| error_count(world, &self.from, word);
        let (asked, moved) = (redirections("ASK").await?, redirections("MOVED").await?);
        let mut keys = 0;
        for slot in &slots {
            keys += self.slot(*slot, &source.id, &target.id).await?;
        }
        let owner = members::itself(&world.deployment, &self.to).await?;
        let arrived = slots.iter().filter(|slot| owner.owns(**slot)).count();
        Ok(proof!(
            arrived == slots.len(),
            "{} owns {arrived} of {} slots that were {}'s, {keys} keys moved with them; {} answered {} ASK and {} MOVED so far",
            self.to,
            slots.len(),
            self.from,
            self.from,
            redirections("ASK").await?.saturating_sub(asked),
            redirections("MOVED").await?.saturating_sub(moved)
        ))
    }

    /// Moves one slot, and says how many keys it had. Once begun it is carried through: a slot that stays
    /// half moved would outlast the fault.
    async fn slot(&self, slot: u16, from_id: &str, to_id: &str) -> Result<usize, FaultError> {
        let slot = slot.to_string();
        let set = ["CLUSTER", "SETSLOT", &slot];
        let importing = [&set[..], &["IMPORTING", from_id]].concat();
        let migrating = [&set[..], &["MIGRATING", to_id]].concat();
        let node = [&set[..], &["NODE", to_id]].concat();
        self.command(&self.to, &importing).await?;
        self.command(&self.from, &migrating).await?;
        tokio::time::sleep(self.pause).await;
        let keys = self.keys(&slot).await?;
        tokio::time::sleep(self.pause).await;
        self.knows_epochs().await;
        // The target first: else a client could be sent to and fro between two that disown the slot.
        self.command(&self.to, &node).await?;
        let said = self.command(&self.from, &node).await;
        // One that was replaced is no master any more; its successor hears by gossip whose it is.
        if members::itself(&self.world.deployment, &self.from).await?.is_live_master() {
            said?;
        }
        for other in self.world.deployment.nodes() {
            if other.name != self.to && other.name != self.from {
                // Only so that nodes know sooner: replicas refuse, and gossip reaches those that missed it.
                let _ = self.command(&other.name, &node).await;
            }
        }
        Ok(keys)
    }

    /// Waits until the new owner knows the configuration epoch of every other master that answers.
    ///
    /// It takes an epoch above every one that it knows of. One that has not heard yet of the old owner's
    /// epoch would claim the slot with a lower one, and lose it again to a gossip packet that the old owner
    /// sent before it knew: from then on each of them says MOVED to the other, for ever.
    async fn knows_epochs(&self) {
        let deployment = &self.world.deployment;
        let all_known = || async {
            let known = members::known_to(deployment, &self.to).await;
            let known = known.unwrap_or_default();
            let views = deployment.nodes().iter().map(|node| async {
                let own = members::itself(deployment, &node.name).await.ok()?;
                let seen = |member: &Member| member.id == own.id && member.epoch >= own.epoch;
                Some(!own.is_live_master() || known.iter().any(seen))
            });
            let views = futures_util::future::join_all(views).await;
            // A node that does not answer, another fault's victim, announces nothing either.
            views.into_iter().flatten().all(|known| known)
        };
        is_so(EPOCHS_WITHIN, EVERY, all_known).await;
    }

    async fn keys(&self, slot: &str) -> Result<usize, FaultError> {
        let target = self.world.deployment.node(&self.to)?.address;
        let (host, port) = (target.ip().to_string(), target.port().to_string());
        let mut moved = 0;
        loop {
            let answer = self.command(&self.from, &["CLUSTER", "GETKEYSINSLOT", slot, KEYS_AT_ONCE]).await?;
            let keys: Vec<&str> = answer.lines().filter(|key| !key.is_empty()).collect();
            if keys.is_empty() {
                return Ok(moved);
            }
            let mut migrate = vec!["MIGRATE", &host, &port, "", "0", MIGRATE_MS, "KEYS"];
            migrate.extend(&keys);
            // NOKEY: they were released or ran out meanwhile, and then nothing is left to move.
            self.command(&self.from, &migrate).await?;
            moved += keys.len();
        }
    }
}
