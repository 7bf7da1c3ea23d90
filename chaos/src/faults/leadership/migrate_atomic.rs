//! Slots move to another master of a cluster in one piece, by the servers' own command: Redis' CLUSTER
//! MIGRATION IMPORT, to the new owner, or Valkey's CLUSTER MIGRATESLOTS, to the old one.
//!
//! The new owner copies the slots like a replica and takes them over when it has caught up, so a client meets
//! MOVED and never ASK. It goes on beside the load, and other faults may come into the middle of it. A
//! failover may break it off: the slots stay then where they were, which is as much an effect as their move.

use std::time::Duration;

use crate::faults::leadership::migrate_slot::{SLOTS, TO, allowed, chosen, wanted_move};
use crate::faults::per_target::{OnEach, TargetContext, TargetEvidence};
use crate::faults::{FaultError, FaultKind, FaultWorld, Servers, error_count};
use crate::polling::is_so;
use crate::servers::members;

pub(crate) const KIND: FaultKind = FaultKind {
    name: "migrate-atomic",
    about: "slots with their keys move to another master in one piece, the locks' own first, by CLUSTER MIGRATION or MIGRATESLOTS",
    settings: &[SLOTS, TO],
    servers: Servers::Masters,
    by_command: true,
    needs_words: (&[MIGRATION, MIGRATESLOTS], "Redis 8.4 and Valkey 9"),
    allowed,
    ..FaultKind::of(&MigrateAtomic)
};

const MIGRATION: &str = "MIGRATION";
const MIGRATESLOTS: &str = "MIGRATESLOTS";
const EVERY: Duration = Duration::from_millis(20);
/// A move of so few keys takes milliseconds; one that has a failover in it is tried again for some seconds.
const LONGEST: Duration = Duration::from_secs(4);

struct AtomicMigration {
    from: String,
    to: String,
    slots: Vec<u16>,
    /// Which server got the order, and the command that asks it how far it is.
    told: String,
    status: &'static [&'static str],
    moved_before: u64,
}

struct MigrateAtomic;

impl OnEach for MigrateAtomic {
    type Kept = TargetEvidence<AtomicMigration>;

    async fn harm(at: TargetContext<'_>) -> Result<Self::Kept, FaultError> {
        let from = at.node()?.to_owned();
        let deployment = &at.deployment();
        let (count, to) = wanted_move(deployment, &from, &at.injection.with).await?;
        let owner = members::itself(deployment, &to).await?;
        let (_, slots) = chosen(at.world, &from, (&owner, &to), count).await?;
        let ranges: Vec<String> =
            slots.iter().flat_map(|slot| [slot.to_string(), slot.to_string()]).collect();
        let ranges: Vec<&str> = ranges.iter().map(String::as_str).collect();
        let moved_before = error_count(at.world, &from, "MOVED").await?;
        let import = [&["CLUSTER", MIGRATION, "IMPORT"], &ranges[..]].concat();
        let export = [&["CLUSTER", MIGRATESLOTS, "SLOTSRANGE"], &ranges[..], &["NODE", &owner.id]];
        let help = deployment.command(&from, &["CLUSTER", "HELP"]).await?;
        let (told, order, status): (_, _, &[&str]) =
            match help.lines().any(|line| line.starts_with(MIGRATION)) {
                true => (&to, import, &["CLUSTER", MIGRATION, "STATUS", "ALL"]),
                false => (&from, export.concat(), &["CLUSTER", "GETSLOTMIGRATIONS"]),
            };
        deployment.command(told, &order).await?;
        let proof = proof!(false, "{to} has begun to take {count} slots of {from}");
        let moving = AtomicMigration { told: told.clone(), from, to, slots, status, moved_before };
        Ok(TargetEvidence(proof, moving))
    }

    async fn undo(at: TargetContext<'_>, kept: &mut Self::Kept) -> Result<(), FaultError> {
        let TargetEvidence(proof, moving) = kept;
        is_so(LONGEST, EVERY, || async { is_over(&moving.state(at.world).await) }).await;
        let said = moving.state(at.world).await;
        let AtomicMigration { from, to, slots, .. } = moving;
        let owner = members::itself(at.deployment(), to).await?;
        let arrived = slots.iter().filter(|slot| owner.owns(**slot)).count();
        let moved = error_count(at.world, from, "MOVED").await.unwrap_or(0);
        *proof = proof!(
            arrived == slots.len() || is_over(&said),
            "{to} owns {arrived} of {} slots that were {from}'s; the migration: {said}; {from} answered {} MOVED so far",
            slots.len(),
            moved.saturating_sub(moving.moved_before)
        );
        Ok(())
    }
}

impl AtomicMigration {
    /// What the server that got the order says of its migration: state, failure, how often tried again.
    async fn state(&self, world: &FaultWorld) -> String {
        let answer = world.command(&self.told, self.status).await;
        let answer = answer.unwrap_or_default();
        // Names and values in turn.
        let lines: Vec<&str> = answer.lines().map(str::trim).collect();
        let field = |name: &str| {
            let found = lines.chunks_exact(2).find(|pair| pair[0] == name);
            found.map(|pair| pair[1]).filter(|value| !value.is_empty() && *value != "0")
        };
        let why = field("last_error").or(field("message"));
        let mut said = field("state").unwrap_or("unknown").to_owned();
        said.extend(why.map(|why| format!(" ({why})")));
        said.extend(field("retries").map(|count| format!(", tried again {count}×")));
        said
    }
}

fn is_over(state: &str) -> bool {
    ["completed", "success", "failed", "cancel"].iter().any(|word| state.starts_with(word))
}
