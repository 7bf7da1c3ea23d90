//! Sends commands to one node and turns answers into values or one-line reasons; always waits with a bound.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Value};
use tokio::net::TcpStream;

use crate::access::Dial;

/// Why there is no value, with the reason in words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Failure {
    /// Nobody listens at the address: nothing was sent.
    #[error("{0}")]
    Refused(String),
    /// The command's fate is open.
    #[error("{0}")]
    Silent(String),
    /// The server answered with an error.
    #[error("{0}")]
    Answered(String),
}

impl From<Failure> for String {
    fn from(failure: Failure) -> String {
        failure.to_string()
    }
}

fn silent(reason: impl ToString) -> Failure {
    Failure::Silent(reason.to_string())
}

/// Why a connection could not be opened.
fn connect_failure(error: &redis::RedisError) -> Failure {
    if error.is_connection_refusal() { Failure::Refused(error.to_string()) } else { silent(error) }
}

/// The outcome of work that takes no longer than this.
async fn within<T>(
    timeout: Duration,
    what: &str,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let outcome = tokio::time::timeout(timeout, work).await;
    outcome.unwrap_or_else(|_| Err(silent(format!("no {what} within {timeout:?}"))))
}

impl Dial {
    /// A connection for many questions, past any proxy.
    ///
    /// # Errors
    /// Why there is none.
    pub async fn connection(&self, timeout: Duration) -> Result<MultiplexedConnection, String> {
        connect(self, timeout).await.map_err(String::from)
    }
}

pub(crate) async fn connect(dial: &Dial, timeout: Duration) -> Result<MultiplexedConnection, Failure> {
    let opening = async {
        let info = dial.info().map_err(silent)?;
        // It also bounds the hand-shake with a server that accepts and says nothing, as a paused one does.
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(timeout))
            .set_response_timeout(Some(timeout));
        let Some(tls) = &dial.tls else {
            let client = redis::Client::open(info).map_err(silent)?;
            let opened = client.get_multiplexed_async_connection_with_config(&config);
            return opened.await.map_err(|error| connect_failure(&error));
        };
        // Over TLS, by somebody else's handshake.
        let stream =
            TcpStream::connect(dial.address).await.map_err(|error| connect_failure(&error.into()))?;
        stream.set_nodelay(true).map_err(silent)?;
        let stream = tls.0.connect(&dial.address.ip().to_string(), stream).await.map_err(silent)?;
        let opened = MultiplexedConnection::new_with_config(info.redis_settings(), stream, config).await;
        let (connection, driver) = opened.map_err(silent)?;
        tokio::spawn(driver);
        Ok(connection)
    };
    within(timeout, "connection", opening).await
}

pub(crate) async fn send(
    connection: &mut MultiplexedConnection,
    args: &[&str],
    timeout: Duration,
) -> Result<Value, Failure> {
    let mut command = redis::Cmd::new();
    command.arg(args);
    let sending = async {
        match connection.send_packed_command(&command).await {
            Ok(Value::ServerError(error)) => {
                let error = redis::RedisError::from(error);
                Err(Failure::Answered(error.to_string()))
            }
            Ok(value) => Ok(value),
            // What has a code came from the server (`-READONLY …`); the rest is the connection's own.
            Err(error) if error.code().is_some() => Err(Failure::Answered(error.to_string())),
            Err(error) => Err(silent(error)),
        }
    };
    within(timeout, "answer", sending).await
}

/// Several commands, one after the other, on one fresh connection; `timeout` bounds them together.
pub(crate) async fn ask_all(
    dial: &Dial,
    commands: &[&[&str]],
    timeout: Duration,
) -> Result<Vec<Value>, Failure> {
    let all = async {
        let mut connection = connect(dial, timeout).await?;
        let mut values = Vec::with_capacity(commands.len());
        for args in commands {
            values.push(send(&mut connection, args, timeout).await?);
        }
        Ok(values)
    };
    within(timeout, "answer", all).await
}

pub(crate) async fn ask(dial: &Dial, args: &[&str], timeout: Duration) -> Result<Value, Failure> {
    ask_all(dial, &[args], timeout).await?.pop().ok_or_else(|| silent("no answer"))
}

/// An answer as `redis-cli --raw` prints it: arrays one element per line, nil as nothing.
pub(crate) fn text(value: &Value) -> String {
    match value {
        Value::Nil => String::new(),
        Value::Int(number) => number.to_string(),
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::SimpleString(string) => string.clone(),
        Value::Okay => "OK".to_owned(),
        Value::Array(items) | Value::Set(items) => {
            let lines: Vec<String> = items.iter().map(text).collect();
            lines.join("\n")
        }
        other => format!("{other:?}"),
    }
}

/// The elements of an array answer; nothing for any other.
pub(crate) fn items(value: &Value) -> &[Value] {
    match value {
        Value::Array(items) => items,
        _ => &[],
    }
}

/// The value of an entry: of a flat array of names and values, as RESP2 has it, or of a map.
pub(crate) fn entry(entries: &Value, name: &str) -> Option<String> {
    match entries {
        Value::Map(pairs) => pairs.iter().find(|(key, _)| text(key) == name).map(|(_, value)| text(value)),
        _ => items(entries).chunks_exact(2).find(|pair| text(&pair[0]) == name).map(|pair| text(&pair[1])),
    }
}

/// The value of `field` in `name:value` lines (INFO, CLUSTER INFO).
pub(crate) fn field<'a>(info: &'a str, field: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':')).map(str::trim)
}

/// The version in INFO. Valkey also calls itself a Redis, of the version from which it branched off.
pub(crate) fn server_version(info: &str) -> Option<&str> {
    field(info, "valkey_version").or_else(|| field(info, "redis_version"))
}

/// Which server INFO is of, as `redis-7.0.15`. Others give Redis' version too, for clients, beside their own.
pub(crate) fn server_name(info: &str) -> Option<String> {
    ["valkey", "dragonfly", "kvrocks", "garnet", "redis"].into_iter().find_map(|flavour| {
        let version = field(info, &format!("{flavour}_version"))?;
        Some(format!("{flavour}-{}", version.trim_start_matches(['v', 'd', 'f', '-'])))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_also_calls_itself_a_redis_has_its_own_name() {
        let valkey = "redis_version:7.2.4\r\nvalkey_version:9.1.2\r\n";
        assert_eq!(server_name(valkey).as_deref(), Some("valkey-9.1.2"));
        let dragonfly = "redis_version:7.4.0\r\ndragonfly_version:df-v1.25.0\r\n";
        assert_eq!(server_name(dragonfly).as_deref(), Some("dragonfly-1.25.0"));
        assert_eq!(server_name("redis_version:8.6.3\n").as_deref(), Some("redis-8.6.3"));
        assert_eq!(server_name("role:master\n"), None);
    }

    #[test]
    fn a_field_is_found_by_its_whole_name() {
        let info = "cluster_state:ok\r\ncluster_slots_ok:16384\r\n";
        assert_eq!(field(info, "cluster_slots_ok"), Some("16384"));
        assert_eq!(field(info, "cluster"), None);
    }

    #[test]
    fn arrays_are_printed_one_element_per_line() {
        let value =
            Value::Array(vec![Value::BulkString(b"master".to_vec()), Value::Int(7), Value::Array(vec![])]);
        assert_eq!(text(&value), "master\n7\n");
    }
}
