//! Reads the lines of MONITOR: a command that a server ran, when, in which database, and who sent it.

use std::borrow::Cow;

/// A command as MONITOR shows it, from Redis 2.6 to 8 and Valkey.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MonitorLine<'a> {
    /// The server's clock, in microseconds since 1970.
    pub time_us: u64,
    /// The database.
    pub database: u32,
    /// `address:port`, `unix:path`, or `lua` for what a script calls.
    pub client: &'a [u8],
    /// The command and its arguments; never empty.
    pub words: Vec<Cow<'a, [u8]>>,
}

impl<'a> MonitorLine<'a> {
    /// A later time is none: it is the last whose nanoseconds are a number of 63 bits.
    pub const LAST_TIME_US: u64 = i64::MAX as u64 / 1_000;

    /// Reads `+1700000000.000001 [0 127.0.0.1:5000] "SET" "k" "v"`, with or without the protocol's `+`.
    /// `None`: the line is none, or torn.
    pub fn parse(line: &'a [u8]) -> Option<Self> {
        let line = line.strip_prefix(b"+").unwrap_or(line).trim_ascii_end();
        let space = line.iter().position(|byte| *byte == b' ')?;
        let time_us = microseconds(&line[..space]).filter(|us| *us <= Self::LAST_TIME_US)?;
        let rest = line[space + 1..].strip_prefix(b"[")?;
        // An address of IPv6 has brackets of its own.
        let end = memchr::memmem::find(rest, b"] \"")?;
        let (head, words) = (&rest[..end], &rest[end + 2..]);
        let space = head.iter().position(|byte| *byte == b' ')?;
        let database = std::str::from_utf8(&head[..space]).ok()?.parse().ok()?;
        Some(MonitorLine { time_us, database, client: &head[space + 1..], words: quoted_words(words, b' ')? })
    }

    /// Whether a script called it; the script is the last command before it that was none of a script's.
    pub fn is_by_script(&self) -> bool {
        self.client == b"lua"
    }
}

/// Seconds with six decimals, as microseconds.
fn microseconds(text: &[u8]) -> Option<u64> {
    let dot = text.iter().position(|byte| *byte == b'.')?;
    let (seconds, micros) = (&text[..dot], &text[dot + 1..]);
    if micros.len() != 6 || !(1..=11).contains(&seconds.len()) {
        return None;
    }
    seconds.iter().chain(micros).try_fold(0_u64, |sum, digit| {
        let value = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        Some(sum * 10 + value)
    })
}

/// Words in quotes with the escapes of redis-cli and MONITOR, one separator between two of them.
pub fn quoted_words(text: &[u8], separator: u8) -> Option<Vec<Cow<'_, [u8]>>> {
    let mut words = Vec::with_capacity(6);
    let mut rest = text;
    loop {
        rest = rest.strip_prefix(b"\"")?;
        let end = memchr::memchr2(b'"', b'\\', rest)?;
        if rest[end] == b'"' {
            words.push(Cow::Borrowed(&rest[..end]));
            rest = &rest[end + 1..];
        } else {
            let (word, after) = unescaped(rest)?;
            words.push(Cow::Owned(word));
            rest = after;
        }
        match rest.first() {
            None => return Some(words),
            Some(byte) if *byte == separator => rest = &rest[1..],
            Some(_) => return None,
        }
    }
}

/// The word up to its closing quote, and what follows that.
fn unescaped(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut word = Vec::with_capacity(text.len().min(64));
    let mut at = 0;
    loop {
        match text.get(at)? {
            b'"' => return Some((word, &text[at + 1..])),
            b'\\' => {
                at += 1;
                word.push(match text.get(at)? {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'a' => 7,
                    b'b' => 8,
                    b'x' => {
                        let digit = |at: usize| char::from(*text.get(at)?).to_digit(16);
                        let byte = digit(at + 1)? * 16 + digit(at + 2)?;
                        at += 2;
                        u8::try_from(byte).ok()?
                    }
                    other => *other,
                });
                at += 1;
            }
            other => {
                word.push(*other);
                at += 1;
            }
        }
    }
}
