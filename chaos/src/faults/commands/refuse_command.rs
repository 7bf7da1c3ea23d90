//! Servers refuse certain commands to everybody, as an access list or a managed service does, until the fault
//! ends.

use crate::faults::per_target::{OnEach, TargetContext, TargetEvidence};
use crate::faults::{FaultError, FaultKind, SettingKind, SettingSpec};

pub(crate) const KIND: FaultKind = FaultKind {
    name: "refuse-command",
    about: "the server refuses certain commands (NOPERM) by its access list, also where a script calls them, until `for` ends",
    settings: &[SettingSpec::required("commands", SettingKind::Words)
        .about("which, such as [\"EVALSHA\", \"PUBLISH\"]")],
    by_command: true,
    ..FaultKind::of(&RefuseCommand)
};

struct RefuseCommand;

/// What clients that name no user may do, as rules that set exactly that.
pub(crate) async fn rules(at: TargetContext<'_>, node: &str) -> Result<Vec<String>, FaultError> {
    let users = at.world.command(node, &["ACL", "LIST"]).await?;
    let found = users.lines().find_map(|line| line.strip_prefix("user default "));
    let found = found.ok_or_else(|| FaultError(format!("{node} lists no user `default`")))?;
    let mut rules = vec!["reset".to_owned()];
    for word in found.split(' ') {
        match rules.last_mut() {
            // A selector is one rule with blanks in it.
            Some(open) if open.starts_with('(') && !open.ends_with(')') => {
                *open = format!("{open} {word}");
            }
            _ => rules.push(word.to_owned()),
        }
    }
    Ok(rules)
}

/// The command that gives these rules to clients that name no user.
pub(crate) fn set(rules: &[String]) -> Vec<&str> {
    ["ACL", "SETUSER", "default"].into_iter().chain(rules.iter().map(String::as_str)).collect()
}

impl OnEach for RefuseCommand {
    /// What its clients may do without the fault.
    type Kept = TargetEvidence<Vec<String>>;

    async fn harm(at: TargetContext<'_>) -> Result<Self::Kept, FaultError> {
        let node = at.node()?;
        let before = rules(at, node).await?;
        at.world.command(node, &["ACL", "LOG", "RESET"]).await?;
        let without = at.words("commands").into_iter().map(|command| format!("-{}", command.to_lowercase()));
        let without: Vec<String> = without.collect();
        at.world.command(node, &set(&without)).await?;
        Ok(TargetEvidence(proof!(false, "{node} was not asked what it refused"), before))
    }

    async fn undo(at: TargetContext<'_>, kept: &mut Self::Kept) -> Result<(), FaultError> {
        let node = at.node()?;
        let log = at.world.command(node, &["ACL", "LOG"]).await;
        let allowed = at.world.command(node, &set(&kept.1)).await;
        let log = log?.to_lowercase();
        // Each entry names what was refused; a subcommand stands behind a bar.
        let commands = at.words("commands");
        let mut refused = commands.clone();
        refused.retain(|command| {
            let command = command.to_lowercase();
            log.lines().any(|line| line.split('|').next() == Some(&*command))
        });
        kept.0 = match refused.is_empty() {
            true => proof!(false, "nobody sent {node} {}", commands.join(" or ")),
            false => proof!(true, "{node} refused {}", refused.join(", ")),
        };
        allowed.map(drop)
    }
}
