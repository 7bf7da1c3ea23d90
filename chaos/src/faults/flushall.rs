//! A server forgets every key.

use std::sync::Arc;

use async_trait::async_trait;

use super::{Done, Fault, FaultKind, Hits, Injected, Injection, Proof, World, nodes};

pub(super) const KIND: FaultKind = FaultKind {
    name: "flushall",
    about: "the server forgets every key, once",
    hits: Hits::NODE,
    one_shot: true,
    colour: "#943126",
    by_command: true,
    ..FaultKind::of(&Flushall)
};

struct Flushall;

#[async_trait]
impl Fault for Flushall {
    async fn inject(&self, world: &Arc<World>, injection: &Injection) -> Injected {
        let mut proofs = Vec::new();
        for name in nodes(injection) {
            let before = world.command(name, &["DBSIZE"]).await?;
            world.deployment.command(name, &["FLUSHALL"]).await?;
            let keys: u64 = before.trim().parse().unwrap_or(0);
            proofs.push(Proof::of(keys > 0, format!("{name} forgot {keys} keys")));
        }
        Ok(Box::new(Done(Proof::all(proofs))))
    }
}
