//! A server is killed and loses what it had not synced, as if its power had been cut; it comes back when the fault ends.

use std::sync::Arc;

use async_trait::async_trait;
use cluster_config::Data;

use super::{
    Fault, FaultError, FaultGuard, FaultKind, Healed, Hits, Injection, Proof, Shows, Target, World,
    nodes,
};

pub(super) const KIND: FaultKind = FaultKind {
    name: "power-cut",
    about: "SIGKILL, and what was not synced is gone from its files; comes back when `for` ends",
    hits: Hits::NODE,
    colour: "#7b241c",
    stays_down: true,
    shows: Shows::Gone,
    ..FaultKind::of(&PowerCut)
};

struct PowerCut;

#[async_trait]
impl Fault for PowerCut {
    fn needs_shim(&self) -> bool {
        true
    }

    async fn inject(
        &self,
        world: &Arc<World>,
        injection: &Injection,
    ) -> Result<Box<dyn FaultGuard>, FaultError> {
        let mut guard = Dark {
            world: world.clone(),
            off: Vec::new(),
            proofs: Vec::new(),
        };
        for name in nodes(injection) {
            match cut(world, name).await {
                Ok(proof) => {
                    guard.off.push(name.to_owned());
                    guard.proofs.push(proof);
                }
                // The others lose their power all the same: what failed leaves the fault without proof.
                Err(error) => guard
                    .proofs
                    .push(Proof::of(false, format!("{name}: {error}"))),
            }
        }
        Ok(Box::new(guard))
    }
}

async fn cut(world: &World, name: &str) -> Result<Proof, FaultError> {
    let deployment = &world.deployment;
    let page = world.page(&Target::Node(name.to_owned()))?;
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

struct Dark {
    world: Arc<World>,
    off: Vec<String>,
    proofs: Vec<Proof>,
}

#[async_trait]
impl FaultGuard for Dark {
    fn proof(&self) -> Proof {
        Proof::all(self.proofs.clone())
    }

    async fn heal(self: Box<Self>) -> Healed {
        let deployment = &self.world.deployment;
        let back = self
            .off
            .iter()
            .map(|name| deployment.start(name, Data::Keep));
        let failed: Vec<String> = futures_util::future::join_all(back)
            .await
            .into_iter()
            .filter_map(|outcome| outcome.err().map(|error| error.to_string()))
            .collect();
        Healed {
            proof: self.proof(),
            failed: (!failed.is_empty()).then(|| failed.join("; ")),
        }
    }
}
