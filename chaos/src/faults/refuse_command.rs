//! Servers refuse certain commands to everybody, as an access list or a managed service does, until the fault ends.

use super::each::{At, Evidence, OnEach};
use super::{FaultError, FaultKind, Hits, Proof, SettingKind, SettingSpec, World};

pub(super) const KIND: FaultKind = FaultKind {
    name: "refuse-command",
    about: "the server refuses certain commands (NOPERM) by its access list, also where a script calls them, until `for` ends",
    hits: Hits::NODE,
    settings: &[SettingSpec::required(
        "commands",
        SettingKind::Words,
        "which, such as [\"EVALSHA\", \"PUBLISH\"]",
    )],
    by_command: true,
    ..FaultKind::of(&RefuseCommand)
};

struct RefuseCommand;

/// A server that refuses, and what it refused.
struct Refusing {
    commands: Vec<String>,
    proof: Proof,
}

/// Allows or forbids commands to clients that name no user.
async fn allow(
    world: &World,
    node: &str,
    sign: char,
    commands: &[String],
) -> Result<(), FaultError> {
    let rules: Vec<String> = commands
        .iter()
        .map(|command| format!("{sign}{}", command.to_lowercase()))
        .collect();
    let mut words = vec!["ACL", "SETUSER", "default"];
    words.extend(rules.iter().map(String::as_str));
    world.command(node, &words).await.map(drop)
}

impl OnEach for RefuseCommand {
    type Kept = Refusing;

    async fn harm(at: At<'_>) -> Result<Refusing, FaultError> {
        let node = at.node()?;
        let commands = at.words("commands");
        at.world.command(node, &["ACL", "LOG", "RESET"]).await?;
        allow(at.world, node, '-', &commands).await?;
        Ok(Refusing {
            commands,
            proof: proof!(false, "{node} was not asked what it refused"),
        })
    }

    async fn undo(at: At<'_>, kept: &mut Refusing) -> Result<(), FaultError> {
        let node = at.node()?;
        let log = at.world.command(node, &["ACL", "LOG"]).await;
        let allowed = allow(at.world, node, '+', &kept.commands).await;
        let log = log?.to_lowercase();
        // Each entry names what was refused; a subcommand stands behind a bar.
        let refused: Vec<&str> = kept
            .commands
            .iter()
            .map(String::as_str)
            .filter(|command| {
                let command = command.to_lowercase();
                log.lines()
                    .any(|line| line.split('|').next() == Some(&*command))
            })
            .collect();
        kept.proof = match refused.is_empty() {
            true => proof!(false, "nobody sent {node} {}", kept.commands.join(" or ")),
            false => proof!(true, "{node} refused {}", refused.join(", ")),
        };
        allowed
    }
}

impl Evidence for Refusing {
    fn proof(&self, _: At<'_>) -> Proof {
        self.proof.clone()
    }
}
