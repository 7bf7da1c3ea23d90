//! A command or script call as bytes, written once for all attempts and all servers.
use std::{ops::Range, time::Duration};

use crate::durability::Durability;

/// What is run: a script by its text, or a command by its name (`SET`, …).
#[derive(Debug, Clone, Copy)]
pub(crate) enum RequestCommand {
    Script(&'static Script),
    Command(&'static str),
}

impl From<&'static Script> for RequestCommand {
    fn from(script: &'static Script) -> Self {
        RequestCommand::Script(script)
    }
}

impl From<&'static str> for RequestCommand {
    fn from(command: &'static str) -> Self {
        RequestCommand::Command(command)
    }
}

impl RequestCommand {
    pub(super) fn name(self) -> &'static str {
        match self {
            RequestCommand::Script(script) => script.name,
            RequestCommand::Command(name) => name,
        }
    }
}

/// A script and the SHA-1 of its text (computed once).
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) name: &'static str,
    pub(crate) text: &'static str,
    /// What gives back what this one takes: a server that is sent the one is sent the other too, so that a
    /// release that nobody can see to any more is known there by its digest.
    pub(crate) release: Option<&'static Script>,
    /// No script takes what it gives back: such a release says its text.
    pub(super) is_alone: bool,
    sha1: std::sync::OnceLock<String>,
}

impl Script {
    pub(crate) const fn new(name: &'static str, text: &'static str) -> Self {
        Script { name, text, release: None, is_alone: false, sha1: std::sync::OnceLock::new() }
    }

    pub(crate) const fn given_back_by(mut self, release: &'static Script) -> Self {
        self.release = Some(release);
        self
    }

    pub(crate) const fn alone(mut self) -> Self {
        self.is_alone = true;
        self
    }

    fn digest(&self) -> &str {
        self.sha1.get_or_init(|| redis::Script::new(self.text).get_hash().to_owned())
    }
}

/// How many replicas must acknowledge, checked by WAIT on the same connection in the same write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WaitFor {
    pub(crate) durability: Durability,
    pub(crate) timeout: Duration,
}

/// One request; all keys lie in one slot. Keys come first, then arguments.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    what: RequestCommand,
    pub(crate) wait: Option<WaitFor>,
    /// It asks for something that a server does not give a moment after its restart.
    pub(crate) grants: bool,
    /// Nobody may be left to see to it: it is written where it is asked for.
    pub(crate) leaves_at_once: bool,
    /// Keys and arguments as the protocol writes them. One allocation serves a whole request.
    body: Vec<u8>,
    keys: u32,
    parts: u32,
    first_key: Range<u32>,
}

impl Request {
    /// A call without keys and arguments yet.
    pub(crate) fn new(what: impl Into<RequestCommand>) -> Self {
        Request {
            what: what.into(),
            wait: None,
            grants: false,
            leaves_at_once: false,
            body: Vec::with_capacity(192),
            keys: 0,
            parts: 0,
            first_key: 0..0,
        }
    }

    /// Adds a key; not after an argument.
    pub(crate) fn key(mut self, key: impl AsRef<[u8]>) -> Self {
        debug_assert_eq!(self.keys, self.parts, "keys come before arguments");
        let at = self.part(key.as_ref());
        if self.keys == 0 {
            self.first_key = at;
        }
        self.keys += 1;
        self
    }

    pub(crate) fn arg(mut self, argument: impl AsRef<[u8]>) -> Self {
        self.part(argument.as_ref());
        self
    }

    /// Adds a duration as Redis wants it: whole milliseconds, at least 1.
    pub(crate) fn arg_ms(self, duration: Duration) -> Self {
        let ms = u64::try_from(duration.as_millis().max(1)).unwrap_or(u64::MAX);
        self.arg(itoa::Buffer::new().format(ms))
    }

    /// Adds a duration in whole microseconds.
    pub(crate) fn arg_us(self, duration: Duration) -> Self {
        self.arg(itoa::Buffer::new().format(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)))
    }

    fn part(&mut self, bytes: &[u8]) -> Range<u32> {
        self.parts += 1;
        bulk(&mut self.body, bytes);
        let end = self.body.len() - 2;
        // A key of 4 GiB is more than a server takes.
        let place = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        place(end - bytes.len())..place(end)
    }

    pub(super) fn what(&self) -> RequestCommand {
        self.what
    }

    /// The key that says where the request belongs.
    pub(super) fn first_key(&self) -> Option<&[u8]> {
        let range = self.first_key.start as usize..self.first_key.end as usize;
        (self.keys > 0).then(|| &self.body[range])
    }

    pub(super) fn write_to(&self, out: &mut Vec<u8>) {
        self.write_script(false, out);
    }

    /// The same, a script by its text where that is asked for.
    pub(super) fn write_script(&self, by_text: bool, out: &mut Vec<u8>) {
        let mut digits = itoa::Buffer::new();
        out.reserve(self.body.len() + 96);
        out.push(b'*');
        match self.what {
            RequestCommand::Script(script) => {
                out.extend_from_slice(digits.format(u64::from(self.parts) + 3).as_bytes());
                let (word, script): (&[u8], _) = match by_text {
                    true => (b"\r\n$4\r\nEVAL\r\n", script.text),
                    false => (b"\r\n$7\r\nEVALSHA\r\n", script.digest()),
                };
                out.extend_from_slice(word);
                bulk(out, script.as_bytes());
                bulk(out, digits.format(self.keys).as_bytes());
            }
            RequestCommand::Command(name) => {
                out.extend_from_slice(digits.format(u64::from(self.parts) + 1).as_bytes());
                out.extend_from_slice(b"\r\n");
                bulk(out, name.as_bytes());
            }
        }
        out.extend_from_slice(&self.body);
    }

    /// Keys and arguments as they are sent, as text.
    pub(crate) fn parts(&self) -> (Vec<String>, Vec<String>) {
        let bytes = [format!("*{}\r\n", self.parts).as_bytes(), &self.body].concat();
        let value = redis::parse_redis_value(&bytes).expect("written by the protocol");
        let parts: Vec<Vec<u8>> = redis::from_redis_value(value).expect("an array of strings");
        let mut keys: Vec<_> = parts.iter().map(|part| String::from_utf8_lossy(part).into_owned()).collect();
        let args = keys.split_off(self.keys as usize);
        (keys, args)
    }
}

/// Writes a part of a command: `$<length>`, the bytes.
pub(super) fn bulk(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'$');
    out.extend_from_slice(itoa::Buffer::new().format(bytes.len()).as_bytes());
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_written_as_the_client_library_writes_it() {
        let request = Request::new("SET")
            .key(b"{a}\r\n")
            .arg(b"")
            .arg_ms(Duration::from_micros(1))
            .arg_ms(Duration::MAX);
        let mut ours = Vec::new();
        request.write_to(&mut ours);
        let mut theirs = redis::cmd("SET");
        theirs.arg("{a}\r\n").arg("").arg(1).arg(u64::MAX);
        assert_eq!(ours, theirs.get_packed_command());
        assert_eq!(request.first_key(), Some(&b"{a}\r\n"[..]));
    }
}
