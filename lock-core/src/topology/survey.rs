//! Reads a server's INFO and CONFIG GET into a report; a refusal makes a gap in it, never an error.
use std::sync::Arc;

use redis::Value;

use super::info_field;
use super::node::{Lease, Node, Purpose};
use super::refusal::{is_about_keys, unreadable};
use super::subscriber::is_for_subscribers;
use crate::clock::{Instant, timeout_at};
use crate::diagnostics::concern::ServerReport;
use crate::names::{Names, companion};

/// A lock of a name that nobody has, under the client's prefix.
fn unused(prefix: &str) -> Names {
    Names::new(&format!("{prefix}locklab-survey"))
}

/// Tries what a holder's scripts do once it has the lock, on a key that is not there, and says what the first
/// refusal is about. A refusal of what an acquire does needs no such trial: the acquire itself fails.
const HOLDER_COMMANDS: &str = "
    for _, words in ipairs({{'pttl'}, {'pexpire', 1}, {'get'}, {'hexists', 'x'}, {'hget', 'x'}, {'hdel', 'x'}, {'del'}}) do
        local answer = redis.pcall(words[1], KEYS[1], unpack(words, 2))
        if type(answer) == 'table' and answer.err then return words[1] .. ': ' .. answer.err end
    end
    return 1";

/// Asks a server that is connected already; nothing if it is not, or does not answer.
pub(crate) async fn ask_connected(node: &Arc<Node>, prefix: &str, deadline: Instant) -> Option<ServerReport> {
    let report = ask(node, &node.current(Purpose::Command)?, prefix, deadline).await;
    // Of the client's own locks the first that is refused says it.
    report.silence.is_none().then_some(ServerReport { unjudged_keys: None, ..report })
}

pub(crate) async fn ask_any(node: &Arc<Node>, prefix: &str, deadline: Instant) -> ServerReport {
    let (asked, prefix) = (Arc::clone(node), prefix.to_owned());
    // The caller may be outside of a runtime.
    let task = node.dialer.runtime.spawn(async move {
        let node = &asked;
        match node.dialled(Purpose::Command, deadline).await {
            Ok(lease) => {
                let (asked, messages, tracking) = tokio::join!(
                    ask(node, &lease, &prefix, deadline),
                    refusal(node, &prefix, deadline),
                    untracked(node, deadline)
                );
                if asked.silence.is_some() {
                    return asked;
                }
                // Who may not have this key may not have its channel, and have both of its own locks.
                let narrowed = |why: &String| asked.unjudged_keys.is_some() && is_about_channels(why);
                let messages = messages.filter(|why| !narrowed(why));
                ServerReport { refused_messages: messages, refused_tracking: tracking, ..asked }
            }
            Err(error) => silent(node, error.message),
        }
    });
    task.await.unwrap_or_else(|error| silent(node, error.to_string()))
}

/// The refusal of a subscription as waiters have them, asked on its own connection; nothing if granted.
async fn refusal(node: &Node, prefix: &str, deadline: Instant) -> Option<String> {
    let channel = unused(prefix).channel;
    let asked = async {
        let dialled = node.dialer.dial_for_subscriptions(&node.endpoint, false).await;
        let mut connection = dialled.map_err(|error| error.message)?;
        let written = connection.write(&redis::cmd("SUBSCRIBE").arg(&channel).get_packed_command()).await;
        written.map_err(|error| error.to_string())?;
        match connection.next().await {
            Ok(Value::ServerError(error)) => Err(error.to_string()),
            Ok(Value::Array(parts)) if is_for_subscribers(&parts) => Ok(()),
            Ok(answer) => Err(unreadable(&answer)),
            Err(error) => Err(error.to_string()),
        }
    };
    let answer = timeout_at(deadline, asked).await;
    let why = answer.unwrap_or_else(|_| Err("no answer in time".to_owned())).err()?;
    let caveat = match prefix.is_empty() && is_about_channels(&why) {
        true => " (a name that nobody uses; a user may have the channels of others alone)",
        false => "",
    };
    Some(format!("SUBSCRIBE {channel}: {why}{caveat}"))
}

/// Whether a refusal is about channels, whose names have no such word.
fn is_about_channels(why: &str) -> bool {
    why.contains(" channel")
}

/// The refusal of what tells of keys that change; nothing if granted.
async fn untracked(node: &Node, deadline: Instant) -> Option<String> {
    let asked = node.dialer.dial_for_subscriptions(&node.endpoint, true);
    timeout_at(deadline, asked).await.ok()?.err().map(|error| error.message)
}

async fn ask(node: &Arc<Node>, lease: &Lease<'_>, prefix: &str, deadline: Instant) -> ServerReport {
    let names = unused(prefix);
    let companions = ["redisson_lock_queue", "locklab_queue"].map(|word| companion(word, &names.key));
    // Only under a prefix it matters which.
    let keys = [&names.key, &names.suffixed("survey"), &companions[0], &companions[1]];
    let keys = &keys[..if prefix.is_empty() { 1 } else { 4 }];
    let mut questions = redis::pipe();
    questions.cmd("INFO");
    for name in ServerReport::SETTINGS {
        // One name each: servers before 7.0 take no more.
        questions.cmd("CONFIG").arg("GET").arg(name);
    }
    questions.cmd("WAIT").arg(0).arg(1);
    for key in keys {
        questions.cmd("EVAL").arg(HOLDER_COMMANDS).arg(1).arg(key);
    }
    match timeout_at(deadline, lease.conn.pipeline(&questions, questions.len())).await {
        Ok(Ok(mut answers)) => {
            let mut report = read(node, &answers);
            report.given_replicas = node.dialer.replicas;
            let mut evals = answers.split_off(answers.len() - keys.len());
            report.refused_scripts = evals.iter().find_map(refused_script);
            if let Some(why) = &mut report.refused_scripts {
                let script = redis::Script::new(HOLDER_COMMANDS);
                let mut again = redis::pipe();
                again.cmd("SCRIPT").arg("LOAD").arg(HOLDER_COMMANDS);
                for key in keys {
                    again.cmd("EVALSHA").arg(script.get_hash()).arg(1).arg(key);
                }
                let by_digest = timeout_at(deadline, lease.conn.pipeline(&again, again.len())).await;
                let mut by_digest = by_digest.ok().and_then(Result::ok).unwrap_or_default();
                match by_digest.as_slice() {
                    [Value::ServerError(load), Value::ServerError(error), ..]
                        if error.code() == "NOSCRIPT" =>
                    {
                        why.push_str(&format!("; SCRIPT LOAD: {load}"));
                    }
                    [_, Value::ServerError(error), ..]
                        if !is_about_keys(error.code(), &error.to_string()) => {}
                    [_, _, ..] => {
                        evals = by_digest.split_off(1);
                        report.refused_scripts = evals.iter().find_map(refused_script);
                    }
                    _ => {}
                }
            }
            let refused = refused_keys(keys, &evals);
            match prefix.is_empty() {
                true => report.unjudged_keys = refused,
                false => report.refused_keys = refused,
            }
            report
        }
        // A proxy may end a connection at a question, and carry locks all the same: nothing is known then.
        Ok(Err(error)) => match node.dialled(Purpose::Command, deadline).await {
            Ok(_) => ServerReport { refused_settings: Some(error.to_string()), ..read(node, &[]) },
            Err(_) => silent(node, error.to_string()),
        },
        Err(_) => {
            // What is asked next would get the answers that are missing.
            lease.conn.kill();
            silent(node, "no answer in time".to_owned())
        }
    }
}

fn silent(node: &Node, why: String) -> ServerReport {
    ServerReport { node: node.label.to_string(), silence: Some(why), ..ServerReport::default() }
}

fn read(node: &Node, answers: &[Value]) -> ServerReport {
    let mut report = ServerReport { node: node.label.to_string(), ..ServerReport::default() };
    if let Some(Value::BulkString(info)) = answers.first() {
        let info = String::from_utf8_lossy(info);
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
        } else if let Value::ServerError(error) = answer {
            report.refused_settings = Some(error.to_string());
        }
    }
    report.refused_waits = answers.get(ServerReport::SETTINGS.len() + 1).and_then(refused_wait);
    report
}

/// What the server says if it has no WAIT for this user. A replica has none either, which says nothing.
fn refused_wait(answer: &Value) -> Option<String> {
    let Value::ServerError(error) = answer else { return None };
    let why = error.to_string();
    let signs = ["permission", "unknown command", "unsupported"];
    signs.iter().any(|sign| why.to_lowercase().contains(sign)).then_some(why)
}

/// Which keys the server refuses to this user, and what it says.
fn refused_keys<'k>(keys: &[&'k String], answers: &'k [Value]) -> Option<String> {
    let refused = |(key, answer): (&&'k String, &'k Value)| match answer {
        Value::ServerError(error) if is_about_keys(error.code(), &error.to_string()) => {
            Some((key.as_str(), error))
        }
        _ => None,
    };
    let (keys, errors): (Vec<&str>, Vec<_>) = keys.iter().zip(answers).filter_map(refused).unzip();
    Some(format!("EVAL of {}: {}", keys.join(", "), errors.first()?))
}

/// What the server says if it refuses scripts, or what they do. The key may be another node's, or forbidden,
/// and a replica takes no writes: that says nothing here.
fn refused_script(answer: &Value) -> Option<String> {
    let (why, signs): (_, &[&str]) = match answer {
        Value::ServerError(error) => (error.to_string(), &["'eval'", "`eval`", "unsupported"]),
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
