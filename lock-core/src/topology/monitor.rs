//! A server's MONITOR: the commands that it runs, those that scripts call among them.
use std::{sync::Arc, time::Duration};

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::dial::{DialError, Dialer};
use super::node::Node;
use super::shared_connection::ByteStream;
use crate::diagnostics::trace::Monitored;

pub(crate) type Tell = Arc<dyn Fn(Monitored) + Send + Sync>;

/// Listens to a node on a connection of its own until the handle is aborted or the connection ends. Fails for who may not.
pub(crate) async fn listen(node: &Arc<Node>, tell: Tell) -> Result<AbortHandle, DialError> {
    let (dialer, label) = (&node.dialer, Arc::clone(&node.label));
    let time = dialer.connect_timeout;
    match timeout(time, begin(dialer, node)).await {
        Ok(begun) => {
            let lines = begun?;
            let task = dialer
                .runtime
                .spawn(async move { read(lines, &label, &*tell).await });
            Ok(task.abort_handle())
        }
        Err(_) => Err(late(time)),
    }
}

fn late(time: Duration) -> DialError {
    DialError::new(format!("no answer to MONITOR within {time:?}"))
}

type Lines = BufReader<Box<dyn ByteStream>>;

async fn begin(dialer: &Dialer, node: &Node) -> Result<Lines, DialError> {
    let mut lines = BufReader::new(dialer.socket(&node.endpoint).await?.boxed());
    let (mut greeting, _) = dialer.greeting().await?;
    greeting.cmd("MONITOR");
    let io = |error: std::io::Error| DialError::new(error.to_string());
    let bytes = greeting.get_packed_pipeline();
    lines.get_mut().write_all(&bytes).await.map_err(io)?;
    for _ in 0..greeting.len() {
        let mut answer = Vec::new();
        lines.read_until(b'\n', &mut answer).await.map_err(io)?;
        let answer = String::from_utf8_lossy(&answer).trim_end().to_owned();
        if let Some(refusal) = answer.strip_prefix('-') {
            return Err(DialError::new(refusal));
        }
        if answer.is_empty() {
            return Err(DialError::new("the server closed the connection"));
        }
    }
    Ok(lines)
}

async fn read(mut lines: Lines, node: &str, tell: &(dyn Fn(Monitored) + Send + Sync)) {
    let mut line = Vec::new();
    loop {
        line.clear();
        match lines.read_until(b'\n', &mut line).await {
            Ok(1..) => {}
            _ => return,
        }
        if let Some((by_script, words)) = parse(&String::from_utf8_lossy(&line)) {
            tell(Monitored {
                node: node.to_owned(),
                by_script,
                words,
            });
        }
    }
}

/// Reads `+1700000000.000001 [0 127.0.0.1:5000] "SET" "k" "v"`; the address is `lua` for what a script calls.
fn parse(line: &str) -> Option<(bool, Vec<String>)> {
    let (head, words) = line.trim_end().split_once("] \"")?;
    let by_script = head.ends_with(" lua");
    let mut all = Vec::new();
    let mut word = Vec::new();
    let mut bytes = words.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => word.push(match bytes.next()? {
                b'n' => b'\n',
                b'r' => b'\r',
                b't' => b'\t',
                b'a' => 7,
                b'b' => 8,
                b'x' => {
                    let digits = [bytes.next()?, bytes.next()?];
                    u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
                }
                other => other,
            }),
            b'"' => {
                all.push(String::from_utf8_lossy(&word).into_owned());
                word.clear();
                match (bytes.next(), bytes.next()) {
                    (None, _) => return Some((by_script, all)),
                    (Some(b' '), Some(b'"')) => {}
                    _ => return None,
                }
            }
            other => word.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_they_are_written() {
        let words = |line| parse(line).map(|(by_script, words)| (by_script, words.join("|")));
        assert_eq!(
            words("+1.5 [0 127.0.0.1:5000] \"SET\" \"a b\" \"\"\r\n"),
            Some((false, "SET|a b|".to_owned()))
        );
        assert_eq!(
            words(r#"+1.5 [0 lua] "set" "a\"]\" \\ \xc3\xa4" "\n""#),
            Some((true, "set|a\"]\" \\ ä|\n".to_owned()))
        );
        assert_eq!(
            words("+1.5 [3 unix:/run/redis.sock] \"PING\""),
            Some((false, "PING".to_owned()))
        );
        for broken in ["+OK", "+1.5 [0 lua] \"set", r#"+1.5 [0 lua] "\x4"#, ""] {
            assert_eq!(words(broken), None, "{broken}");
        }
    }
}
