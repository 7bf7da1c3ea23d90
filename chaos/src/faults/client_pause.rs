//! A server keeps its clients' commands waiting, by its own command.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;

use super::each::OnEach;
use super::{
    FaultError, FaultKind, Hits, Injection, Proof, SettingKind, SettingSpec, Target, World,
    settings,
};

pub(super) const KIND: FaultKind = FaultKind {
    name: "client-pause",
    about: "the server keeps its clients' writes waiting until `for` ends, at most for `time`",
    hits: Hits::NODE,
    settings: &[SettingSpec::optional(
        "time",
        SettingKind::Duration,
        "how long the server waits at most; default `for`, else 10s",
    )],
    colour: "#b7950b",
    by_command: true,
    ..FaultKind::of(&ClientPause)
};

/// Without `for` and `time`: longer than that no server should be left alone with a pause.
const LONGEST: Duration = Duration::from_secs(10);

struct ClientPause;

#[async_trait]
impl OnEach for ClientPause {
    type Kept = Proof;

    async fn harm(
        world: &Arc<World>,
        target: &Target,
        injection: &Injection,
    ) -> Result<Proof, FaultError> {
        let name = target.node()?;
        let time = settings::time(&injection.with, "time")
            .or(injection.lasts)
            .unwrap_or(LONGEST);
        let time_ms = time.as_millis().max(1).to_string();
        // Writes only: a pause of all commands would keep its own end waiting.
        world
            .command(name, &["CLIENT", "PAUSE", &time_ms, "WRITE"])
            .await?;
        Ok(waits(world, name).await)
    }

    async fn undo(world: &World, target: &Target, _: &mut Proof) -> Result<(), FaultError> {
        let end = ["CLIENT", "UNPAUSE"];
        world.deployment.command(target.node()?, &end).await?;
        Ok(())
    }
}

/// A publication is kept waiting like a write, and changes nothing.
async fn waits(world: &World, name: &str) -> Proof {
    let asked = Instant::now();
    let answer = world
        .deployment
        .commands(
            name,
            &[&["PUBLISH", "locklab:pause", ""]],
            Duration::from_millis(100),
        )
        .await;
    match answer {
        Ok(_) => Proof::of(
            false,
            format!("{name} answered after {:?}", asked.elapsed()),
        ),
        Err(_) => Proof::of(true, format!("{name} kept a command waiting for 100 ms")),
    }
}
