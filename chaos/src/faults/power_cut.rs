//! A server is killed and loses what it had not synced, as if its power had been cut; it comes back when the fault ends.

use std::sync::Arc;

use async_trait::async_trait;

use super::kill::Killed;
use super::{Fault, FaultError, FaultKind, Hits, Injected, Injection, Proof, Shows, Target, World};

pub(super) const KIND: FaultKind = FaultKind {
    name: "power-cut",
    about: "SIGKILL, and what was not synced is gone from its files; comes back when `for` ends",
    hits: Hits::NODE,
    colour: "#7b241c",
    stays_down: true,
    shows: Shows::Gone,
    recovers: true,
    ..FaultKind::of(&PowerCut)
};

struct PowerCut;

#[async_trait]
impl Fault for PowerCut {
    fn needs_shim(&self) -> bool {
        true
    }

    async fn inject(&self, world: &Arc<World>, injection: &Injection) -> Injected {
        let mut guard = Killed::none(world);
        for target in &injection.targets {
            guard.add(target, cut(world, target).await);
        }
        Ok(Box::new(guard))
    }
}

async fn cut(world: &World, target: &Target) -> Result<Proof, FaultError> {
    let deployment = &world.deployment;
    let Target::Node(name) = target else {
        return Err(FaultError("only a server has files to cut".to_owned()));
    };
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
