//! Servers get a password that only clients with a provider are told, and drop the connections that were made
//! before, until the fault ends.

use std::time::Duration;

use bench::subjects::CHANGED_PASSWORD;

use crate::faults::commands::refuse_command::{rules, set};
use crate::faults::per_target::{OnEach, TargetContext, TargetEvidence};
use crate::faults::{FaultError, FaultKind};

pub(crate) const KIND: FaultKind = FaultKind {
    name: "change-password",
    about: "the server's password is changed and its clients' connections are dropped; what they know is right again when `for` ends, and before that only the `lock-core:…-vault` clients are told the new one",
    ..FaultKind::of(&ChangePassword)
};

const WITHIN: Duration = Duration::from_secs(3);

struct ChangePassword;

impl OnEach for ChangePassword {
    /// What its clients may do without the fault.
    type Kept = TargetEvidence<Vec<String>>;

    async fn harm(at: TargetContext<'_>) -> Result<Self::Kept, FaultError> {
        let node = at.node()?;
        let before = rules(at, node).await?;
        let rule = format!(">{CHANGED_PASSWORD}");
        // All on one connection, which stays what it was: the next one would be refused.
        let kill = |class| ["CLIENT", "KILL", "TYPE", class, "SKIPME", "yes"];
        let commands: [&[&str]; 3] =
            [&["ACL", "SETUSER", "default", "resetpass", &rule], &kill("normal"), &kill("pubsub")];
        let answers = at.deployment().commands(node, &commands, WITHIN).await?;
        let counts = answers.iter().map(|answer| answer.trim().parse::<u64>());
        let dropped: u64 = counts.filter_map(Result::ok).sum();
        // A stranger must be refused by now.
        let proof = match at.deployment().command(node, &["PING"]).await {
            Ok(_) => proof!(false, "{node} asks for no password"),
            Err(error) => {
                proof!(dropped > 0, "{node} dropped {dropped} connections and refuses new ones ({error})")
            }
        };
        Ok(TargetEvidence(proof, before))
    }

    async fn undo(at: TargetContext<'_>, kept: &mut Self::Kept) -> Result<(), FaultError> {
        let commands: [&[&str]; 2] = [&["AUTH", CHANGED_PASSWORD], &set(&kept.1)];
        let node = at.node()?;
        Ok(at.deployment().commands(node, &commands, WITHIN).await.map(drop)?)
    }
}
