//! What clients and servers said to each other, a line for each message, for somebody who looks for the cause
//! of a conviction.
//!
//! A line has the time of the run, the connection's number, who speaks to whom, how far the message is, and
//! what it says. Clients' own connections alone: what servers say to each other would be most of it.

use std::time::Duration;

use super::Way;

/// Longer words, such as the text of a script, are cut.
const WORD: usize = 100;

type Lines = Option<Vec<String>>;

/// A command that a server carries out, or keeps for later, now.
pub(super) fn command(lines: &mut Lines, at: Duration, connection: u64, way: &Way, words: &[Vec<u8>]) {
    if let Some(lines) = lines.as_mut().filter(|_| is_client(&way.0)) {
        let words: Vec<_> = words.iter().map(|word| text(word)).collect();
        push(lines, at, connection, way, "asks", &words.join(" "));
    }
}

/// What a server has for a client: `says` when it goes, `told` when it is there.
pub(super) fn reply(lines: &mut Lines, at: Duration, connection: u64, way: &Way, how: &str, bytes: &[u8]) {
    if let Some(lines) = lines.as_mut().filter(|_| is_client(&way.1)) {
        push(lines, at, connection, way, how, &text(bytes));
    }
}

fn push(lines: &mut Vec<String>, at: Duration, connection: u64, way: &Way, how: &str, what: &str) {
    let at_ms = at.as_secs_f64() * 1e3;
    lines.push(format!("{at_ms:>12.3} ms  #{connection:<4} {} -> {}  {how}  {what}", way.0, way.1));
}

fn is_client(name: &str) -> bool {
    super::client_number(name).is_some()
}

fn text(bytes: &[u8]) -> String {
    let shown = bytes[..bytes.len().min(WORD)].escape_ascii();
    let more = if bytes.len() > WORD { "…" } else { "" };
    format!("{shown}{more}")
}
