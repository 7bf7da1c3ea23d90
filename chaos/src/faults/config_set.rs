//! A server's configuration is changed while it runs, and set back when the fault ends.

use std::sync::Arc;

use async_trait::async_trait;

use super::{
    Fault, FaultError, FaultGuard, FaultKind, Healed, Hits, Injected, Injection, Proof,
    SettingKind, SettingSpec, World, nodes, settings,
};

pub(super) const KIND: FaultKind = FaultKind {
    name: "config-set",
    about: "CONFIG SET of one directive, set back when `for` ends",
    hits: Hits::NODE,
    settings: &[
        SettingSpec {
            name: "key",
            about: "the directive",
            kind: SettingKind::Text,
            required: true,
        },
        SettingSpec {
            name: "value",
            about: "its new value",
            kind: SettingKind::Text,
            required: true,
        },
    ],
    colour: "#117864",
    by_command: true,
    ..FaultKind::of(&ConfigSet)
};

struct ConfigSet;

#[async_trait]
impl Fault for ConfigSet {
    async fn inject(&self, world: &Arc<World>, injection: &Injection) -> Injected {
        let key = settings::text(&injection.with, "key").unwrap_or_default();
        let value = settings::text(&injection.with, "value").unwrap_or_default();
        let mut changed = Changed::new(world);
        for name in nodes(injection) {
            changed.set(name, key, value).await?;
        }
        Ok(Box::new(changed))
    }
}

/// Directives that were changed, with their old values.
pub(super) struct Changed {
    world: Arc<World>,
    old: Vec<(String, String, String)>,
    proofs: Vec<Proof>,
}

impl Changed {
    pub(super) fn new(world: &Arc<World>) -> Self {
        Self {
            world: world.clone(),
            old: Vec::new(),
            proofs: Vec::new(),
        }
    }

    pub(super) async fn set(
        &mut self,
        name: &str,
        key: &str,
        value: &str,
    ) -> Result<(), FaultError> {
        let before = self.get(name, key).await?;
        self.world
            .command(name, &["CONFIG", "SET", key, value])
            .await?;
        let after = self.get(name, key).await?;
        // The server may write a value in another way (1mb, 1048576): what counts is that it is no longer the old one.
        let bit = after != before || after == value;
        self.proofs.push(Proof::of(
            bit,
            format!("{name}: {key} was {before:?} and is {after:?}"),
        ));
        self.old.push((name.to_owned(), key.to_owned(), before));
        Ok(())
    }

    async fn get(&self, name: &str, key: &str) -> Result<String, FaultError> {
        let answer = self.world.command(name, &["CONFIG", "GET", key]).await?;
        match answer.split_once('\n') {
            Some((_, value)) => Ok(value.trim_end().to_owned()),
            None => Err(FaultError(format!("{name} has no directive `{key}`"))),
        }
    }

    /// Sets everything back, the last first; what could not be set back is listed.
    pub(super) async fn back(&mut self) -> Option<String> {
        let mut failed = Vec::new();
        while let Some((name, key, value)) = self.old.pop() {
            let set = ["CONFIG", "SET", &key, &value];
            if let Err(error) = self.world.deployment.command(&name, &set).await {
                failed.push(error.to_string());
            }
        }
        (!failed.is_empty()).then(|| failed.join("; "))
    }
}

#[async_trait]
impl FaultGuard for Changed {
    fn proof(&self) -> Proof {
        Proof::all(self.proofs.clone())
    }

    async fn heal(mut self: Box<Self>) -> Healed {
        let failed = self.back().await;
        Healed {
            proof: self.proof(),
            failed,
        }
    }
}
