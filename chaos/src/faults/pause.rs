//! SIGSTOP to servers or clients until the fault ends: they keep their connections, and say nothing.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use cluster_config::process_state;

use super::{
    Fault, FaultError, FaultGuard, FaultKind, Healed, Hits, Injected, Injection, Proof, Shows,
    Target, World,
};

pub(super) const KIND: FaultKind = FaultKind {
    name: "pause",
    about: "SIGSTOP until `for` ends: connections stay open, and nothing answers",
    hits: Hits::PROCESS,
    colour: "#8e44ad",
    shows: Shows::Silent,
    ..FaultKind::of(&Pause)
};

struct Pause;

#[async_trait]
impl Fault for Pause {
    async fn inject(&self, world: &Arc<World>, injection: &Injection) -> Injected {
        let mut guard = Paused {
            world: world.clone(),
            stopped: Vec::new(),
            proofs: Vec::new(),
        };
        for target in &injection.targets {
            let outcome = match target {
                Target::Node(name) => world.deployment.pause(name).map_err(FaultError::from),
                Target::Client(number) => world.clients.pause(*number),
                Target::Link(..) => Err(FaultError("a link has no process".to_owned())),
            };
            guard.proofs.push(match outcome {
                Ok(()) => {
                    guard.stopped.push(target.clone());
                    stopped(world, target).await
                }
                Err(error) => Proof::of(false, format!("{target}: {error}")),
            });
        }
        Ok(Box::new(guard))
    }
}

/// Waits until `/proc` says stopped: a signal is delivered a moment after it was sent.
async fn stopped(world: &World, target: &Target) -> Proof {
    let deadline = Instant::now() + Duration::from_secs(2);
    loop {
        let state = match target {
            Target::Node(name) => world.deployment.process_state(name),
            Target::Client(number) => world.clients.pid(*number).and_then(process_state),
            Target::Link(..) => None,
        };
        if state == Some('T') {
            return Proof::of(true, format!("{target}: /proc says stopped (T)"));
        }
        if Instant::now() >= deadline {
            return Proof::of(
                false,
                format!("{target}: /proc says {state:?}, not stopped"),
            );
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

struct Paused {
    world: Arc<World>,
    stopped: Vec<Target>,
    proofs: Vec<Proof>,
}

impl Paused {
    fn resume(&mut self) -> Vec<String> {
        let mut failed = Vec::new();
        for target in self.stopped.drain(..) {
            match &target {
                Target::Node(name) => {
                    // A node that was killed meanwhile needs no SIGCONT.
                    if self.world.deployment.pid(name).is_some()
                        && let Err(error) = self.world.deployment.resume(name)
                    {
                        failed.push(error.to_string());
                    }
                }
                Target::Client(number) => self.world.clients.resume(*number),
                Target::Link(..) => {}
            }
        }
        failed
    }
}

#[async_trait]
impl FaultGuard for Paused {
    fn proof(&self) -> Proof {
        Proof::all(self.proofs.clone())
    }

    async fn heal(mut self: Box<Self>) -> Healed {
        let failed = self.resume();
        Healed::with(self.proof(), &failed)
    }
}

impl Drop for Paused {
    fn drop(&mut self) {
        self.resume();
    }
}
