//! A server gets a memory limit, so that it refuses writes or evicts keys until the fault ends.

use std::sync::Arc;

use async_trait::async_trait;

use super::config_set::Changed;
use super::{
    Fault, FaultError, FaultGuard, FaultKind, Healed, Hits, Injected, Injection, Proof,
    SettingKind, SettingSpec, World, command_figure, nodes, settings,
};

pub(super) const KIND: FaultKind = FaultKind {
    name: "maxmemory",
    about: "a memory limit: writes are refused or keys evicted, as `policy` says, until `for` ends",
    hits: Hits::NODE,
    settings: &[
        SettingSpec {
            name: "limit",
            about: "the limit, such as `600kb`",
            kind: SettingKind::Text,
            required: true,
        },
        SettingSpec {
            name: "policy",
            about: "maxmemory-policy; default: the configured one",
            kind: SettingKind::OneOf(&[
                "noeviction",
                "allkeys-lru",
                "allkeys-lfu",
                "allkeys-random",
                "volatile-lru",
                "volatile-lfu",
                "volatile-random",
                "volatile-ttl",
            ]),
            required: false,
        },
    ],
    colour: "#6c3483",
    by_command: true,
    ..FaultKind::of(&Maxmemory)
};

struct Maxmemory;

#[async_trait]
impl Fault for Maxmemory {
    async fn inject(&self, world: &Arc<World>, injection: &Injection) -> Injected {
        let limit = settings::text(&injection.with, "limit").unwrap_or_default();
        let mut guard = Limited {
            world: world.clone(),
            changed: Changed::new(world),
            before: Vec::new(),
        };
        for name in nodes(injection) {
            guard
                .before
                .push((name.to_owned(), harm(world, name).await?));
            if let Some(policy) = settings::text(&injection.with, "policy") {
                guard.changed.set(name, "maxmemory-policy", policy).await?;
            }
            guard.changed.set(name, "maxmemory", limit).await?;
        }
        Ok(Box::new(guard))
    }
}

/// Keys evicted and writes refused since the server started.
async fn harm(world: &World, name: &str) -> Result<u64, FaultError> {
    let evicted = command_figure(world, name, "stats", "evicted_keys").await?;
    let errors = world.command(name, &["INFO", "errorstats"]).await?;
    let refused = errors
        .lines()
        .find_map(|line| line.strip_prefix("errorstat_OOM:count="))
        .and_then(|count| count.trim().parse::<u64>().ok())
        .unwrap_or(0);
    Ok(evicted + refused)
}

struct Limited {
    world: Arc<World>,
    changed: Changed,
    before: Vec<(String, u64)>,
}

#[async_trait]
impl FaultGuard for Limited {
    fn proof(&self) -> Proof {
        Proof::of(
            false,
            "the limit was not lifted, so its harm was not counted",
        )
    }

    async fn heal(mut self: Box<Self>) -> Healed {
        let mut proofs = Vec::new();
        for (name, before) in &self.before {
            let limit = command_figure(&self.world, name, "memory", "maxmemory").await;
            let used = command_figure(&self.world, name, "memory", "used_memory").await;
            proofs.push(match (harm(&self.world, name).await, limit, used) {
                (Ok(after), Ok(limit), Ok(used)) => Proof::of(
                    after > *before || used > limit,
                    format!(
                        "{name}: {} keys evicted or writes refused, {used} bytes used of {limit}",
                        after.saturating_sub(*before)
                    ),
                ),
                _ => Proof::of(false, format!("{name} did not say what it did")),
            });
        }
        Healed {
            proof: Proof::all(proofs),
            failed: self.changed.back().await,
        }
    }
}
