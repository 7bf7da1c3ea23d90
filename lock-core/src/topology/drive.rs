//! Turns a request into attempts: where to, what a refusal calls for, when to stop.
use std::{
    future::Future,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::time::sleep_until;

use super::{
    NodeError, Request, Sent, What,
    attempt::{Answer, Before, attempt as try_once},
    node::{Node, Purpose},
};

use crate::trace::{Traced, reply};

/// First and longest pause between attempts that were refused.
const PAUSE: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(50));

/// What a kind of topology knows about where requests go.
pub(crate) trait Router: Send + Sync {
    /// The node that owns the request's keys, as far as known.
    fn owner(&self, request: &Request) -> Option<Arc<Node>>;
    /// Looks for the owner anew, or joins a search under way; returns by the deadline, found or not.
    fn rediscover(&self, deadline: Instant) -> impl Future<Output = ()> + Send;
    /// Starts looking in the background: an answer was lost, the next request should not find the same.
    fn suspect(&self);
    /// The node that a redirection of `from` names (`MOVED 3999 127.0.0.1:6381`).
    fn redirected(&self, from: &Node, message: &str) -> Option<Arc<Node>>;
    /// For messages before any node is known.
    fn name(&self) -> String;
}

/// The last reason why an attempt had no effect.
struct Reason {
    node: Option<String>,
    code: Option<String>,
    message: String,
}

/// Sends until answered, refused for good, lost, or out of time. What is rare is boxed: every request carries the size
/// of this future.
pub(crate) async fn drive<R: Router>(
    router: &R,
    request: &Request,
    deadline: Instant,
) -> Result<Sent, NodeError> {
    // A request that ends with WAIT needs a connection that may block.
    let purpose = if request.wait.is_some() {
        Purpose::Wait
    } else {
        Purpose::Command
    };
    let mut attempt = 0;
    let mut pause = PAUSE.0;
    let mut next: Option<(Arc<Node>, Before)> = None;
    let mut reason = Reason {
        node: None,
        code: None,
        message: String::new(),
    };
    loop {
        if attempt > 0 && Instant::now() >= deadline {
            return Err(out_of_time(reason, attempt));
        }
        attempt += 1;
        let Some((node, before)) = next
            .take()
            .or_else(|| router.owner(request).map(|node| (node, Before::default())))
        else {
            reason = Reason {
                node: None,
                code: None,
                message: format!("no master is known of {}", router.name()),
            };
            Box::pin(router.rediscover(deadline)).await;
            if router.owner(request).is_none() {
                Box::pin(rest(&mut pause, deadline)).await;
            }
            continue;
        };
        let lease = match node.current(purpose) {
            Some(lease) => lease,
            None => match Box::pin(node.dialled(purpose, deadline)).await {
                Ok(lease) => lease,
                Err(error) => {
                    reason = Reason {
                        node: Some(node.label.to_string()),
                        code: error.code,
                        message: error.message,
                    };
                    if error.fatal {
                        return Err(surface(reason, attempt));
                    }
                    Box::pin(router.rediscover(deadline)).await;
                    Box::pin(rest(&mut pause, deadline)).await;
                    continue;
                }
            },
        };
        if Instant::now() >= deadline {
            if reason.message.is_empty() {
                reason.message = format!("{} was not asked", router.name());
            }
            return Err(out_of_time(reason, attempt));
        }
        let asked_at = Instant::now();
        let answer = try_once(request, &node, &lease, before, deadline).await;
        if let Some(tracer) = &node.dialer.tracer {
            tracer.tell(traced(request, &node, &answer, asked_at));
        }
        let (code, message) = match answer {
            Answer::Done {
                value,
                acked,
                sent_at,
            } => {
                if acked.is_some_and(|(acked, wanted)| acked < wanted) {
                    // Perhaps a replica is gone for good: the next request should know.
                    router.suspect();
                }
                return Ok(Sent {
                    value,
                    node: node.label.clone(),
                    sent_at,
                    acked,
                    attempt,
                });
            }
            Answer::Lost { message } => {
                router.suspect();
                return Err(NodeError {
                    message: format!("{}: {}: {message}", node.label, request.what().name()),
                    node: Some(node.label.to_string()),
                    definite: false,
                    code: None,
                    attempt,
                });
            }
            Answer::Refused { code, message } => (code, message),
        };
        drop(lease);
        match code.as_str() {
            // With SCRIPT LOAD in the same write it cannot come again, but for a SCRIPT FLUSH in between.
            "NOSCRIPT" => {
                next = Some((
                    node.clone(),
                    Before {
                        load: true,
                        ..before
                    },
                ))
            }
            "MOVED" => {
                router.suspect();
                next = router
                    .redirected(&node, &message)
                    .map(|to| (to, Before::default()));
                if next.is_none() || attempt > 4 {
                    Box::pin(rest(&mut pause, deadline)).await;
                }
            }
            "ASK" => {
                next = router.redirected(&node, &message).map(|to| {
                    (
                        to,
                        Before {
                            asking: true,
                            load: false,
                        },
                    )
                });
                if next.is_none() || attempt > 4 {
                    Box::pin(rest(&mut pause, deadline)).await;
                }
            }
            "TRYAGAIN" | "LOADING" | "BUSY" => Box::pin(rest(&mut pause, deadline)).await,
            "READONLY" | "MASTERDOWN" => {
                node.drop_connections();
                Box::pin(router.rediscover(deadline)).await;
                Box::pin(rest(&mut pause, deadline)).await;
            }
            "CLUSTERDOWN" => {
                Box::pin(router.rediscover(deadline)).await;
                Box::pin(rest(&mut pause, deadline)).await;
            }
            _ => {
                let reason = Reason {
                    node: Some(node.label.to_string()),
                    code: Some(code),
                    message,
                };
                return Err(surface(reason, attempt));
            }
        }
        reason = Reason {
            node: Some(node.label.to_string()),
            code: Some(code),
            message,
        };
    }
}

/// What was asked and answered, for whoever watches.
fn traced(request: &Request, node: &Node, answer: &Answer, at: Instant) -> Traced {
    let (command, script) = match request.what() {
        What::Script(script) => ("EVALSHA", Some(script.name)),
        What::Command(name) => (name, None),
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
        Answer::Lost { message } => format!("lost: {message}"),
    };
    Traced {
        at,
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
    sleep_until((Instant::now() + *pause).min(deadline).into()).await;
    *pause = (*pause * 2).min(PAUSE.1);
}

fn out_of_time(reason: Reason, attempt: u32) -> NodeError {
    let message = format!("gave up after {attempt} attempts: {}", reason.message);
    surface(Reason { message, ..reason }, attempt)
}

/// Every attempt so far was refused or never written, so the whole is certain.
fn surface(reason: Reason, attempt: u32) -> NodeError {
    let message = match &reason.node {
        Some(node) if !reason.message.contains(node.as_str()) => {
            format!("{node}: {}", reason.message)
        }
        _ => reason.message,
    };
    NodeError {
        node: reason.node,
        definite: true,
        code: reason.code,
        message,
        attempt,
    }
}
