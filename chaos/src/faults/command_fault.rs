//! A fault that a command of the user's carries out, on each node in turn.

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cluster_config::Node;
use futures_util::future::join_all;
use tokio::process::Command;

use super::{
    Fault, FaultGuard, FaultWorld, HealReport, HookEvidence, Injected, Injection, Proof, field, nodes,
};
use crate::polling::until;
use crate::servers::hooks::Hook;

const COMMAND_WITHIN: Duration = Duration::from_secs(60);
/// So long after the command the harm may take to show.
pub(super) const SHOWS_WITHIN: Duration = Duration::from_secs(10);
pub(super) const LOOK: Duration = Duration::from_millis(20);

pub(crate) struct CommandFault {
    /// What must show besides a command that succeeded.
    pub(crate) shows: HookEvidence,
    pub(crate) harm: Hook,
    /// Undoes it; `None`: it passes by itself.
    pub(crate) heal: Option<Hook>,
}

#[async_trait]
impl Fault for CommandFault {
    async fn inject(&self, world: &Arc<FaultWorld>, injection: &Injection) -> Injected {
        let mut guard = ByCommand {
            world: world.clone(),
            heal: self.heal.clone(),
            harmed: Vec::new(),
            proofs: Vec::new(),
        };
        for name in nodes(injection) {
            let node = world.deployment.node(name)?.clone();
            let before = run_id(world, name).await;
            let proof = match run(&self.harm, &node).await {
                Ok(()) => shown(world, name, "the command succeeded", self.shows, before.as_deref()).await,
                Err(why) => proof!(false, "{name}: {why}"),
            };
            // A command that failed may have done its work all the same: it is undone like the others.
            guard.harmed.push(node);
            guard.proofs.push(proof);
        }
        Ok(Box::new(guard))
    }
}

/// Waits until the harm shows; `done` says who did it.
pub(super) async fn shown(
    world: &FaultWorld,
    name: &str,
    done: &str,
    shows: HookEvidence,
    before: Option<&str>,
) -> Proof {
    if shows == HookEvidence::Nothing {
        return proof!(true, "{name}: {done}");
    }
    let harm = || async {
        match (shows, run_id(world, name).await) {
            (HookEvidence::Silent, None) => Some("the server is silent"),
            (_, None) => Some("the server is gone"),
            (HookEvidence::Gone, now) if before.is_some() && now.as_deref() != before => {
                Some("another process answers")
            }
            _ => None,
        }
    };
    match until(SHOWS_WITHIN, LOOK, harm).await {
        Some(how) => proof!(true, "{name}: {done}, and {how}"),
        None => proof!(false, "{name}: {done}, and the same server still answers after {SHOWS_WITHIN:?}"),
    }
}

/// What tells one process of a server from the next.
pub(super) async fn run_id(world: &FaultWorld, node: &str) -> Option<String> {
    Some(field(&world.deployment.command(node, &["INFO", "server"]).await.ok()?, "run_id")?.to_owned())
}

async fn run(hook: &Hook, node: &Node) -> Result<(), String> {
    let words = hook.for_node(node);
    let (program, args) = words.split_first().ok_or("an empty command")?;
    let child = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(COMMAND_WITHIN, child)
        .await
        .map_err(|_| format!("{program} did not end within {COMMAND_WITHIN:?}"))?
        .map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().rev().find(|line| !line.trim().is_empty());
    let last = last.map_or(String::new(), |line| format!(": {line}"));
    Err(format!("{program} ended with {}{last}", output.status))
}

struct ByCommand {
    world: Arc<FaultWorld>,
    heal: Option<Hook>,
    harmed: Vec<Node>,
    proofs: Vec<Proof>,
}

#[async_trait]
impl FaultGuard for ByCommand {
    fn proof(&self) -> Proof {
        Proof::all(self.proofs.clone())
    }

    async fn heal(mut self: Box<Self>) -> HealReport {
        let proof = self.proof();
        let mut failed = Vec::new();
        if let Some(heal) = self.heal.take() {
            for node in &self.harmed {
                if let Err(why) = run(&heal, node).await {
                    failed.push(format!("{}: {why}", node.name));
                }
            }
        }
        // Without a command that brings it back, somebody else does; how long that takes is theirs to know.
        let silent = self.harmed.iter().map(async |node| {
            let found = until(SHOWS_WITHIN, LOOK, || run_id(&self.world, &node.name)).await;
            found.is_none().then(|| format!("{} does not answer", node.name))
        });
        failed.extend(join_all(silent).await.into_iter().flatten());
        HealReport::with(proof, &failed)
    }
}

impl Drop for ByCommand {
    /// The safety net: the undo is started, and nobody waits for it.
    fn drop(&mut self) {
        let Some(heal) = &self.heal else { return };
        for node in &self.harmed {
            if let Some((program, args)) = heal.for_node(node).split_first() {
                let _ = std::process::Command::new(program)
                    .args(args)
                    .stdin(Stdio::null())
                    .stdout(Stdio::null())
                    .stderr(Stdio::null())
                    .spawn();
            }
        }
    }
}
