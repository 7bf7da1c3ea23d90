//! A server keeps its clients' commands waiting, by its own command.

use std::time::{Duration, Instant};

use crate::faults::per_target::{OnEach, TargetContext};
use crate::faults::{FaultError, FaultKind, FaultWorld, Proof, SettingKind, SettingSpec};

pub(crate) const KIND: FaultKind = FaultKind {
    name: "client-pause",
    about: "the server keeps its clients' writes waiting until `for` ends, at most for `time`",
    settings: &[SettingSpec::optional("time", SettingKind::Duration)
        .about("how long the server waits at most; default `for`, else 10s")],
    by_command: true,
    ..FaultKind::of(&ClientPause)
};

/// Without `for` and `time`: longer than that no server should be left alone with a pause.
const LONGEST: Duration = Duration::from_secs(10);

struct ClientPause;

impl OnEach for ClientPause {
    type Kept = Proof;

    async fn harm(at: TargetContext<'_>) -> Result<Proof, FaultError> {
        let name = at.node()?;
        let time = at.time("time").or(at.injection.lasts).unwrap_or(LONGEST);
        let time_ms = time.as_millis().max(1).to_string();
        // Writes only: a pause of all commands would keep its own end waiting.
        at.world.command(name, &["CLIENT", "PAUSE", &time_ms, "WRITE"]).await?;
        Ok(waits(at.world, name).await)
    }

    async fn undo(at: TargetContext<'_>, _: &mut Proof) -> Result<(), FaultError> {
        at.deployment().command(at.node()?, &["CLIENT", "UNPAUSE"]).await?;
        Ok(())
    }
}

/// A publication is kept waiting like a write, and changes nothing.
async fn waits(world: &FaultWorld, name: &str) -> Proof {
    let asked = Instant::now();
    let publish: [&[&str]; 1] = [&["PUBLISH", "locklab:pause", ""]];
    match world.deployment.commands(name, &publish, Duration::from_millis(100)).await {
        Ok(_) => proof!(false, "{name} answered after {:?}", asked.elapsed()),
        Err(_) => proof!(true, "{name} kept a command waiting for 100 ms"),
    }
}
