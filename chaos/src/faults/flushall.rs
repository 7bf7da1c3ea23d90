//! A server forgets every key.

use std::sync::Arc;

use async_trait::async_trait;

use super::each::OnEach;
use super::{FaultError, FaultKind, Hits, Injection, Proof, Target, World};

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
impl OnEach for Flushall {
    type Kept = Proof;

    async fn harm(world: &Arc<World>, target: &Target, _: &Injection) -> Result<Proof, FaultError> {
        let name = target.node()?;
        let before = world.command(name, &["DBSIZE"]).await?;
        world.deployment.command(name, &["FLUSHALL"]).await?;
        let keys: u64 = before.trim().parse().unwrap_or(0);
        Ok(Proof::of(keys > 0, format!("{name} forgot {keys} keys")))
    }
}
