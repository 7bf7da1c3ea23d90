//! A server forgets its scripts, as it does after a restart or a promotion.

use std::sync::Arc;

use async_trait::async_trait;

use super::each::OnEach;
use super::{FaultError, FaultKind, Hits, Injection, Proof, Target, World, command_figure};

pub(super) const KIND: FaultKind = FaultKind {
    name: "script-flush",
    about: "the server forgets its scripts, once, as after a restart",
    hits: Hits::NODE,
    one_shot: true,
    colour: "#7d6608",
    by_command: true,
    ..FaultKind::of(&ScriptFlush)
};

struct ScriptFlush;

#[async_trait]
impl OnEach for ScriptFlush {
    type Kept = Proof;

    async fn harm(world: &Arc<World>, target: &Target, _: &Injection) -> Result<Proof, FaultError> {
        let name = target.node()?;
        let before = command_figure(world, name, "memory", "number_of_cached_scripts").await?;
        world.command(name, &["SCRIPT", "FLUSH"]).await?;
        let words = format!("{name} forgot {before} scripts");
        Ok(Proof::of(before > 0, words))
    }
}
