//! A server forgets its scripts, as it does after a restart or a promotion.

use std::sync::Arc;

use async_trait::async_trait;

use super::{
    Done, Fault, FaultKind, Hits, Injected, Injection, Proof, World, command_figure, nodes,
};

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
impl Fault for ScriptFlush {
    async fn inject(&self, world: &Arc<World>, injection: &Injection) -> Injected {
        let mut proofs = Vec::new();
        for name in nodes(injection) {
            let before = command_figure(world, name, "memory", "number_of_cached_scripts").await?;
            world.command(name, &["SCRIPT", "FLUSH"]).await?;
            proofs.push(Proof::of(
                before > 0,
                format!("{name} forgot {before} scripts"),
            ));
        }
        Ok(Box::new(Done(Proof::all(proofs))))
    }
}
