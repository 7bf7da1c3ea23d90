//! Sends a request until it is done: where to, what a refusal calls for, when to stop.
use std::{sync::Arc, time::Duration};

use super::attempt::{Answer, RequestPrefix, attempt as try_once, goes_by_text};
use super::node::{Node, Purpose};
use super::refusal::is_about_keys;
use super::{NodeError, Request, RequestCommand, Route, ServerReply};
use crate::clock::{Instant, sleep_until};
use crate::diagnostics::concern::Concern;
use crate::diagnostics::trace::{Traced, reply};
use crate::telemetry::degraded;

/// First and longest pause between attempts that were refused.
const PAUSE: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(50));
/// An answer may take this long even where servers are near, if the machine is busy. With less time left
/// nothing is begun: cut off in the middle, what is certainly not done would be unknown.
const ONE_ANSWER: Duration = Duration::from_millis(20);

/// Sends until answered, refused for good, lost, or out of time. The rare is boxed: requests carry its size.
pub(super) async fn drive(
    router: &Route,
    request: &Request,
    deadline: Instant,
) -> Result<ServerReply, NodeError> {
    // A request that ends with WAIT needs a connection that may block.
    let purpose = if request.wait.is_some() { Purpose::Wait } else { Purpose::Command };
    // Of a short time a part must do. Answers that take longer raise it.
    let mut enough = ONE_ANSWER.min((deadline - Instant::now()) / 4);
    let mut attempt = 0;
    let mut pause = PAUSE.0;
    let mut next: Option<(Arc<Node>, RequestPrefix)> = None;
    // Why the last attempt had no effect.
    let mut reason = NodeError::local("");
    loop {
        // A redirection and a script's text follow at once: the server has just shown how fast it answers.
        let enough_now = if next.is_some() { Duration::ZERO } else { enough };
        if router.channels().is_closed() {
            return Err(NodeError { attempt, ..NodeError::closed() });
        }
        if attempt > 0 && deadline - Instant::now() <= enough_now {
            return Err(out_of_time(reason, attempt));
        }
        attempt += 1;
        let Some((node, before)) =
            next.take().or_else(|| router.owner(request).map(|node| (node, RequestPrefix::default())))
        else {
            reason = NodeError::local(format!("no master is known of {}", router.name()));
            router.rediscover(deadline).await;
            if router.owner(request).is_none() {
                if let Some(why) = router.refuses() {
                    return Err(surface(why, attempt));
                }
                Box::pin(rest(&mut pause, deadline)).await;
            }
            continue;
        };
        let (lease, enough_now) = match node.current(purpose) {
            Some(lease) => (lease, Duration::ZERO),
            None => match Box::pin(node.dialled(purpose, deadline)).await {
                Ok(lease) => (lease, enough),
                Err(error) => {
                    reason = NodeError::at(&node, error.code, error.message);
                    if error.fatal {
                        return Err(surface(reason, attempt));
                    }
                    router.rediscover(deadline).await;
                    Box::pin(rest(&mut pause, deadline)).await;
                    continue;
                }
            },
        };
        let asked_at = Instant::now();
        if deadline - asked_at <= enough_now {
            if reason.message.is_empty() {
                reason.message = format!("{} was not asked", router.name());
            }
            return Err(out_of_time(reason, attempt));
        }
        let by_text = goes_by_text(request, &node, before);
        let answer = try_once(request, &node, &lease, before, by_text, deadline).await;
        if let Some(tracer) = &node.dialer.tracer {
            tracer.tell(traced(request, by_text, &node, &answer, asked_at));
        }
        let by_digest = !by_text && matches!(request.what(), RequestCommand::Script(_));
        if by_digest && !node.knows_digests.get() {
            match answer {
                Answer::Lost { .. } if lease.conn.is_dead() => node.ends_at_digests(),
                Answer::Lost { .. } => {}
                _ => node.knows_digests.set(true),
            }
        }
        let (code, message) = match answer {
            Answer::Done { value, acked, sent_at } => {
                if acked.is_some_and(|(acked, wanted)| acked < wanted) {
                    // Perhaps a replica is gone for good: the next request should know.
                    router.suspect();
                }
                return Ok(ServerReply { value, node: node.label.clone(), sent_at, acked, attempt });
            }
            Answer::Lost { code, message } => {
                // Some proxies end a connection at a command that they do not know.
                if before.load {
                    node.loads_nothing.set(true);
                }
                router.suspect();
                let message = format!("{}: {}: {message}", node.label, request.what().name());
                return Err(NodeError { definite: false, attempt, ..NodeError::at(&node, code, message) });
            }
            Answer::Refused { code, message } => (code, message),
        };
        drop(lease);
        enough = enough.max(asked_at.elapsed() * 2);
        match code.as_str() {
            // With SCRIPT LOAD in the same write it cannot come again, but for a SCRIPT FLUSH in between, or
            // where that is refused, as by proxies: then the text goes, and after a pause.
            "NOSCRIPT" => {
                if before.load {
                    node.loads_nothing.set(true);
                }
                let text = node.loads_nothing.get();
                if attempt > 3 {
                    Box::pin(rest(&mut pause, deadline)).await;
                }
                next = Some((node.clone(), RequestPrefix { load: !text, text, ..before }));
            }
            "MOVED" | "ASK" => {
                let asking = code == "ASK";
                let to = router.redirected(&node, &message);
                if !asking {
                    router.moved(to.as_ref());
                }
                next = to.map(|to| (to, RequestPrefix { asking, load: false, ..before }));
                if next.is_none() || attempt > 4 {
                    Box::pin(rest(&mut pause, deadline)).await;
                }
            }
            "TRYAGAIN" | "LOADING" | "BUSY" => Box::pin(rest(&mut pause, deadline)).await,
            "READONLY" | "MASTERDOWN" | "CLUSTERDOWN" => {
                if code != "CLUSTERDOWN" {
                    node.drop_connections();
                }
                router.rediscover(deadline).await;
                Box::pin(rest(&mut pause, deadline)).await;
            }
            // The text says the same: once more for each request, on a server that is not as usual.
            _ if by_digest && is_about_digests(&code, &message) => {
                next = Some((node.clone(), RequestPrefix { text: true, ..RequestPrefix::default() }));
            }
            // Who may not send a script's text may send its digest, unless digests end the connection.
            "NOPERM" | "ERR" if by_text && !before.text && !node.wants_texts() => {
                if let RequestCommand::Script(script) = request.what() {
                    node.learn(script);
                }
            }
            _ => {
                if is_about_keys(&code, &message) {
                    refuse_keys(&node, request, &message);
                }
                let definite = !breaks_off(&code, &message);
                let reason = NodeError::at(&node, Some(code), message);
                return Err(NodeError { definite, ..surface(reason, attempt) });
            }
        }
        reason = NodeError::at(&node, Some(code), message);
    }
}

/// Remembers that this user may not have a request's keys, and says it once for a connection.
fn refuse_keys(node: &Node, request: &Request, message: &str) {
    let (keys, _) = request.parts();
    let found = format!("{} of {}: {message}", request.what().name(), keys.join(", "));
    if node.refused_keys.lock().replace(found.clone()).is_none() {
        degraded(&Concern::keys(&node.label, found));
    }
}

/// Whether a refusal may be of EVALSHA itself, unknown there or not allowed. Servers name the command, in
/// quotes that differ by version; a proxy says what it likes. What comes from inside of a script names that.
fn is_about_digests(code: &str, message: &str) -> bool {
    let names_it = || message.to_lowercase().contains("evalsha");
    !message.contains("user_script") && (code == "ERR" || names_it())
}

/// Whether a refusal came from inside a script, which may have written something before: by an access rule,
/// say. What a server refuses for its own state it refuses before a script's first write, and the first
/// command of each that writes finds a wrong type.
fn breaks_off(code: &str, message: &str) -> bool {
    const BEFORE: &[&str] = &["MISCONF", "NOREPLICAS", "OOM", "WRONGTYPE"];
    message.contains("user_script") && !BEFORE.contains(&code)
}

/// What was asked and answered, for those who watch.
fn traced(request: &Request, by_text: bool, node: &Node, answer: &Answer, at: Instant) -> Traced {
    let (command, script) = match request.what() {
        RequestCommand::Script(script) if by_text => ("EVAL", Some(script.name)),
        RequestCommand::Script(script) => ("EVALSHA", Some(script.name)),
        RequestCommand::Command(name) => (name, None),
    };
    let (keys, args) = request.parts();
    let reply = match answer {
        Answer::Done { value, acked, .. } => match acked {
            None => reply(value),
            Some((acked, wanted)) => {
                format!("{}, {acked} of {wanted} acknowledged", reply(value))
            }
        },
        Answer::Refused { message, .. } => format!("refused: {message}"),
        Answer::Lost { message, .. } => format!("lost: {message}"),
    };
    Traced {
        at: at.std(),
        node: node.label.to_string(),
        command,
        script,
        keys,
        args,
        reply: Some(reply),
        took: at.elapsed(),
    }
}

/// Waits a little, longer each time, never past the deadline.
async fn rest(pause: &mut Duration, deadline: Instant) {
    sleep_until((Instant::now() + *pause).min(deadline)).await;
    *pause = (*pause * 2).min(PAUSE.1);
}

fn out_of_time(reason: NodeError, attempt: u32) -> NodeError {
    // How many attempts there were is said with the lock, of which this may be a part.
    let message = format!("gave up: {}", reason.message);
    surface(NodeError { message, ..reason }, attempt)
}

/// Every attempt so far was refused or never written, so the whole is certain.
fn surface(mut reason: NodeError, attempt: u32) -> NodeError {
    if let Some(node) = &reason.node
        && !reason.message.contains(node.as_str())
    {
        reason.message = format!("{node}: {}", reason.message);
    }
    NodeError { attempt, ..reason }
}
