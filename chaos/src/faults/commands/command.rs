//! Commands to a server, once: it forgets its keys or its scripts, or does whatever a scenario says.

use crate::faults::per_target::{OnEach, TargetContext};
use crate::faults::{
    FaultError, FaultKind, Proof, Servers, SettingKind, SettingSpec, command_figure, error_count,
};

pub(crate) const FLUSHALL: FaultKind = FaultKind {
    name: "flushall",
    about: "the server forgets every key, once",
    servers: Servers::Masters,
    ..command(&Flushall)
};

pub(crate) const SCRIPT_FLUSH: FaultKind = FaultKind {
    name: "script-flush",
    about: "the server forgets its scripts, once, as after a restart",
    servers: Servers::Data,
    ..command(&ScriptFlush)
};

pub(crate) const COMMAND: FaultKind = FaultKind {
    name: "command",
    about: "any command to the server, once",
    settings: &[SettingSpec::required("args", SettingKind::Words)
        .about("the command and its arguments, such as [\"DEL\", \"orders-1\"]")],
    ..command(&Command)
};

const fn command(fault: &'static dyn crate::faults::Fault) -> FaultKind {
    FaultKind { one_shot: true, by_command: true, ..FaultKind::of(fault) }
}

struct Flushall;

impl OnEach for Flushall {
    type Kept = Proof;

    async fn harm(at: TargetContext<'_>) -> Result<Proof, FaultError> {
        let name = at.node()?;
        let before = at.world.command(name, &["DBSIZE"]).await?;
        at.deployment().command(name, &["FLUSHALL"]).await?;
        let keys: u64 = before.trim().parse().unwrap_or(0);
        Ok(proof!(keys > 0, "{name} forgot {keys} keys"))
    }
}

struct ScriptFlush;

impl OnEach for ScriptFlush {
    type Kept = Proof;

    async fn harm(at: TargetContext<'_>) -> Result<Proof, FaultError> {
        let name = at.node()?;
        let before = command_figure(at.world, name, "memory", "number_of_cached_scripts").await?;
        // A lock that never loads them again is told that they are missing.
        let told = error_count(at.world, name, "NOSCRIPT").await?;
        at.world.command(name, &["SCRIPT", "FLUSH"]).await?;
        Ok(proof!(before + told > 0, "{name} forgot {before} scripts, after {told} answers of NOSCRIPT"))
    }
}

struct Command;

impl OnEach for Command {
    type Kept = Proof;

    async fn harm(at: TargetContext<'_>) -> Result<Proof, FaultError> {
        const SHOWN_LONGEST: usize = 80;
        let name = at.node()?;
        let args = at.words("args");
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let answer = at.world.command(name, &args).await?;
        let shown: String = answer.trim_end().chars().take(SHOWN_LONGEST).collect();
        Ok(proof!(true, "{name} answered {shown:?}"))
    }
}
