//! Any command to a server, once.

use std::sync::Arc;

use async_trait::async_trait;

use super::each::OnEach;
use super::{
    FaultError, FaultKind, Hits, Injection, Proof, SettingKind, SettingSpec, Target, World,
    settings,
};

pub(super) const KIND: FaultKind = FaultKind {
    name: "command",
    about: "any command to the server, once",
    hits: Hits::NODE,
    settings: &[SettingSpec::required(
        "args",
        SettingKind::Words,
        "the command and its arguments, such as [\"DEL\", \"orders-1\"]",
    )],
    one_shot: true,
    colour: "#616a6b",
    by_command: true,
    ..FaultKind::of(&Command)
};

struct Command;

#[async_trait]
impl OnEach for Command {
    type Kept = Proof;

    async fn harm(
        world: &Arc<World>,
        target: &Target,
        injection: &Injection,
    ) -> Result<Proof, FaultError> {
        let name = target.node()?;
        let args = settings::words(&injection.with, "args");
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let answer = world.command(name, &args).await?;
        let words = format!("{name} answered {:?}", shortened(&answer));
        Ok(Proof::of(true, words))
    }
}

fn shortened(answer: &str) -> String {
    const LONGEST: usize = 80;
    answer.trim_end().chars().take(LONGEST).collect()
}
