//! Servers get a password that no client knows, and drop the connections that were made before, until the fault ends.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::each::OnEach;
use super::{FaultError, FaultKind, Hits, Injection, Proof, Target, World};

pub(super) const KIND: FaultKind = FaultKind {
    name: "change-password",
    about: "the server's password is changed and its clients' connections are dropped; what they know is right again when `for` ends",
    hits: Hits::NODE,
    colour: "#935116",
    ..FaultKind::of(&ChangePassword)
};

/// What no client of the run says.
const PASSWORD: &str = "changed";

const WITHIN: Duration = Duration::from_secs(3);

struct ChangePassword;

#[async_trait]
impl OnEach for ChangePassword {
    type Kept = Proof;

    async fn harm(
        world: &Arc<World>,
        target: &Target,
        _injection: &Injection,
    ) -> Result<Proof, FaultError> {
        let node = target.node()?;
        let rule = format!(">{PASSWORD}");
        // All on one connection, which stays what it was: the next one would be refused.
        let kill = |class| ["CLIENT", "KILL", "TYPE", class, "SKIPME", "yes"];
        let commands: [&[&str]; 3] = [
            &["ACL", "SETUSER", "default", "resetpass", &rule],
            &kill("normal"),
            &kill("pubsub"),
        ];
        let answers = world.deployment.commands(node, &commands, WITHIN).await?;
        let counts = answers.iter().map(|answer| answer.trim().parse::<u64>());
        let dropped: u64 = counts.filter_map(Result::ok).sum();
        // A stranger must be refused by now.
        let refused = match world.deployment.command(node, &["PING"]).await {
            Ok(_) => return Ok(Proof::of(false, format!("{node} asks for no password"))),
            Err(error) => error.to_string(),
        };
        let words =
            format!("{node} dropped {dropped} connections and refuses new ones ({refused})");
        Ok(Proof::of(dropped > 0, words))
    }

    async fn undo(world: &World, target: &Target, _kept: &mut Proof) -> Result<(), FaultError> {
        let commands: [&[&str]; 2] = [
            &["AUTH", PASSWORD],
            &["ACL", "SETUSER", "default", "nopass"],
        ];
        let node = target.node()?;
        let done = world.deployment.commands(node, &commands, WITHIN).await;
        Ok(done.map(drop)?)
    }
}
