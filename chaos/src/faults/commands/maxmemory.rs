//! A server gets a memory limit, so that it refuses writes or evicts keys until the fault ends.

use crate::faults::commands::config_set::ChangedDirectives;
use crate::faults::per_target::{OnEach, TargetContext, TargetEvidence};
use crate::faults::{
    FaultError, FaultKind, FaultWorld, Proof, Servers, SettingKind, SettingSpec, command_figure, error_count,
};

pub(crate) const KIND: FaultKind = FaultKind {
    name: "maxmemory",
    about: "a memory limit: writes are refused or keys evicted, as `policy` says, until `for` ends",
    settings: &[
        SettingSpec::required("limit", SettingKind::Memory).about("the limit, such as `600kb`"),
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
        )
        .about("maxmemory-policy; default: the configured one"),
    ],
    servers: Servers::Data,
    by_command: true,
    ..FaultKind::of(&Maxmemory)
};

struct Maxmemory;

impl OnEach for Maxmemory {
    type Kept = TargetEvidence<(ChangedDirectives, u64)>;

    async fn harm(at: TargetContext<'_>) -> Result<Self::Kept, FaultError> {
        let limit = at.text("limit").unwrap_or_default();
        let before = refusals(at.world, at.node()?).await?;
        let mut changed = ChangedDirectives::default();
        if let Some(policy) = at.text("policy") {
            changed.set(at, "maxmemory-policy", policy).await?;
        }
        changed.set(at, "maxmemory", limit).await?;
        let not_yet = "the limit was not lifted, so its harm was not counted";
        Ok(TargetEvidence(Proof::of(false, not_yet), (changed, before)))
    }

    async fn undo(at: TargetContext<'_>, kept: &mut Self::Kept) -> Result<(), FaultError> {
        let TargetEvidence(proof, (changed, before)) = kept;
        let name = at.node()?;
        let limit = command_figure(at.world, name, "memory", "maxmemory").await;
        let used = command_figure(at.world, name, "memory", "used_memory").await;
        *proof = match (refusals(at.world, name).await, limit, used) {
            (Ok(after), Ok(limit), Ok(used)) => proof!(
                after > *before || used > limit,
                "{name}: {} keys evicted or writes refused, {used} bytes used of {limit}",
                after.saturating_sub(*before)
            ),
            _ => proof!(false, "{name} did not say what it did"),
        };
        changed.back(at).await
    }
}

/// Keys evicted and writes refused since the server started.
async fn refusals(world: &FaultWorld, name: &str) -> Result<u64, FaultError> {
    Ok(command_figure(world, name, "stats", "evicted_keys").await? + error_count(world, name, "OOM").await?)
}
