//! A server's configuration is changed while it runs, and set back when the fault ends.

use crate::faults::per_target::{Evidence, OnEach, TargetContext};
use crate::faults::{FaultError, FaultKind, FaultWorld, Proof, Servers, SettingKind, SettingSpec};

pub(crate) const KIND: FaultKind = FaultKind {
    name: "config-set",
    about: "CONFIG SET of one directive, set back when `for` ends",
    settings: &[
        SettingSpec::required("key", SettingKind::Text).about("the directive"),
        SettingSpec::required("value", SettingKind::Value).about("its new value"),
    ],
    servers: Servers::Data,
    by_command: true,
    ..FaultKind::of(&ConfigSet)
};

struct ConfigSet;

impl OnEach for ConfigSet {
    type Kept = ChangedDirectives;

    async fn harm(at: TargetContext<'_>) -> Result<ChangedDirectives, FaultError> {
        let key = at.text("key").unwrap_or_default();
        let value = at.text("value").unwrap_or_default();
        let mut changed = ChangedDirectives::default();
        changed.set(at, key, value).await?;
        Ok(changed)
    }

    async fn undo(at: TargetContext<'_>, kept: &mut ChangedDirectives) -> Result<(), FaultError> {
        kept.back(at).await
    }
}

/// Directives of a server that were changed, with their old values.
#[derive(Default)]
pub(crate) struct ChangedDirectives {
    old: Vec<(String, String)>,
    proofs: Vec<Proof>,
}

impl ChangedDirectives {
    pub(crate) async fn set(
        &mut self,
        at: TargetContext<'_>,
        key: &str,
        value: &str,
    ) -> Result<(), FaultError> {
        let (world, name) = (at.world, at.node()?);
        let before = get(world, name, key).await?;
        world.command(name, &["CONFIG", "SET", key, value]).await?;
        let after = get(world, name, key).await?;
        // The server may write a value in another way (1mb, 1048576): what counts is that it is no longer the
        // old one. Where it was so before, nothing was done.
        let bit = after != before;
        self.proofs.push(proof!(bit, "{name}: {key} was {before:?} and is {after:?}"));
        self.old.push((key.to_owned(), before));
        Ok(())
    }

    /// Sets everything back, the last first; what could not be set back is listed.
    pub(crate) async fn back(&mut self, at: TargetContext<'_>) -> Result<(), FaultError> {
        let mut failed = Vec::new();
        while let Some((key, value)) = self.old.pop() {
            if let Err(error) = at.deployment().command(at.node()?, &["CONFIG", "SET", &key, &value]).await {
                failed.push(error.to_string());
            }
        }
        match failed.is_empty() {
            true => Ok(()),
            false => Err(FaultError(failed.join("; "))),
        }
    }
}

async fn get(world: &FaultWorld, name: &str, key: &str) -> Result<String, FaultError> {
    let answer = world.command(name, &["CONFIG", "GET", key]).await?;
    match answer.split_once('\n') {
        Some((_, value)) => Ok(value.trim_end().to_owned()),
        None => Err(failed!("{name} has no directive `{key}`")),
    }
}

impl Evidence for ChangedDirectives {
    fn proof(&self, _: TargetContext<'_>) -> Proof {
        Proof::all(self.proofs.clone())
    }
}
