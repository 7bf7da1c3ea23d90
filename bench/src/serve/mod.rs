//! One of our own subjects as a driver: the other end of the subject protocol, on a pair of streams.

mod load;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use crate::protocol::{
    self, HelloReply, Locks, Request, acquire_reply, event_line, failed, ok, release_reply, whole_ms,
};
use crate::subject::{AcquireRequest, ClientEvent, ConnectTo, Connected, LockClient, Subject, SubjectError};

/// A harness that does not keep to the protocol; a driver prints it on standard error and exits.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// A line that is no request.
    #[error("not a request of the subject protocol ({why}): `{line}`")]
    Malformed {
        /// The line.
        line: String,
        /// What is wrong with it.
        why: String,
    },
    /// A stream failed.
    #[error("the harness's pipe failed: {0}")]
    Io(#[from] std::io::Error),
}

/// Answers requests from `input` on `output` until `bye` or the end of the input, each in a task of its own.
///
/// The first request must be `hello`, which connects; after one that fails the next may try again.
///
/// # Errors
/// A malformed line or a broken stream; what was in flight is then unknown to the harness.
pub fn serve(
    subject: Arc<dyn Subject>,
    input: impl AsyncRead + Send + Unpin + 'static,
    output: impl AsyncWrite + Send + Unpin + 'static,
) -> BoxFuture<'static, Result<(), ServeError>> {
    compiled_here(subject, Box::new(input), Box::new(output))
}

/// Boxed, so that the load of a driver is compiled in this crate and not where it is awaited.
fn compiled_here(
    subject: Arc<dyn Subject>,
    input: Box<dyn AsyncRead + Send + Unpin>,
    output: Box<dyn AsyncWrite + Send + Unpin>,
) -> BoxFuture<'static, Result<(), ServeError>> {
    Box::pin(serve_all(subject, input, output))
}

async fn serve_all(
    subject: Arc<dyn Subject>,
    input: Box<dyn AsyncRead + Send + Unpin>,
    output: Box<dyn AsyncWrite + Send + Unpin>,
) -> Result<(), ServeError> {
    let (replies, lines) = mpsc::unbounded_channel();
    let writer = tokio::spawn(write(output, lines));
    let mut input = BufReader::new(input).lines();
    let mut client: Option<(Arc<Box<dyn LockClient>>, ConnectTo)> = None;
    let mut calls = JoinSet::new();
    // Acquires that are under way; sending gives one up.
    let mut waiting: HashMap<u64, oneshot::Sender<()>> = HashMap::new();
    let mut forwarder = None;
    let ended = loop {
        let line = match input.next_line().await {
            Ok(Some(line)) => line,
            Ok(None) => break Ok(()),
            Err(e) => break Err(e.into()),
        };
        // Finished calls are taken out as we go, so that a long run does not collect them.
        while calls.try_join_next().is_some() {}
        let request: Request = match serde_json::from_str(&line) {
            Ok(request) => request,
            Err(e) => {
                let why = e.to_string();
                break Err(ServeError::Malformed { line, why });
            }
        };
        let reply = match (request.op.as_str(), &client) {
            ("bye", _) => {
                let _ = replies.send(ok(request.id, json!({})));
                break Ok(());
            }
            ("hello", None) => match hello(subject.as_ref(), &request).await {
                Ok((reply, connected, to)) => {
                    client = Some((Arc::new(connected.client), to));
                    // Before any event.
                    let _ = replies.send(reply);
                    forwarder = Some(tokio::spawn(forward(connected.events, replies.clone())));
                    None
                }
                Err(reply) => Some(reply),
            },
            ("hello", Some(_)) => Some(failed(request.id, "hello was said already")),
            (_, None) => Some(failed(request.id, "the first request must be hello")),
            ("load", Some((client, to))) => {
                let (client, to) = (client.clone(), to.clone());
                let (subject, replies) = (subject.clone(), replies.clone());
                calls.spawn(async move {
                    let measured = match request.to_load() {
                        Ok(asked) => load::run(subject, to, client, asked).await,
                        Err(wrong) => Err(wrong),
                    };
                    let _ = replies.send(match measured {
                        Ok(report) => ok(request.id, report),
                        Err(why) => failed(request.id, &why),
                    });
                });
                None
            }
            ("cancel", Some(_)) => {
                if let Some(call) = request.of.and_then(|of| waiting.remove(&of)) {
                    let _ = call.send(());
                }
                Some(ok(request.id, json!({})))
            }
            ("block", Some(_)) => {
                block(Duration::from_millis(request.for_ms.unwrap_or(0)), request.id, replies.clone());
                None
            }
            (op, Some((client, _))) => {
                let (client, replies) = (client.clone(), replies.clone());
                let (call, cancelled) = oneshot::channel();
                if op == "acquire" {
                    waiting.retain(|_, call| !call.is_closed());
                    waiting.insert(request.id, call);
                }
                calls.spawn(async move {
                    let id = request.id;
                    let _ = replies.send(tokio::select! {
                        biased;
                        answer = answer(client.as_ref().as_ref(), request) => answer,
                        // Dropping the call ends it in this language, and says nothing of what was sent.
                        Ok(()) = cancelled => protocol::unknown(id, "given up by its caller"),
                    });
                });
                None
            }
        };
        if let Some(reply) = reply {
            let _ = replies.send(reply);
        }
    };
    // Calls hold the client; an abandoned acquire ends as any dropped call of the library does.
    calls.shutdown().await;
    if let Some(forwarder) = forwarder {
        forwarder.abort();
        let _ = forwarder.await;
    }
    drop(replies);
    let _ = writer.await;
    if let Some(client) = client.and_then(|(client, _)| Arc::into_inner(client)) {
        client.close().await;
    }
    ended
}

/// Blocks every worker of this runtime, as careless callers do; a thread measures how long nothing ran.
fn block(time: Duration, id: u64, replies: mpsc::UnboundedSender<Value>) {
    let runtime = tokio::runtime::Handle::current();
    std::thread::spawn(move || {
        let until = Instant::now() + time;
        for _ in 0..runtime.metrics().num_workers() {
            runtime.spawn(async move { std::thread::sleep(until - Instant::now()) });
        }
        let mut longest = Duration::ZERO;
        while Instant::now() < until {
            let (ran, when) = std::sync::mpsc::channel();
            let asked = Instant::now();
            runtime.spawn(async move { ran.send(()) });
            let _ = when.recv();
            longest = longest.max(asked.elapsed());
        }
        let blocked_ns = u64::try_from(longest.as_nanos()).unwrap_or(u64::MAX);
        let _ = replies.send(ok(id, json!({"blocked_ns": blocked_ns})));
    });
}

async fn hello(subject: &dyn Subject, request: &Request) -> Result<(Value, Connected, ConnectTo), Value> {
    if request.protocol != Some(protocol::VERSION) {
        return Err(failed(request.id, &format!("this driver speaks version {}", protocol::VERSION)));
    }
    let Some(target) = request.target.clone() else {
        return Err(failed(request.id, "hello without a target"));
    };
    let options = request.options.clone().unwrap_or_default();
    let client = request.client.as_deref().unwrap_or("c1");
    let durability = options.durability.as_deref().unwrap_or("none");
    let to = ConnectTo {
        watchdog: options.watchdog_ms.map(Duration::from_millis),
        ..ConnectTo::new(&target, client, request.seed.unwrap_or(0), durability)
    };
    let connected = subject.connect(&to).await.map_err(|e| {
        json!({"id": request.id, "failed": {
            "error": e.to_string(),
            "unreachable": matches!(e, SubjectError::Unreachable(_)),
            "not_applicable": matches!(e, SubjectError::NotApplicable(_)),
        }})
    })?;
    let kinds = subject.kinds();
    let mut features =
        ["extend", "held", "load", "cancel", "owner_moves", "block"].map(str::to_owned).to_vec();
    if connected.client.reports_renewals() {
        features.push("renewals".to_owned());
    }
    if kinds.iter().any(|k| k == "redlock") {
        features.push("redlock".to_owned());
    }
    let abilities = connected.client.abilities();
    features.extend(abilities.features.unwrap_or_default());
    // One that cannot ask for it has refused by now.
    let waits = !matches!(to.durability.as_str(), "" | "none");
    if waits && !features.iter().any(|has| has == "durability") {
        features.push("durability".to_owned());
    }
    let reply = HelloReply {
        protocol: Some(protocol::VERSION),
        name: subject.name().to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        language: "rust".to_owned(),
        kinds,
        topologies: abilities.topologies,
        features: Some(features),
        watchdog_ms: connected.client.watchdog().map(whole_ms),
        leaseless: Some(abilities.leaseless).filter(|kinds| !kinds.is_empty()),
    };
    Ok((ok(request.id, reply), connected, to))
}

async fn answer(client: &dyn LockClient, request: Request) -> Value {
    let id = request.id;
    let ms = |ms: Option<u64>| ms.map(Duration::from_millis);
    match request.op.as_str() {
        "acquire" => {
            let locks = match (request.locks, request.lock) {
                (Some(Locks::Names(locks)), _) if !locks.is_empty() => locks,
                (_, Some(lock)) => vec![lock],
                _ => return failed(id, "acquire without a lock"),
            };
            let names: Vec<&str> = locks.iter().map(String::as_str).collect();
            let asked = AcquireRequest {
                lock: names[0],
                others: &names[1..],
                kind: request.kind.as_deref().unwrap_or_default(),
                owner: request.owner.as_deref().unwrap_or_default(),
                reenters: request.owner.is_some(),
                wait: ms(request.wait_ms),
                lease: ms(request.lease_ms),
                permits: request.permits,
                cancel: None,
            };
            acquire_reply(id, client.acquire(asked).await)
        }
        op @ ("release" | "extend" | "held") => {
            let Some(grant) = request.grant else { return failed(id, &format!("{op} without a grant")) };
            let end = match (op, ms(request.lease_ms), &request.owner) {
                ("release", _, None) => client.release(&grant).await,
                ("release", _, Some(owner)) => client.release_as(&grant, owner).await,
                ("extend", Some(lease), None) => client.extend(&grant, lease).await,
                ("extend", Some(lease), Some(owner)) => client.extend_as(&grant, lease, owner).await,
                ("extend", None, _) => return failed(id, "extend without lease_ms"),
                _ => {
                    return match client.held(&grant).await {
                        Some(held) => ok(id, json!({"held": held})),
                        None => failed(id, "this lock cannot be asked what it believes"),
                    };
                }
            };
            release_reply(id, end)
        }
        // Not of the protocol: the harness asks its own drivers.
        "commands" => match client.commands().await {
            Some(commands) => ok(id, json!({"commands": commands})),
            None => failed(id, "the commands of this lock cannot be counted"),
        },
        other => failed(id, &format!("unknown operation `{other}`")),
    }
}

async fn forward(mut events: mpsc::UnboundedReceiver<ClientEvent>, replies: mpsc::UnboundedSender<Value>) {
    while let Some(event) = events.recv().await {
        if event_line(event).is_some_and(|line| replies.send(line).is_err()) {
            return;
        }
    }
}

async fn write(
    mut output: impl AsyncWrite + Unpin,
    mut lines: mpsc::UnboundedReceiver<Value>,
) -> std::io::Result<()> {
    let mut text = String::new();
    while let Some(first) = lines.recv().await {
        text.clear();
        text.push_str(&first.to_string());
        text.push('\n');
        // Whatever else is ready goes out in the same write.
        while let Ok(next) = lines.try_recv() {
            text.push_str(&next.to_string());
            text.push('\n');
        }
        output.write_all(text.as_bytes()).await?;
        output.flush().await?;
    }
    Ok(())
}
