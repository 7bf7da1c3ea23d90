//! SIGSTOP to servers or clients until the fault ends: they keep their connections, and say nothing.

use std::time::Duration;

use crate::faults::per_target::{OnEach, TargetContext};
use crate::faults::{FaultError, FaultKind, FaultWorld, HookEvidence, Proof, Target, TargetKind};
use crate::polling::is_so;

pub(crate) const KIND: FaultKind = FaultKind {
    name: "pause",
    about: "SIGSTOP until `for` ends: connections stay open, and nothing answers",
    hits: TargetKind::Process,
    any_system: true,
    shows: HookEvidence::Silent,
    ..FaultKind::of(&Pause)
};

struct Pause;

impl OnEach for Pause {
    type Kept = Proof;

    async fn harm(at: TargetContext<'_>) -> Result<Proof, FaultError> {
        match at.target {
            Target::Node(name) => at.deployment().pause(name)?,
            Target::Client(number) => at.world.clients.pause(*number)?,
            Target::Link(..) => return Err(failed!("a link has no process")),
        }
        Ok(stopped(at.world, at.target).await)
    }

    fn undo_now(at: TargetContext<'_>, _: &Proof) -> Result<(), FaultError> {
        match at.target {
            // A node that was killed meanwhile needs no SIGCONT.
            Target::Node(name) if at.deployment().pid(name).is_some() => {
                at.deployment().resume(name)?;
            }
            Target::Client(number) => at.world.clients.resume(*number),
            Target::Node(_) | Target::Link(..) => {}
        }
        Ok(())
    }
}

/// Waits until `/proc` says stopped: a signal is delivered a moment after it was sent.
async fn stopped(world: &FaultWorld, target: &Target) -> Proof {
    let states = || match target {
        Target::Node(name) => Vec::from_iter(world.deployment.process_state(name)),
        Target::Client(number) => {
            let members = world.clients.members(*number).into_iter();
            let states: Vec<char> = members.map(|member| member.state).collect();
            if states.iter().any(|state| *state != 'T') {
                // One that was forked while signals were sent has got none.
                let _ = world.clients.pause(*number);
            }
            states
        }
        Target::Link(..) => Vec::new(),
    };
    let all_stopped = |states: &[char]| !states.is_empty() && states.iter().all(|state| *state == 'T');
    let (within, every) = (Duration::from_secs(2), Duration::from_millis(5));
    let stopped = is_so(within, every, || async { all_stopped(&states()) }).await;
    match (stopped, states()) {
        (true, states) if states.len() == 1 => proof!(true, "{target}: /proc says stopped (T)"),
        (true, states) => proof!(true, "{target}: /proc says stopped (T) of all {} processes", states.len()),
        (false, states) => proof!(false, "{target}: /proc says {states:?}, not stopped"),
    }
}
