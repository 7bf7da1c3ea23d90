//! The common form of faults that act on their targets one by one: each target is harmed, shows evidence, and is set right again.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cluster_config::Deployment;
use futures_util::future::join_all;

use super::fault_world::unwritable;
use super::{
    Fault, FaultError, FaultGuard, FaultWorld, HealReport, Injected, Injection, Proof, Target,
    settings,
};
use crate::shim::Page;

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
    pub(super) fn on_page<T>(
        self,
        act: impl FnOnce(&Page) -> io::Result<T>,
    ) -> Result<T, FaultError> {
        let done = act(self.world.page(self.target)?);
        done.map_err(|error| unwritable(self.target, &error))
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

/// A fault that does the same to each of its targets. What fails on one leaves the fault without proof, and the others are harmed all
/// the same.
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

struct TargetFaults<F: OnEach> {
    world: Arc<FaultWorld>,
    injection: Injection,
    /// In the order of the injection's targets.
    kept: Vec<Result<F::Kept, FaultError>>,
}

impl<F: OnEach> TargetFaults<F> {
    fn all(&self) -> impl Iterator<Item = (TargetContext<'_>, &Result<F::Kept, FaultError>)> {
        targets(&self.world, &self.injection).zip(&self.kept)
    }
}

fn targets<'a>(
    world: &'a FaultWorld,
    injection: &'a Injection,
) -> impl Iterator<Item = TargetContext<'a>> {
    injection.targets.iter().map(move |target| TargetContext {
        world,
        target,
        injection,
    })
}

#[async_trait]
impl<F: OnEach> Fault for F {
    async fn inject(&self, world: &Arc<FaultWorld>, injection: &Injection) -> Injected {
        let mut harmed = TargetFaults::<F> {
            world: world.clone(),
            injection: injection.clone(),
            kept: Vec::new(),
        };
        let harms = targets(world, injection).map(F::harm);
        if F::TOGETHER {
            harmed.kept = join_all(harms).await;
        } else {
            for harm in harms {
                harmed.kept.push(harm.await);
            }
        }
        Ok(Box::new(harmed))
    }
}

#[async_trait]
impl<F: OnEach> FaultGuard for TargetFaults<F> {
    fn proof(&self) -> Proof {
        Proof::all(self.all().map(|(at, kept)| match kept {
            Ok(kept) => kept.proof(at),
            Err(error) => proof!(false, "{}: {error}", at.target),
        }))
    }

    fn awaits_evidence(&self) -> bool {
        let mut kept = self.kept.iter().flatten();
        kept.any(Evidence::comes_late) && !self.proof().bit
    }

    async fn heal(mut self: Box<Self>) -> HealReport {
        let harmed = &mut *self;
        let targets = targets(&harmed.world, &harmed.injection);
        let undone = targets
            .zip(&mut harmed.kept)
            .map(async |(at, kept)| F::undo(at, kept.as_mut().ok()?).await.err());
        let failed = join_all(undone).await.into_iter().flatten();
        let failed: Vec<String> = failed.map(|error| error.to_string()).collect();
        let healed = HealReport::with(self.proof(), &failed);
        self.kept.clear();
        healed
    }
}

impl<F: OnEach> Drop for TargetFaults<F> {
    fn drop(&mut self) {
        for (at, kept) in self.all() {
            if let Ok(kept) = kept {
                // Nobody is left to report an error to.
                let _ = F::undo_now(at, kept);
            }
        }
    }
}
