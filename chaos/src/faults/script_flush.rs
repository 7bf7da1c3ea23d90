//! A server forgets its scripts, as it does after a restart or a promotion.

use super::each::{At, OnEach};
use super::{FaultError, FaultKind, Hits, Proof, command_figure};

pub(super) const KIND: FaultKind = FaultKind {
    name: "script-flush",
    about: "the server forgets its scripts, once, as after a restart",
    hits: Hits::NODE,
    one_shot: true,
    by_command: true,
    ..FaultKind::of(&ScriptFlush)
};

struct ScriptFlush;

impl OnEach for ScriptFlush {
    type Kept = Proof;

    async fn harm(at: At<'_>) -> Result<Proof, FaultError> {
        let name = at.node()?;
        let before = command_figure(at.world, name, "memory", "number_of_cached_scripts").await?;
        at.world.command(name, &["SCRIPT", "FLUSH"]).await?;
        Ok(proof!(before > 0, "{name} forgot {before} scripts"))
    }
}
