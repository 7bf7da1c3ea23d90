//! `locklab trace`: what a lock sends to its servers, command by command: acquire, wait, renew, release.
//!
//! The clients themselves report what they send and receive, which needs no permission beyond those of the
//! lock. The server's MONITOR shows what scripts call, where the user may run it.

use bench::lock_trace::{LockTrace, STEPS, TracedEvent};
use bench::survey::connect_failure;
use bench::target::parse_target;
use chaos::target_servers::TargetServers;
use clap::Args;
use cluster_config::{ScriptCalls, resolve_host};
use lock_core::{ErrorKind, Kind, LockError};
use serde_json::json;

use crate::args::{TargetConsent, acquire_failure, kind_of};
use crate::cancel::Cancel;
use crate::exit;
use crate::target::remove_keys;
use crate::terminal::Terminal;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Target URL, e.g. redis://127.0.0.1:6379
    #[arg(value_parser = crate::args::target_url)]
    target: String,
    /// The kind of lock; of `read`, a reader that waits for a writer [default: reentrant; redlock on
    /// redlock:// targets]
    #[arg(long, value_name = "KIND")]
    kind: Option<Kind>,
    /// The lock's name, which is the Redis key itself [default: one that nobody else uses, of which nothing
    /// stays]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    mine: TargetConsent,
    /// Leave out the commands inside scripts: no MONITOR, which costs a busy server much of its time
    #[arg(long)]
    no_inner: bool,
}

pub(crate) async fn run(options: Options, terminal: &Terminal) -> anyhow::Result<u8> {
    let target = parse_target(&options.target)?;
    let mine = options.mine.yes_this_is_mine;
    let mut servers = TargetServers::of(&options.target, mine)?;
    servers.refuse_redirects().await?;
    let kind = kind_of(options.kind, &target)?;
    // Readers share, so one waits only for a writer.
    let held = if kind.is_shared() { Kind::Write } else { kind };
    let cancel = Cancel::listen()?;
    let interrupted = || exit::interrupted("interrupted before the trace was complete");
    let begun = async {
        let trace = LockTrace::connect(&target, mine).await.map_err(connect_failure)?;
        let calls = if options.no_inner { None } else { Some(script_calls(&mut servers).await) };
        anyhow::Ok((trace, calls))
    };
    let (trace, calls) = tokio::select! {
        begun = begun => begun?,
        () = cancel.wanted() => return Err(interrupted()),
    };
    let (began, prefix) = (trace.began, trace.key_prefix());
    let name = options.name.clone().unwrap_or_else(|| format!("{prefix}lock"));
    // After an interruption the clients release what they hold when they close.
    let outcome = tokio::select! {
        outcome = trace.run(held, kind, &name) => outcome.map_err(|error| refused(error, kind)),
        () = cancel.wanted() => Err(interrupted()),
    };
    let said = trace.close().await;
    // Only a counter of tokens never expires. The counter of a name that the user gave is not removed.
    if options.name.is_none() && matches!(kind, Kind::Fenced | Kind::Queued) {
        remove_keys(&mut servers, &prefix, terminal).await;
    }
    outcome?;
    let inner = match &calls {
        None => vec![None; said.len()],
        Some(calls) => inner_calls(&said, calls, terminal).await,
    };
    let all = || said.iter().zip(&inner);
    let events = all().map(|(said, inner)| said.to_json(inner.as_deref(), began));
    let document = json!({
        "schema": 1, "target": target.to_string(), "kind": kind.name(), "holder_kind": held.name(), "name": name,
        "events": events.collect::<Vec<_>>(),
    });
    terminal.answer(&document, || {
        let mut text = format!("{kind} lock {name} at {target}\n");
        if held != kind {
            text += &format!("held as a {held} lock, since readers do not wait for each other\n");
        }
        let mut step = None;
        for (said, inner) in all() {
            if step.replace(said.step) != Some(said.step) {
                let (name, about) = STEPS[said.step];
                text += &format!("\n{name}: {about}\n");
            }
            text += &(said.text(inner.as_deref(), began) + "\n");
        }
        text
    })
}

/// Listens to the masters; where they cannot be found, none of them is listened to.
async fn script_calls(servers: &mut TargetServers) -> ScriptCalls {
    match servers.ask().await {
        Ok(found) => ScriptCalls::listen(found).await,
        Err(why) => {
            let node = results::secrets::redact(servers.url());
            let mut calls = ScriptCalls::default();
            calls.refused.push((node, format!("{why:#}")));
            calls
        }
    }
}

/// The commands inside each event that is a script.
async fn inner_calls(
    said: &[TracedEvent],
    calls: &ScriptCalls,
    terminal: &Terminal,
) -> Vec<Option<Vec<String>>> {
    for (node, why) in &calls.refused {
        terminal.note(&format!("the commands inside scripts are not shown: MONITOR at {node}: {why}"));
    }
    let mut scripts = Vec::new();
    for TracedEvent { event, .. } in said {
        // MONITOR is listened to by address.
        let address = resolve_host(&event.node).await;
        let node = address.map_or_else(|_| event.node.clone(), |address| address.to_string());
        let words = event.keys.iter().chain(&event.args).cloned().collect();
        scripts.push(event.script.map(|_| (node, words)));
    }
    calls.inside(&scripts).await
}

fn refused(error: LockError, kind: Kind) -> anyhow::Error {
    match error.kind() {
        ErrorKind::Busy => exit::usage(format!(
            "{error}; a trace needs a lock that nobody holds: give another --name, or none"
        )),
        _ => acquire_failure(&error, kind),
    }
}
