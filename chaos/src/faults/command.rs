//! Any command to a server, once.

use std::sync::Arc;

use async_trait::async_trait;

use super::{
    Done, Fault, FaultKind, Hits, Injected, Injection, Proof, SettingKind, SettingSpec, World,
    nodes, settings,
};

pub(super) const KIND: FaultKind = FaultKind {
    name: "command",
    about: "any command to the server, once",
    hits: Hits::NODE,
    settings: &[SettingSpec {
        name: "args",
        about: "the command and its arguments, such as [\"DEL\", \"orders-1\"]",
        kind: SettingKind::Words,
        required: true,
    }],
    one_shot: true,
    colour: "#616a6b",
    by_command: true,
    ..FaultKind::of(&Command)
};

struct Command;

#[async_trait]
impl Fault for Command {
    async fn inject(&self, world: &Arc<World>, injection: &Injection) -> Injected {
        let args = settings::words(&injection.with, "args");
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let mut proofs = Vec::new();
        for name in nodes(injection) {
            let answer = world.command(name, &args).await?;
            proofs.push(Proof::of(
                true,
                format!("{name} answered {:?}", shortened(&answer)),
            ));
        }
        Ok(Box::new(Done(Proof::all(proofs))))
    }
}

fn shortened(answer: &str) -> String {
    const LONGEST: usize = 80;
    answer.trim_end().chars().take(LONGEST).collect()
}
