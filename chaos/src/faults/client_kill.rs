//! A server drops the connections of its clients.

use std::sync::Arc;

use async_trait::async_trait;

use super::{
    Done, Fault, FaultError, FaultGuard, FaultKind, Hits, Injection, Proof, SettingKind,
    SettingSpec, World, nodes, settings,
};

pub(super) const KIND: FaultKind = FaultKind {
    name: "client-kill",
    about: "the server drops its clients' connections, once",
    hits: Hits::NODE,
    settings: &[SettingSpec {
        name: "type",
        about: "which connections: `normal`, `pubsub`, `replica` or `master`; default normal and pubsub",
        kind: SettingKind::OneOf(&["normal", "pubsub", "replica", "master"]),
        required: false,
    }],
    one_shot: true,
    colour: "#a04000",
    fault: &ClientKill,
};

struct ClientKill;

#[async_trait]
impl Fault for ClientKill {
    async fn inject(
        &self,
        world: &Arc<World>,
        injection: &Injection,
    ) -> Result<Box<dyn FaultGuard>, FaultError> {
        let types = match settings::text(&injection.with, "type") {
            Some(one) => vec![one],
            None => vec!["normal", "pubsub"],
        };
        let mut proofs = Vec::new();
        for name in nodes(injection) {
            let mut dropped = 0;
            for class in &types {
                let answer = world
                    .deployment
                    .command(name, &["CLIENT", "KILL", "TYPE", class, "SKIPME", "yes"])
                    .await?;
                dropped += answer.trim().parse::<u64>().unwrap_or(0);
            }
            proofs.push(Proof::of(
                dropped > 0,
                format!("{name} dropped {dropped} connections"),
            ));
        }
        Ok(Box::new(Done(Proof::all(proofs))))
    }
}
