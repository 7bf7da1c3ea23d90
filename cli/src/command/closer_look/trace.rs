//! `locklab trace`: what a lock sends to its servers, command by command: acquire, wait, renew, release.
//!
//! The clients themselves report what they send and receive, which needs no permission beyond those of the
//! lock. The server's MONITOR shows what scripts call, where the user may run it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use clap::Args;
use cluster_config::{MonitorLine, Role, resolve_host};
use lock_core::diagnostics::{Traced, Tracer};
use lock_core::{Acquire, Client, ClientOptions, Kind, Lease, LockError, Wait};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use self::script_commands::ScriptCalls;
use crate::args::{TargetConsent, connect_failure, kind_of};
use crate::cancel::Cancel;
use crate::exit;
use crate::target::Servers;
use crate::terminal::Terminal;

mod script_commands;

/// The lease of the lock that is watched: renewed each third of it, so that a renewal is seen soon.
const LEASE: Duration = Duration::from_millis(1500);
/// Longest wait for the lock, in case somebody else holds it.
const PATIENCE: Duration = Duration::from_secs(10);

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

/// Listens to what the masters run until it is dropped.
#[derive(Default)]
struct Monitor {
    tasks: Vec<JoinHandle<()>>,
    /// The servers that do not let this user listen, or could not be reached, and why.
    refused: Vec<(String, String)>,
}

impl Monitor {
    async fn begin(servers: &mut Servers, calls: &ScriptCalls) -> Self {
        let mut monitor = Monitor::default();
        let found = match servers.ask().await {
            Ok(found) => found.clone(),
            Err(why) => {
                let node = results::secrets::redact(servers.url());
                monitor.refused.push((node, format!("{why:#}")));
                return monitor;
            }
        };
        let all = found.data_servers().into_iter();
        for (address, _) in all.filter(|(_, role)| *role == Role::Master) {
            let node = address.to_string();
            match found.monitor(address).await {
                Err(why) => monitor.refused.push((node, why.to_string())),
                Ok(mut stream) => {
                    let calls = calls.clone();
                    monitor.tasks.push(tokio::spawn(async move {
                        let mut line = Vec::new();
                        while stream.next(&mut line).await.unwrap_or(false) {
                            if let Some(line) = MonitorLine::parse(&line) {
                                calls.add_line(&node, &line);
                            }
                        }
                    }));
                }
            }
        }
        monitor
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

struct TracedEvent {
    step: &'static str,
    client: &'static str,
    event: Traced,
}

/// Collects the events of both clients: the step that goes on, and what was said.
#[derive(Clone, Default)]
struct TraceRecord(Arc<Mutex<(&'static str, Vec<TracedEvent>)>>);

impl TraceRecord {
    fn lock(&self) -> MutexGuard<'_, (&'static str, Vec<TracedEvent>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self, step: &'static str) {
        self.lock().0 = step;
    }

    fn tracer(&self, client: &'static str) -> Tracer {
        let record = self.clone();
        Tracer::new(move |event| {
            let (step, said) = &mut *record.lock();
            said.push(TracedEvent { step, client, event });
        })
    }

    fn has(&self, step: &str, matches: impl Fn(&Traced) -> bool) -> bool {
        let (_, said) = &*self.lock();
        said.iter().any(|said| said.step == step && matches(&said.event))
    }

    /// Waits for one, for a lease at most: a kind that has not sent it by then does not send it.
    async fn until(&self, step: &str, matches: impl Fn(&Traced) -> bool) {
        let end = Instant::now() + LEASE;
        while Instant::now() < end && !self.has(step, &matches) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

pub(crate) async fn run(options: Options, terminal: &Terminal) -> anyhow::Result<u8> {
    let target = crate::args::target(&options.target)?;
    let mut servers = Servers::of(&options.target, options.mine.yes_this_is_mine)?;
    servers.refuse_redirects().await?;
    let kind = kind_of(options.kind, &target)?;
    // Readers share, so one waits only for a writer.
    let held = match kind.is_shared() {
        true => Kind::Write,
        false => kind,
    };
    let cancel = Cancel::listen()?;
    let interrupted = || exit::interrupted("interrupted before the trace was complete");
    let record = TraceRecord::default();
    record.begin("acquire");
    let began = Instant::now();
    let connect = |client| {
        let connected = ClientOptions::default()
            .watchdog_lease(LEASE)
            .only_named_addresses(!options.mine.yes_this_is_mine);
        let connected = connected.poll_bound(PATIENCE).tracer(record.tracer(client));
        Client::connect(&target, connected)
    };
    let calls = ScriptCalls::default();
    let begun = async {
        let holder = connect("holder").await.map_err(connect_failure)?;
        let waiter = connect("waiter").await.map_err(connect_failure)?;
        let monitor = match options.no_inner {
            true => None,
            false => Some(Monitor::begin(&mut servers, &calls).await),
        };
        anyhow::Ok((holder, waiter, monitor))
    };
    let (holder, waiter, monitor) = tokio::select! {
        begun = begun => begun?,
        () = cancel.wanted() => return Err(interrupted()),
    };
    let prefix = format!("locklab:trace:{}:", holder.id());
    let name = match &options.name {
        Some(name) => name.clone(),
        None => format!("{prefix}lock"),
    };
    // After an interruption the clients release what they hold when they close.
    let outcome = tokio::select! {
        outcome = run_lock_life((&holder, held), (&waiter, kind), &name, &record) => outcome,
        () = cancel.wanted() => Err(interrupted()),
    };
    holder.close().await;
    waiter.close().await;
    // Only a counter of tokens never expires. The counter of a name that the user gave is not removed.
    if options.name.is_none() && matches!(kind, Kind::Fenced | Kind::Queued) {
        servers.remove_keys(&prefix, terminal).await;
    }
    outcome?;
    let mut said = std::mem::take(&mut record.lock().1);
    // An event is reported when its reply arrives; it belongs where it was sent.
    said.sort_by_key(|said| said.event.at);
    let inner = match &monitor {
        None => vec![None; said.len()],
        Some(monitor) => {
            for (node, why) in &monitor.refused {
                terminal
                    .note(&format!("the commands inside scripts are not shown: MONITOR at {node}: {why}"));
            }
            // MONITOR is listened to by address.
            let mut events: Vec<Traced> = said.iter().map(|said| said.event.clone()).collect();
            for event in &mut events {
                if let Ok(address) = resolve_host(&event.node).await {
                    event.node = address.to_string();
                }
            }
            let events: Vec<&Traced> = events.iter().collect();
            calls.of_events(&events, &monitor.refused).await
        }
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
            text.push_str(&format!("held as a {held} lock, since readers do not wait for each other\n"));
        }
        let mut step = "";
        for (said, inner) in all() {
            if said.step != step {
                step = said.step;
                text.push_str(&format!("\n{}\n", about(step)));
            }
            text.push_str(&as_text(said, inner.as_deref(), began));
            text.push('\n');
        }
        text
    })?;
    Ok(exit::AS_EXPECTED)
}

/// A lock's life: acquired, waited for, renewed, released to the waiter, released.
async fn run_lock_life(
    (holder, held): (&Client, Kind),
    (waiter, kind): (&Client, Kind),
    name: &str,
    record: &TraceRecord,
) -> anyhow::Result<()> {
    let refused = |error| refused(error, kind);
    let ours = holder.lock(held, name).map_err(refused)?;
    let theirs = waiter.lock(kind, name).map_err(refused)?;
    let renewed = Acquire::default().wait(Wait::AtMost(PATIENCE)).lease(Lease::Renewed);
    let guard = ours.acquire_with(renewed).await.map_err(refused)?;
    record.begin("wait");
    let fixed = Acquire::default().wait(Wait::AtMost(PATIENCE));
    let waiting = theirs.acquire_with(fixed.lease(Lease::Fixed(LEASE)));
    let holding = async {
        let subscribed = |event: &Traced| event.command.ends_with("SUBSCRIBE");
        record.until("wait", subscribed).await;
        // The look that follows the subscription.
        tokio::time::sleep(LEASE / 20).await;
        record.begin("renew");
        // A server that does not know the script yet says so first.
        let renewal = |event: &Traced| {
            let extends = event.script.is_some_and(|name| name.starts_with("extend"));
            extends && !event.reply.as_deref().is_some_and(|reply| reply.starts_with("refused"))
        };
        record.until("renew", renewal).await;
        record.begin("release");
        guard.release().await
    };
    let (guard, released) = tokio::join!(waiting, holding);
    let guard = guard.map_err(refused)?;
    record.begin("last release");
    released.map_err(refused)?;
    guard.release().await.map_err(refused)?;
    Ok(())
}

fn refused(error: LockError, kind: Kind) -> anyhow::Error {
    match error.kind() {
        lock_core::ErrorKind::Busy => exit::usage(format!(
            "{error}; a trace needs a lock that nobody holds: give another --name, or none"
        )),
        _ => crate::args::acquire_failure(&error, kind),
    }
}

fn about(step: &str) -> &'static str {
    match step {
        "acquire" => "acquire: the holder gets the lock, with renewal",
        "wait" => "wait: another client finds it held, subscribes, and checks again",
        "renew" => "renew: a third of the lease has passed",
        "release" => "release: the holder releases it, the waiter is notified and acquires it",
        _ => "last release: the second holder releases it",
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
        line.push_str(&format!("  {}", event.keys.join(" ")));
    }
    if !event.args.is_empty() {
        line.push_str(&format!("  · {}", event.args.join(" ")));
    }
    for call in inner.unwrap_or_default() {
        line.push_str(&format!("\n{:18}{call}", ""));
    }
    if let Some(reply) = &event.reply {
        let took = event.took.as_secs_f64() * 1000.0;
        line.push_str(&format!("\n{:14}→ {reply}  ({took:.1} ms)", ""));
    }
    line
}

fn as_json(said: &TracedEvent, inner: Option<&[String]>, began: Instant) -> Value {
    let event = &said.event;
    let ns = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    json!({
        "t_ns": ns(event.at.saturating_duration_since(began)),
        "step": said.step,
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
