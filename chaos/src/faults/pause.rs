//! SIGSTOP to servers or clients until the fault ends: they keep their connections, and say nothing.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use cluster_config::process_state;

use super::each::OnEach;
use super::{FaultError, FaultKind, Hits, Injection, Proof, Shows, Target, World};

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
impl OnEach for Pause {
    type Kept = Proof;

    async fn harm(world: &Arc<World>, target: &Target, _: &Injection) -> Result<Proof, FaultError> {
        match target {
            Target::Node(name) => world.deployment.pause(name)?,
            Target::Client(number) => world.clients.pause(*number)?,
            Target::Link(..) => return Err(FaultError("a link has no process".to_owned())),
        }
        Ok(stopped(world, target).await)
    }

    fn undo_now(world: &World, target: &Target, _: &Proof) -> Result<(), FaultError> {
        match target {
            // A node that was killed meanwhile needs no SIGCONT.
            Target::Node(name) if world.deployment.pid(name).is_some() => {
                world.deployment.resume(name)?;
            }
            Target::Client(number) => world.clients.resume(*number),
            Target::Node(_) | Target::Link(..) => {}
        }
        Ok(())
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
