//! A server gets a memory limit, so that it refuses writes or evicts keys until the fault ends.

use std::sync::Arc;

use async_trait::async_trait;

use super::config_set::Changed;
use super::each::{Evidence, OnEach};
use super::{
    FaultError, FaultKind, Hits, Injection, Proof, SettingKind, SettingSpec, Target, World,
    command_figure, error_count, settings,
};

pub(super) const KIND: FaultKind = FaultKind {
    name: "maxmemory",
    about: "a memory limit: writes are refused or keys evicted, as `policy` says, until `for` ends",
    hits: Hits::NODE,
    settings: &[
        SettingSpec::required("limit", SettingKind::Text, "the limit, such as `600kb`"),
        SettingSpec::optional(
            "policy",
            SettingKind::OneOf(&[
                "noeviction",
                "allkeys-lru",
                "allkeys-lfu",
                "allkeys-random",
                "volatile-lru",
                "volatile-lfu",
                "volatile-random",
                "volatile-ttl",
            ]),
            "maxmemory-policy; default: the configured one",
        ),
    ],
    colour: "#6c3483",
    by_command: true,
    ..FaultKind::of(&Maxmemory)
};

struct Maxmemory;

/// A server with a limit.
struct Limited {
    changed: Changed,
    /// Its [`refusals`] before.
    before: u64,
    proof: Proof,
}

#[async_trait]
impl OnEach for Maxmemory {
    type Kept = Limited;

    async fn harm(
        world: &Arc<World>,
        target: &Target,
        injection: &Injection,
    ) -> Result<Limited, FaultError> {
        let limit = settings::text(&injection.with, "limit").unwrap_or_default();
        let before = refusals(world, target.node()?).await?;
        let mut changed = Changed::default();
        if let Some(policy) = settings::text(&injection.with, "policy") {
            let key = "maxmemory-policy";
            changed.set(world, target, key, policy).await?;
        }
        changed.set(world, target, "maxmemory", limit).await?;
        Ok(Limited {
            changed,
            before,
            proof: Proof::of(
                false,
                "the limit was not lifted, so its harm was not counted",
            ),
        })
    }

    async fn undo(world: &World, target: &Target, kept: &mut Limited) -> Result<(), FaultError> {
        let name = target.node()?;
        let limit = command_figure(world, name, "memory", "maxmemory").await;
        let used = command_figure(world, name, "memory", "used_memory").await;
        kept.proof = match (refusals(world, name).await, limit, used) {
            (Ok(after), Ok(limit), Ok(used)) => Proof::of(
                after > kept.before || used > limit,
                format!(
                    "{name}: {} keys evicted or writes refused, {used} bytes used of {limit}",
                    after.saturating_sub(kept.before)
                ),
            ),
            _ => Proof::of(false, format!("{name} did not say what it did")),
        };
        kept.changed.back(world, target).await
    }
}

/// Keys evicted and writes refused since the server started.
async fn refusals(world: &World, name: &str) -> Result<u64, FaultError> {
    let evicted = command_figure(world, name, "stats", "evicted_keys").await?;
    Ok(evicted + error_count(world, name, "OOM").await?)
}

impl Evidence for Limited {
    fn proof(&self, _world: &World, _target: &Target) -> Proof {
        self.proof.clone()
    }
}
