//! One attempt of a request on one connection: done, refused or lost.
use std::{sync::Arc, time::Duration};

use redis::Value;

use super::node::{Lease, Node};
use super::refusal::{RESTARTED, UNREADABLE, unreadable};
use super::shared_connection::NoReply;
use super::{Request, RequestCommand, Script, WaitFor};
use crate::clock::{Instant, timeout_at};
use crate::durability::Durability;

pub(crate) enum Answer {
    Done {
        value: Value,
        acked: Option<(u32, u32)>,
        sent_at: Instant,
    },
    /// The server said no: certainly no effect.
    Refused {
        code: String,
        message: String,
    },
    /// Written, perhaps executed, not answered; with a code it was, and WAIT behind it was refused.
    Lost {
        code: Option<String>,
        message: String,
    },
}

impl Answer {
    pub(super) fn refused(code: &str, message: impl Into<String>) -> Self {
        Answer::Refused { code: code.to_owned(), message: message.into() }
    }

    fn lost(message: String) -> Self {
        Answer::Lost { code: None, message }
    }

    /// Something that has to be known first is not: nothing was sent.
    pub(super) fn try_again(message: impl Into<String>) -> Self {
        Answer::refused("TRYAGAIN", message)
    }
}

/// What goes before the request in the same write.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RequestPrefix {
    /// ASKING: the slot is being imported by this node.
    pub(crate) asking: bool,
    /// SCRIPT LOAD: the node has said that it does not know the script.
    pub(crate) load: bool,
    /// Not before it but in its place, EVAL: the node has no EVALSHA, or keeps it from this user.
    pub(crate) text: bool,
}

/// Whether a script is asked for by its text (EVAL) and not by its digest.
pub(crate) fn goes_by_text(request: &Request, node: &Node, before: RequestPrefix) -> bool {
    let is_new = |script: &Script| request.leaves_at_once && script.is_alone && !node.knows(script);
    let RequestCommand::Script(script) = request.what() else { return before.text };
    before.text || is_new(script) || node.wants_texts()
}

/// One attempt on one connection. Ends at the deadline or the response timeout at the latest, as lost.
pub(crate) async fn attempt(
    request: &Request,
    node: &Arc<Node>,
    lease: &Lease<'_>,
    before: RequestPrefix,
    by_text: bool,
    deadline: Instant,
) -> Answer {
    if request.grants
        && let Some(left) = lease.conn.grants_in()
    {
        let (label, left_ms) = (&node.label, left.as_millis() + 1);
        let why = format!("{label} was restarted, and grants nothing for {left_ms} ms more");
        return Answer::refused(RESTARTED, why);
    }
    if request.wait.is_some() || before.asking || before.load || by_text {
        // Boxed, so that the common case does not carry its size around.
        return Box::pin(pipelined(request, node, lease, before, by_text, deadline)).await;
    }
    let sent_at = Instant::now();
    match lease
        .conn
        .request(node.finished.deletions(), request, deadline.min(sent_at + node.dialer.response_timeout))
        .await
    {
        Ok(value) => single(value, sent_at),
        Err(NoReply::Silent) => silent(node, lease, sent_at, Duration::ZERO),
        Err(NoReply::Cut(why)) => Answer::lost(why.to_string()),
    }
}

/// The request with what goes before and after it, in one write.
async fn pipelined(
    request: &Request,
    node: &Arc<Node>,
    lease: &Lease<'_>,
    before: RequestPrefix,
    by_text: bool,
    deadline: Instant,
) -> Answer {
    let wait = match request.wait {
        None => None,
        Some(wait) => match wanted(node, lease, wait, deadline).await {
            Ok(wanted) => Some((wait, wanted)),
            Err(refused) => return refused,
        },
    };
    let sent_at = Instant::now();
    let mut bytes = Vec::new();
    let mut position = 0;
    for finished in node.finished.deletions() {
        position += 1;
        finished.write_to(&mut bytes);
    }
    if before.load
        && let RequestCommand::Script(script) = request.what()
    {
        for script in std::iter::once(script).chain(script.release) {
            position += 1;
            let load = redis::cmd("SCRIPT").arg("LOAD").arg(script.text).take();
            bytes.extend(load.get_packed_command());
        }
    }
    if before.asking {
        position += 1;
        bytes.extend(redis::cmd("ASKING").get_packed_command());
    }
    request.write_script(by_text, &mut bytes);
    // What follows on this connection finds it there.
    if by_text && let RequestCommand::Script(script) = request.what() {
        node.learn(script);
    }
    let mut count = position + 1;
    let mut blocked = Duration::ZERO;
    if let Some((wait, wanted)) = wait {
        // WAIT's own clock is coarse (a tick), so it gets less than what is left; 0 would wait for ever.
        let left = deadline.saturating_duration_since(sent_at) * 3 / 4;
        let limit = wait.timeout.min(left).max(Duration::from_millis(1));
        bytes.extend(wait_command(wait.durability, wanted, limit).get_packed_command());
        count += 1;
        // A request that is ahead on this connection may block it as long.
        blocked = limit * lease.busy();
    }
    let limit = deadline.min(sent_at + node.dialer.response_timeout + blocked);
    let answers = match timeout_at(limit, lease.conn.packed(&bytes, count, request.leaves_at_once)).await {
        Ok(Ok(answers)) => answers,
        Ok(Err(error)) => return Answer::lost(error.to_string()),
        Err(_) => return silent(node, lease, sent_at, blocked),
    };
    let mut answers = answers.into_iter().skip(position);
    let done = single(answers.next().unwrap_or(Value::Nil), sent_at);
    match (done, wait, answers.next()) {
        (Answer::Done { value, .. }, Some((_, wanted)), acked) => {
            let answer = acked.unwrap_or(Value::Nil);
            match acknowledged(&answer, wanted) {
                Some(count) => Answer::Done { value, acked: Some((count, wanted)), sent_at },
                // Done, but nobody knows on how many.
                None => {
                    let (code, why) = match &answer {
                        // The role changed meanwhile.
                        Value::ServerError(error) if error.to_string().contains("replica") => {
                            ("READONLY", error.to_string())
                        }
                        Value::ServerError(error) => (error.code(), error.to_string()),
                        _ => (UNREADABLE, unreadable(&answer)),
                    };
                    Answer::Lost { code: Some(code.to_owned()), message: format!("WAIT: {why}") }
                }
            }
        }
        (done, ..) => done,
    }
}

fn wait_command(durability: Durability, wanted: u32, limit: Duration) -> redis::Cmd {
    let limit_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
    match durability {
        Durability::WaitAof(count) => (redis::cmd("WAITAOF").arg(1).arg(count).arg(limit_ms)).take(),
        _ => redis::cmd("WAIT").arg(wanted).arg(limit_ms).take(),
    }
}

/// How many of those that were wanted have acknowledged: WAIT answers with a number, WAITAOF with the
/// master's disk and the replicas' apart, of which one does not stand for the other.
fn acknowledged(answer: &Value, wanted: u32) -> Option<u32> {
    let count = |value: &Value| match value {
        Value::Int(count) => u32::try_from(*count).ok(),
        _ => None,
    };
    match answer.as_sequence() {
        Some([own, others]) => Some(count(own)?.min(1) + count(others)?.min(wanted - 1)),
        _ => count(answer),
    }
}

fn single(answer: Value, sent_at: Instant) -> Answer {
    match answer {
        Value::ServerError(error) => {
            let details = error.details().unwrap_or_default();
            // A script has emptied a key of a slot that moves, and can make no new one there: it broke off.
            if details.contains("attempted to access a non local key") {
                return Answer::lost(details.to_owned());
            }
            // Inside a script an access rule has no code: texts of Redis 7.0, and of later ones and Valkey.
            let forbidden = ["The user executing the script can't", "ACL failure in script"];
            let code = match forbidden.iter().any(|text| details.contains(text)) {
                true => "NOPERM",
                false => error.code(),
            };
            Answer::refused(code, format!("{code} {details}").trim_end())
        }
        value => Answer::Done { value, acked: None, sent_at },
    }
}

fn silent(node: &Node, lease: &Lease<'_>, sent_at: Instant, blocked: Duration) -> Answer {
    lease.conn.suspect(node.dialer.response_timeout + blocked);
    Answer::lost(format!("no answer within {:?}", sent_at.elapsed()))
}

/// How many must acknowledge. Before the first WAITAOF of a connection the server is asked whether it has
/// one: after a write it could not undo the write. Nothing is done if that fails.
async fn wanted(
    node: &Arc<Node>,
    lease: &Lease<'_>,
    wait: WaitFor,
    deadline: Instant,
) -> Result<u32, Answer> {
    if matches!(wait.durability, Durability::WaitAof(_)) && !node.has_disk.get() {
        probed(node, lease, wait, deadline).await?;
        node.has_disk.set(true);
    }
    Ok(wait.durability.acknowledgements())
}

/// Asks a master for a WAITAOF of nothing. Whatever goes wrong, nothing was done.
async fn probed(node: &Node, lease: &Lease<'_>, wait: WaitFor, deadline: Instant) -> Result<(), Answer> {
    let question = wait_command(Durability::WaitAof(0), 1, Duration::from_millis(1));
    let patience = node.dialer.response_timeout + wait.timeout * lease.busy();
    let limit = deadline.min(Instant::now() + patience);
    match timeout_at(limit, lease.conn.command(&question)).await {
        Ok(Ok(Value::ServerError(error))) => {
            let mut said = error.to_string();
            if said.contains("unknown command") {
                said = format!("{}; it needs Redis 7.2 or newer, or Valkey", said.trim_end());
            }
            Err(Answer::refused(error.code(), said))
        }
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(Answer::try_again(format!("before a request with WAIT: {error}"))),
        Err(_) => {
            lease.conn.suspect(patience);
            Err(Answer::try_again("what a request with WAIT has to know first was not answered in time"))
        }
    }
}
