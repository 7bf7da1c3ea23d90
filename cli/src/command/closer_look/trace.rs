//! `locklab trace`: what a lock sends to its servers, command by command: acquire, wait, renew, release.
//!
//! The clients themselves report what they send and receive, which needs no permission beyond those of the
//! lock. The server's MONITOR shows what scripts call, where the user may run it.

use std::time::{Duration, Instant};

use bench::lock_trace::{LockTrace, STEPS, TracedEvent};
use chaos::target_servers::{TargetServers, connect_failure, parse_target};
use clap::Args;
use cluster_config::{ScriptCalls, resolve_host};
use lock_core::{ErrorKind, Kind, LockError};
use serde_json::{Value, json};

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
        let calls = match options.no_inner {
            true => None,
            false => Some(script_calls(&mut servers).await),
        };
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
    let events = all().map(|(said, inner)| as_json(said, inner.as_deref(), began));
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
            text += &(as_text(said, inner.as_deref(), began) + "\n");
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

fn as_text(said: &TracedEvent, inner: Option<&[String]>, began: Instant) -> String {
    let event = &said.event;
    let since = event.at.saturating_duration_since(began).as_secs_f64() * 1000.0;
    let what = match event.script {
        Some(script) => format!("{} {script}", event.command),
        None => event.command.to_owned(),
    };
    let mut line = format!("{since:9.1} ms  {}  {}  {what}", said.client, event.node);
    if !event.keys.is_empty() {
        line += &format!("  {}", event.keys.join(" "));
    }
    if !event.args.is_empty() {
        line += &format!("  · {}", event.args.join(" "));
    }
    for call in inner.unwrap_or_default() {
        line += &format!("\n{:18}{call}", "");
    }
    if let Some(reply) = &event.reply {
        let took = event.took.as_secs_f64() * 1000.0;
        line += &format!("\n{:14}→ {reply}  ({took:.1} ms)", "");
    }
    line
}

fn as_json(said: &TracedEvent, inner: Option<&[String]>, began: Instant) -> Value {
    let event = &said.event;
    let ns = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    json!({
        "t_ns": ns(event.at.saturating_duration_since(began)),
        "step": STEPS[said.step].0,
        "client": said.client,
        "node": event.node,
        "command": event.command,
        "script": event.script,
        "keys": event.keys,
        "args": event.args,
        "inner": inner,
        "reply": event.reply,
        "took_ns": event.reply.as_ref().map(|_| ns(event.took)),
    })
}
