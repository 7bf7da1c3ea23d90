//! A server forgets every key.

use super::each::{At, OnEach};
use super::{FaultError, FaultKind, Hits, Proof};

pub(super) const KIND: FaultKind = FaultKind {
    name: "flushall",
    about: "the server forgets every key, once",
    hits: Hits::NODE,
    one_shot: true,
    by_command: true,
    ..FaultKind::of(&Flushall)
};

struct Flushall;

impl OnEach for Flushall {
    type Kept = Proof;

    async fn harm(at: At<'_>) -> Result<Proof, FaultError> {
        let name = at.node()?;
        let before = at.world.command(name, &["DBSIZE"]).await?;
        at.deployment().command(name, &["FLUSHALL"]).await?;
        let keys: u64 = before.trim().parse().unwrap_or(0);
        Ok(proof!(keys > 0, "{name} forgot {keys} keys"))
    }
}
