//! Any command to a server, once.

use super::each::{At, OnEach};
use super::{FaultError, FaultKind, Hits, Proof, SettingKind, SettingSpec};

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
    by_command: true,
    ..FaultKind::of(&Command)
};

struct Command;

impl OnEach for Command {
    type Kept = Proof;

    async fn harm(at: At<'_>) -> Result<Proof, FaultError> {
        let name = at.node()?;
        let args = at.words("args");
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let answer = at.world.command(name, &args).await?;
        Ok(proof!(true, "{name} answered {:?}", shortened(&answer)))
    }
}

fn shortened(answer: &str) -> String {
    const LONGEST: usize = 80;
    answer.trim_end().chars().take(LONGEST).collect()
}
