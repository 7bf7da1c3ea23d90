//! The common form of faults that act on their targets one by one: each target is harmed, shows evidence, and is set right again.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::future::join_all;

use super::{Fault, FaultError, FaultGuard, Healed, Injected, Injection, Proof, Target, World};

/// A fault that does the same to each of its targets. What fails on one leaves the fault without proof, and the others are harmed all
/// the same.
#[async_trait]
pub(super) trait OnEach: Send + Sync + 'static {
    /// What is kept of a target while it is harmed. A fault that is over at once keeps its proof.
    type Kept: Evidence + 'static;

    /// Harms one target.
    async fn harm(
        world: &Arc<World>,
        target: &Target,
        injection: &Injection,
    ) -> Result<Self::Kept, FaultError>;

    /// Sets one target right, after a last look at it where evidence comes late.
    async fn undo(world: &World, target: &Target, kept: &mut Self::Kept) -> Result<(), FaultError> {
        Self::undo_now(world, target, kept)
    }

    /// As much of it as can be done without waiting: the safety net of a run that ends in the middle.
    fn undo_now(_world: &World, _target: &Target, _kept: &Self::Kept) -> Result<(), FaultError> {
        Ok(())
    }
}

/// What shows that a target was harmed.
pub(super) trait Evidence: Send + Sync {
    /// As far as it shows by now.
    fn proof(&self, world: &World, target: &Target) -> Proof;

    /// Whether somebody must meet the fault before anything shows.
    fn comes_late(&self) -> bool {
        false
    }
}

impl Evidence for Proof {
    fn proof(&self, _world: &World, _target: &Target) -> Proof {
        self.clone()
    }
}

/// The targets of a fault, harmed or not.
struct Harmed<F: OnEach> {
    world: Arc<World>,
    targets: Vec<(Target, Result<F::Kept, FaultError>)>,
}

#[async_trait]
impl<F: OnEach> Fault for F {
    async fn inject(&self, world: &Arc<World>, injection: &Injection) -> Injected {
        let mut harmed = Harmed::<F> {
            world: world.clone(),
            targets: Vec::new(),
        };
        for target in &injection.targets {
            let kept = F::harm(world, target, injection).await;
            harmed.targets.push((target.clone(), kept));
        }
        Ok(Box::new(harmed))
    }
}

#[async_trait]
impl<F: OnEach> FaultGuard for Harmed<F> {
    fn proof(&self) -> Proof {
        Proof::all(self.targets.iter().map(|(target, kept)| match kept {
            Ok(kept) => kept.proof(&self.world, target),
            Err(error) => Proof::of(false, format!("{target}: {error}")),
        }))
    }

    fn awaits_evidence(&self) -> bool {
        let mut kept = self
            .targets
            .iter()
            .filter_map(|(_, kept)| kept.as_ref().ok());
        kept.any(Evidence::comes_late) && !self.proof().bit
    }

    async fn heal(mut self: Box<Self>) -> Healed {
        let world = self.world.clone();
        let undone = self
            .targets
            .iter_mut()
            .map(async |(target, kept)| F::undo(&world, target, kept.as_mut().ok()?).await.err());
        let failed = join_all(undone).await.into_iter().flatten();
        let failed: Vec<String> = failed.map(|error| error.to_string()).collect();
        let healed = Healed::with(self.proof(), &failed);
        self.targets.clear();
        healed
    }
}

impl<F: OnEach> Drop for Harmed<F> {
    fn drop(&mut self) {
        for (target, kept) in &self.targets {
            if let Ok(kept) = kept {
                // Nobody is left to report an error to.
                let _ = F::undo_now(&self.world, target, kept);
            }
        }
    }
}
