//! A server is killed and loses what it had not synced, as if its power had been cut; it comes back when the fault ends.

use std::sync::Arc;

use async_trait::async_trait;

use super::each::OnEach;
use super::{FaultError, FaultKind, Hits, Injection, Proof, Shows, Target, World, kill};

pub(super) const KIND: FaultKind = FaultKind {
    name: "power-cut",
    about: "SIGKILL, and what was not synced is gone from its files; comes back when `for` ends",
    hits: Hits::NODE,
    colour: "#7b241c",
    stays_down: true,
    shows: Shows::Gone,
    needs_shim: true,
    recovers: true,
    ..FaultKind::of(&PowerCut)
};

struct PowerCut;

#[async_trait]
impl OnEach for PowerCut {
    type Kept = Proof;

    async fn harm(world: &Arc<World>, target: &Target, _: &Injection) -> Result<Proof, FaultError> {
        let (name, deployment) = (target.node()?, &world.deployment);
        let page = world.page(target)?;
        let dir = deployment.data_dir(name)?;
        deployment.kill(name).await?;
        let lost = page
            .cut_power(dir)
            .map_err(|error| FaultError(format!("its files could not be cut: {error}")))?;
        Ok(Proof::of(
            deployment.pid(name).is_none(),
            format!(
                "{name}: its process is gone, and with it {} bytes in {} files that were not synced",
                lost.bytes, lost.files
            ),
        ))
    }

    async fn undo(world: &World, target: &Target, _: &mut Proof) -> Result<(), FaultError> {
        kill::start_again(world, target).await
    }
}
