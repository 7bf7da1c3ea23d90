//! The common form of faults that act on their targets one by one: each target is harmed, shows evidence, and
//! is set right again.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cluster_config::Deployment;
use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, join_all};

use super::fault_world::unwritable;
use super::{
    Fault, FaultError, FaultGuard, FaultWorld, HealReport, Injected, Injection, Proof, Target, settings,
};
use crate::servers::shim::Page;

#[derive(Clone, Copy)]
pub(super) struct TargetContext<'a> {
    pub(super) world: &'a FaultWorld,
    pub(super) target: &'a Target,
    pub(super) injection: &'a Injection,
}

impl<'a> TargetContext<'a> {
    pub(super) fn node(self) -> Result<&'a str, FaultError> {
        self.target.node()
    }

    pub(super) fn deployment(self) -> &'a Deployment {
        &self.world.deployment
    }

    /// What is done on its control page, where it is a process with the shim in it.
    pub(super) fn on_page<T>(self, act: impl FnOnce(&Page) -> io::Result<T>) -> Result<T, FaultError> {
        act(self.world.page(self.target)?).map_err(|error| unwritable(self.target, &error))
    }

    pub(super) fn text(self, setting: &str) -> Option<&'a str> {
        settings::text(&self.injection.with, setting)
    }

    pub(super) fn time(self, setting: &str) -> Option<Duration> {
        settings::time(&self.injection.with, setting)
    }

    pub(super) fn words(self, setting: &str) -> Vec<String> {
        settings::words(&self.injection.with, setting)
    }
}

/// A fault that does the same to each of its targets. What fails on one leaves the fault without proof, and
/// the others are harmed all the same.
pub(super) trait OnEach: Send + Sync + 'static {
    /// What is kept of a target while it is harmed. A fault that is over at once keeps its proof.
    type Kept: Evidence + 'static;

    /// Whether all targets are harmed at the same time, and not one after the other.
    const TOGETHER: bool = false;

    fn harm(at: TargetContext<'_>) -> impl Future<Output = Result<Self::Kept, FaultError>> + Send;

    /// Sets one target right, after a last look at it where evidence comes late.
    fn undo(
        at: TargetContext<'_>,
        kept: &mut Self::Kept,
    ) -> impl Future<Output = Result<(), FaultError>> + Send {
        async move { Self::undo_now(at, kept) }
    }

    /// As much of it as can be done without waiting: the safety net of a run that ends in the middle.
    fn undo_now(_at: TargetContext<'_>, _kept: &Self::Kept) -> Result<(), FaultError> {
        Ok(())
    }
}

pub(super) trait Evidence: Send + Sync {
    fn proof(&self, at: TargetContext<'_>) -> Proof;

    /// Whether somebody must meet the fault before anything shows.
    fn comes_late(&self) -> bool {
        false
    }
}

impl Evidence for Proof {
    fn proof(&self, _at: TargetContext<'_>) -> Proof {
        self.clone()
    }
}

/// What showed so far, and what else is kept of a target.
pub(super) struct TargetEvidence<T>(pub(super) Proof, pub(super) T);

impl<T: Send + Sync> Evidence for TargetEvidence<T> {
    fn proof(&self, _at: TargetContext<'_>) -> Proof {
        self.0.clone()
    }
}

/// A target that is harmed, whatever its fault keeps of it, so that the code below is compiled once.
#[async_trait]
trait HarmedTarget: Send + Sync {
    fn evidence(&self) -> &dyn Evidence;

    async fn undo(&mut self, at: TargetContext<'_>) -> Result<(), FaultError>;

    fn undo_now(&self, at: TargetContext<'_>) -> Result<(), FaultError>;
}

struct TargetOf<F: OnEach>(F::Kept);

#[async_trait]
impl<F: OnEach> HarmedTarget for TargetOf<F> {
    fn evidence(&self) -> &dyn Evidence {
        &self.0
    }

    async fn undo(&mut self, at: TargetContext<'_>) -> Result<(), FaultError> {
        F::undo(at, &mut self.0).await
    }

    fn undo_now(&self, at: TargetContext<'_>) -> Result<(), FaultError> {
        F::undo_now(at, &self.0)
    }
}

struct TargetFaults {
    world: Arc<FaultWorld>,
    injection: Injection,
    /// In the order of the injection's targets.
    kept: Vec<Result<Box<dyn HarmedTarget>, FaultError>>,
}

impl TargetFaults {
    fn all(&self) -> impl Iterator<Item = (TargetContext<'_>, &Result<Box<dyn HarmedTarget>, FaultError>)> {
        targets(&self.world, &self.injection).zip(&self.kept)
    }
}

fn targets<'a>(world: &'a FaultWorld, injection: &'a Injection) -> impl Iterator<Item = TargetContext<'a>> {
    injection.targets.iter().map(move |target| TargetContext { world, target, injection })
}

#[async_trait]
impl<F: OnEach> Fault for F {
    async fn inject(&self, world: &Arc<FaultWorld>, injection: &Injection) -> Injected {
        let harms = targets(world, injection).map(|at| {
            let harm = async move {
                let kept = F::harm(at).await?;
                Ok(Box::new(TargetOf::<F>(kept)) as Box<dyn HarmedTarget>)
            };
            harm.boxed()
        });
        harm_all(world, injection, harms.collect(), F::TOGETHER).await
    }
}

async fn harm_all(
    world: &Arc<FaultWorld>,
    injection: &Injection,
    harms: Vec<BoxFuture<'_, Result<Box<dyn HarmedTarget>, FaultError>>>,
    together: bool,
) -> Injected {
    let mut harmed = TargetFaults { world: world.clone(), injection: injection.clone(), kept: Vec::new() };
    if together {
        harmed.kept = join_all(harms).await;
    } else {
        for harm in harms {
            harmed.kept.push(harm.await);
        }
    }
    Ok(Box::new(harmed))
}

#[async_trait]
impl FaultGuard for TargetFaults {
    fn proof(&self) -> Proof {
        Proof::all(self.all().map(|(at, kept)| match kept {
            Ok(kept) => kept.evidence().proof(at),
            Err(error) => proof!(false, "{}: {error}", at.target),
        }))
    }

    fn awaits_evidence(&self) -> bool {
        let mut kept = self.kept.iter().flatten();
        kept.any(|kept| kept.evidence().comes_late()) && !self.proof().bit
    }

    async fn heal(mut self: Box<Self>) -> HealReport {
        let harmed = &mut *self;
        let targets = targets(&harmed.world, &harmed.injection);
        let undone =
            targets.zip(&mut harmed.kept).map(async |(at, kept)| kept.as_mut().ok()?.undo(at).await.err());
        let failed = join_all(undone).await.into_iter().flatten();
        let failed: Vec<String> = failed.map(|error| error.to_string()).collect();
        let healed = HealReport::with(self.proof(), &failed);
        self.kept.clear();
        healed
    }
}

impl Drop for TargetFaults {
    fn drop(&mut self) {
        for (at, kept) in self.all() {
            if let Ok(kept) = kept {
                // Nobody is left to report an error to.
                let _ = kept.undo_now(at);
            }
        }
    }
}
