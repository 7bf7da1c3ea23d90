//! A fault that a command of the user's carries out, on each node in turn.

use std::process::{Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use cluster_config::Node;
use tokio::process::Command;

use super::{Fault, FaultGuard, Healed, Injected, Injection, Proof, Shows, World, nodes};
use crate::hooks::Hook;

/// So long a command may take.
const COMMAND_WITHIN: Duration = Duration::from_secs(60);
/// So long after the command the harm may take to show.
pub(super) const SHOWS_WITHIN: Duration = Duration::from_secs(10);
pub(super) const LOOK: Duration = Duration::from_millis(20);

/// A fault by command.
pub(crate) struct Hooked {
    /// What must show besides a command that succeeded.
    pub(crate) shows: Shows,
    /// Does the harm.
    pub(crate) harm: Hook,
    /// Undoes it; `None`: it passes by itself.
    pub(crate) heal: Option<Hook>,
}

#[async_trait]
impl Fault for Hooked {
    async fn inject(&self, world: &Arc<World>, injection: &Injection) -> Injected {
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
                Ok(()) => {
                    shown(
                        world,
                        &node,
                        "the command succeeded",
                        self.shows,
                        before.as_deref(),
                    )
                    .await
                }
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
    world: &World,
    node: &Node,
    done: &str,
    shows: Shows,
    before: Option<&str>,
) -> Proof {
    let name = &node.name;
    if shows == Shows::Nothing {
        return proof!(true, "{name}: {done}");
    }
    let deadline = Instant::now() + SHOWS_WITHIN;
    loop {
        let now = run_id(world, name).await;
        let replaced = before.is_some() && now.is_some() && now.as_deref() != before;
        if shows == Shows::Silent && now.is_none() {
            return proof!(true, "{name}: {done}, and the server is silent");
        }
        if shows == Shows::Gone && (replaced || now.is_none()) {
            let how = if replaced {
                "another process answers"
            } else {
                "the server is gone"
            };
            return proof!(true, "{name}: {done}, and {how}");
        }
        if Instant::now() >= deadline {
            let why =
                format!("{name}: {done}, and the same server still answers after {SHOWS_WITHIN:?}");
            return Proof::of(false, why);
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// What tells one process of a server from the next.
pub(super) async fn run_id(world: &World, node: &str) -> Option<String> {
    let info = world
        .deployment
        .command(node, &["INFO", "server"])
        .await
        .ok()?;
    let id = info.lines().find_map(|line| line.strip_prefix("run_id:"))?;
    Some(id.trim().to_owned())
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
    Err(format!(
        "{program} ended with {}{}",
        output.status,
        last_words(&output)
    ))
}

fn last_words(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().rev().find(|line| !line.trim().is_empty());
    last.map_or(String::new(), |line| format!(": {line}"))
}

struct ByCommand {
    world: Arc<World>,
    heal: Option<Hook>,
    harmed: Vec<Node>,
    proofs: Vec<Proof>,
}

#[async_trait]
impl FaultGuard for ByCommand {
    fn proof(&self) -> Proof {
        Proof::all(self.proofs.clone())
    }

    async fn heal(mut self: Box<Self>) -> Healed {
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
        let deadline = Instant::now() + SHOWS_WITHIN;
        for node in &self.harmed {
            while run_id(&self.world, &node.name).await.is_none() {
                if Instant::now() >= deadline {
                    failed.push(format!("{} does not answer", node.name));
                    break;
                }
                tokio::time::sleep(LOOK).await;
            }
        }
        Healed::with(proof, &failed)
    }
}

impl Drop for ByCommand {
    /// The safety net: the undo is started, and nobody waits for it.
    fn drop(&mut self) {
        for node in self.heal.iter().flat_map(|_| &self.harmed) {
            let words = self
                .heal
                .as_ref()
                .map_or(Vec::new(), |heal| heal.for_node(node));
            if let Some((program, args)) = words.split_first() {
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
