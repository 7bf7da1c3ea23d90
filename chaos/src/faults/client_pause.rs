//! A server keeps its clients' commands waiting, by its own command.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;

use super::{
    Fault, FaultGuard, FaultKind, Healed, Hits, Injected, Injection, Proof, SettingKind,
    SettingSpec, World, nodes, settings,
};

pub(super) const KIND: FaultKind = FaultKind {
    name: "client-pause",
    about: "the server keeps its clients' writes waiting until `for` ends, at most for `time`",
    hits: Hits::NODE,
    settings: &[SettingSpec {
        name: "time",
        about: "how long the server waits at most; default `for`, else 10s",
        kind: SettingKind::Duration,
        required: false,
    }],
    colour: "#b7950b",
    by_command: true,
    ..FaultKind::of(&ClientPause)
};

/// Without `for` and `time`: longer than that no server should be left alone with a pause.
const LONGEST: Duration = Duration::from_secs(10);

struct ClientPause;

#[async_trait]
impl Fault for ClientPause {
    async fn inject(&self, world: &Arc<World>, injection: &Injection) -> Injected {
        let time = settings::time(&injection.with, "time")
            .or(injection.lasts)
            .unwrap_or(LONGEST);
        let time_ms = time.as_millis().max(1).to_string();
        let mut guard = Pausing {
            world: world.clone(),
            nodes: Vec::new(),
            proofs: Vec::new(),
        };
        for name in nodes(injection) {
            // Writes only: a pause of all commands would keep its own end waiting.
            world
                .command(name, &["CLIENT", "PAUSE", &time_ms, "WRITE"])
                .await?;
            guard.nodes.push(name.to_owned());
            guard.proofs.push(waits(world, name).await);
        }
        Ok(Box::new(guard))
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

struct Pausing {
    world: Arc<World>,
    nodes: Vec<String>,
    proofs: Vec<Proof>,
}

#[async_trait]
impl FaultGuard for Pausing {
    fn proof(&self) -> Proof {
        Proof::all(self.proofs.clone())
    }

    async fn heal(self: Box<Self>) -> Healed {
        let mut failed = Vec::new();
        for name in &self.nodes {
            if let Err(error) = self
                .world
                .deployment
                .command(name, &["CLIENT", "UNPAUSE"])
                .await
            {
                failed.push(error.to_string());
            }
        }
        Healed::with(self.proof(), &failed)
    }
}
