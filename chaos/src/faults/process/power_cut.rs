//! A server is killed and loses what it had not synced, as if its power had been cut; it comes back when the
//! fault ends.

use crate::faults::per_target::{OnEach, TargetContext};
use crate::faults::process::kill;
use crate::faults::{FaultError, FaultKind, HookEvidence, Proof};

pub(crate) const KIND: FaultKind = FaultKind {
    name: "power-cut",
    about: "SIGKILL, and what was not synced is gone from its files; comes back when `for` ends",
    any_system: true,
    stays_down: true,
    shows: HookEvidence::Gone,
    needs_shim: true,
    recovers: true,
    ..FaultKind::of(&PowerCut)
};

struct PowerCut;

impl OnEach for PowerCut {
    type Kept = Proof;

    async fn harm(at: TargetContext<'_>) -> Result<Proof, FaultError> {
        let (name, deployment) = (at.node()?, &at.deployment());
        let page = at.world.page(at.target)?;
        let dir = deployment.data_dir(name)?;
        deployment.kill(name).await?;
        let lost = page.cut_power(dir).map_err(|error| failed!("its files could not be cut: {error}"))?;
        Ok(proof!(
            deployment.pid(name).is_none(),
            "{name}: its process is gone, and with it {} bytes in {} files that were not synced",
            lost.bytes,
            lost.files
        ))
    }

    async fn undo(at: TargetContext<'_>, _: &mut Proof) -> Result<(), FaultError> {
        kill::start_again(at.world, at.target).await
    }
}
