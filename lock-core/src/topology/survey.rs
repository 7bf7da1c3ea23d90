//! Reads a server's INFO and CONFIG GET into a report; a refusal makes a gap in it, never an error.
use std::{borrow::Cow, sync::Arc};

use redis::Value;

use super::info_field;
use super::node::{Lease, Node, Purpose};
use crate::clock::{Instant, timeout_at};
use crate::diagnostics::concern::ServerReport;

/// A lock's, of a name that nobody has.
const CHANNEL: &str = "redisson_lock__channel:{locklab-survey}";

/// Tries what a holder's scripts do once it has the lock, on a key that is not there, and says what the first
/// refusal is about. A refusal of what an acquire does needs no such trial: the acquire itself fails.
const HOLDER_COMMANDS: &str = "
    for _, words in ipairs({{'pttl'}, {'pexpire', 1}, {'get'}, {'hexists', 'x'}, {'hget', 'x'}, {'hdel', 'x'}, {'del'}}) do
        local answer = redis.pcall(words[1], KEYS[1], unpack(words, 2))
        if type(answer) == 'table' and answer.err then return words[1] .. ': ' .. answer.err end
    end
    return 1";

/// Asks a server that is connected already; nothing if it is not, or does not answer.
pub(crate) async fn ask_connected(node: &Node, deadline: Instant) -> Option<ServerReport> {
    let report = ask(node, &node.current(Purpose::Command)?, deadline).await;
    report.silence.is_none().then_some(report)
}

pub(crate) async fn ask_any(node: &Arc<Node>, deadline: Instant) -> ServerReport {
    let asked = Arc::clone(node);
    // The caller may be outside of a runtime.
    let task = node.dialer.runtime.spawn(async move {
        let node = &asked;
        match node.dialled(Purpose::Command, deadline).await {
            Ok(lease) => {
                let (asked, messages, tracking) = tokio::join!(
                    ask(node, &lease, deadline),
                    refusal(node, deadline),
                    untracked(node, deadline)
                );
                if asked.silence.is_some() {
                    return asked;
                }
                ServerReport { refused_messages: messages, refused_tracking: tracking, ..asked }
            }
            Err(error) => silent(node, error.message),
        }
    });
    task.await.unwrap_or_else(|error| silent(node, error.to_string()))
}

/// The refusal of a subscription as waiters have them, asked on its own connection; nothing if granted.
async fn refusal(node: &Node, deadline: Instant) -> Option<String> {
    let asked = async {
        let dialled = node.dialer.dial_for_subscriptions(&node.endpoint, false).await;
        let mut connection = dialled.map_err(|error| error.message)?;
        let written = connection.write(&redis::cmd("SUBSCRIBE").arg(CHANNEL).get_packed_command()).await;
        written.map_err(|error| error.to_string())?;
        match connection.next().await {
            Ok(Value::ServerError(error)) => Err(error.to_string()),
            Ok(_) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    };
    let answer = timeout_at(deadline, asked).await;
    let why = answer.unwrap_or_else(|_| Err("no answer in time".to_owned())).err()?;
    let caveat = match why.to_lowercase().contains("channel") {
        true => " (a name that nobody uses; a user may have the channels of others alone)",
        false => "",
    };
    Some(format!("SUBSCRIBE {CHANNEL}: {why}{caveat}"))
}

/// The refusal of what tells of keys that change; nothing if granted.
async fn untracked(node: &Node, deadline: Instant) -> Option<String> {
    let asked = node.dialer.dial_for_subscriptions(&node.endpoint, true);
    timeout_at(deadline, asked).await.ok()?.err().map(|error| error.message)
}

async fn ask(node: &Node, lease: &Lease<'_>, deadline: Instant) -> ServerReport {
    let mut questions = redis::pipe();
    questions.cmd("INFO");
    for name in ServerReport::SETTINGS {
        // One name each: servers before 7.0 take no more.
        questions.cmd("CONFIG").arg("GET").arg(name);
    }
    questions.cmd("WAIT").arg(0).arg(1);
    questions.cmd("EVAL").arg(HOLDER_COMMANDS);
    questions.arg(1).arg(CHANNEL);
    match timeout_at(deadline, lease.conn.pipeline(&questions, questions.len())).await {
        Ok(Ok(answers)) => {
            let mut report = read(node, &answers);
            report.given_replicas = node.dialer.replicas;
            report
        }
        Ok(Err(error)) => silent(node, error.to_string()),
        Err(_) => silent(node, "no answer in time".to_owned()),
    }
}

fn silent(node: &Node, why: String) -> ServerReport {
    ServerReport { node: node.label.to_string(), silence: Some(why), ..ServerReport::default() }
}

fn info(answers: &[Value]) -> Option<Cow<'_, str>> {
    match answers.first() {
        Some(Value::BulkString(info)) => Some(String::from_utf8_lossy(info)),
        _ => None,
    }
}

fn read(node: &Node, answers: &[Value]) -> ServerReport {
    let mut report = ServerReport { node: node.label.to_string(), ..ServerReport::default() };
    if let Some(info) = info(answers) {
        let field = |name: &str| info_field(&info, name).map(str::to_owned);
        report.version = match field("valkey_version") {
            Some(version) => Some(format!("valkey {version}")),
            None => field("redis_version").map(|version| format!("redis {version}")),
        };
        report.role = field("role");
        report.replicas = field("connected_slaves").and_then(|count| count.parse().ok());
        report.clustered = field("redis_mode").is_some_and(|mode| mode == "cluster")
            || field("cluster_enabled").is_some_and(|enabled| enabled == "1");
        // INFO is allowed to more users than CONFIG, and says some of it too.
        let on_off = |flag: String| if flag == "1" { "yes" } else { "no" }.to_owned();
        let also = [
            ("maxmemory", field("maxmemory")),
            ("maxmemory-policy", field("maxmemory_policy")),
            ("appendonly", field("aof_enabled").map(on_off)),
        ];
        for (name, value) in also {
            if let Some(value) = value {
                report.settings.insert(name.to_owned(), value);
            }
        }
    }
    for (name, answer) in ServerReport::SETTINGS.iter().zip(answers.iter().skip(1)) {
        if let Value::Array(pair) = answer
            && let [_, Value::BulkString(value)] = pair.as_slice()
        {
            report.settings.insert((*name).to_owned(), String::from_utf8_lossy(value).into_owned());
        }
    }
    report.refused_waits = answers.iter().nth_back(1).and_then(refused_wait);
    report.refused_scripts = answers.last().and_then(refused_script);
    report
}

/// What the server says if it has no WAIT for this user. A replica has none either, which says nothing.
fn refused_wait(answer: &Value) -> Option<String> {
    let Value::ServerError(error) = answer else { return None };
    let why = error.to_string();
    let signs = ["permission", "unknown command", "unsupported"];
    signs.iter().any(|sign| why.to_lowercase().contains(sign)).then_some(why)
}

/// What the server says if it refuses scripts, or what they do. The key may be another node's, or forbidden,
/// and a replica takes no writes: that says nothing.
fn refused_script(answer: &Value) -> Option<String> {
    let (why, signs): (_, &[&str]) = match answer {
        Value::ServerError(error) => (error.to_string(), &["'eval'", "unsupported"]),
        Value::BulkString(refusal) => (
            String::from_utf8_lossy(refusal).into_owned(),
            &["permission", "can't run this command", "unknown"],
        ),
        _ => return None,
    };
    let lower = why.to_lowercase();
    signs.iter().any(|sign| lower.contains(sign)).then(|| match answer {
        Value::BulkString(_) => why,
        _ => format!("EVAL: {why}"),
    })
}
