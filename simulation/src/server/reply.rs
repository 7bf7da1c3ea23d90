//! Answers of a server, and the bytes that they are on a connection; commands as bytes, and both read back on
//! links between servers.

use std::borrow::Cow;

pub(crate) type Command = Vec<Vec<u8>>;

/// What a command is answered.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Reply {
    /// Nothing where there could be a text or a number.
    Nil,
    /// Nothing where there could be an array.
    NilArray,
    /// A word such as `OK`.
    Status(Cow<'static, str>),
    /// A number.
    Int(i64),
    /// Bytes.
    Bulk(Vec<u8>),
    /// Several answers in order.
    Array(Vec<Reply>),
    /// Why not; its first word is the code.
    Error(Cow<'static, str>),
}

impl Reply {
    pub(crate) const OK: Reply = Reply::Status(Cow::Borrowed("OK"));

    pub(crate) fn text(text: impl Into<String>) -> Self {
        Reply::Bulk(text.into().into_bytes())
    }

    pub(crate) fn texts<const N: usize>(texts: [&str; N]) -> Self {
        Reply::Array(texts.map(Reply::text).into())
    }

    pub(crate) fn error(text: impl Into<Cow<'static, str>>) -> Self {
        Reply::Error(text.into())
    }

    pub(crate) fn count(count: usize) -> Self {
        Reply::Int(count as i64)
    }

    /// Writes it as RESP2 has it.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Reply::Nil => out.extend_from_slice(b"$-1\r\n"),
            Reply::NilArray => out.extend_from_slice(b"*-1\r\n"),
            Reply::Status(text) => line(b'+', text.as_bytes(), out),
            // As the server does it: a line stays one line.
            Reply::Error(text) if text.contains(['\r', '\n']) => {
                line(b'-', text.replace(['\r', '\n'], " ").as_bytes(), out);
            }
            Reply::Error(text) => line(b'-', text.as_bytes(), out),
            Reply::Int(number) => head(b':', *number, out),
            Reply::Bulk(bytes) => bulk(bytes, out),
            Reply::Array(parts) => {
                head(b'*', parts.len() as i64, out);
                parts.iter().for_each(|part| part.write(out));
            }
        }
    }

    /// Reads the first answer from bytes, and says how long it is; nothing if it is not complete.
    pub fn read(bytes: &[u8]) -> Option<(Reply, usize)> {
        let kind = *bytes.first()?;
        if let b'+' | b'-' | b':' = kind {
            let end = bytes.windows(2).position(|pair| pair == b"\r\n")?;
            let text = std::str::from_utf8(&bytes[1..end]).ok()?;
            let reply = match kind {
                b'+' => Reply::Status(text.to_owned().into()),
                b'-' => Reply::Error(text.to_owned().into()),
                _ => Reply::Int(text.parse().ok()?),
            };
            return Some((reply, end + 2));
        }
        if bytes[1..].starts_with(b"-1\r\n") {
            return Some((Reply::Nil, 5));
        }
        let (count, mut length) = counted(bytes)?;
        if kind == b'$' {
            let text = bytes.get(length..length + count + 2)?;
            return Some((Reply::Bulk(text[..count].to_vec()), length + text.len()));
        }
        let mut parts = Vec::with_capacity(count);
        for _ in 0..count {
            let (part, more) = Reply::read(&bytes[length..])?;
            parts.push(part);
            length += more;
        }
        Some((Reply::Array(parts), length))
    }

    pub(crate) fn into_command(self) -> Option<Command> {
        let Reply::Array(parts) = self else { return None };
        let bytes = |part| match part {
            Reply::Bulk(bytes) => Some(bytes),
            Reply::Int(number) => Some(number.to_string().into_bytes()),
            _ => None,
        };
        parts.into_iter().map(bytes).collect()
    }
}

/// The number of a line behind its first byte, and how long the line is; nothing if it is not complete.
pub(crate) fn counted(line: &[u8]) -> Option<(usize, usize)> {
    let mut number = 0;
    for (at, byte) in line.iter().enumerate().skip(1) {
        match byte {
            b'0'..=b'9' => number = 10 * number + usize::from(byte - b'0'),
            b'\r' if line.get(at + 1) == Some(&b'\n') => return Some((number, at + 2)),
            _ => return None,
        }
    }
    None
}

fn line(kind: u8, text: &[u8], out: &mut Vec<u8>) {
    out.push(kind);
    out.extend_from_slice(text);
    out.extend_from_slice(b"\r\n");
}

fn head(kind: u8, number: i64, out: &mut Vec<u8>) {
    out.push(kind);
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
    out.extend_from_slice(b"\r\n");
}

fn bulk(bytes: &[u8], out: &mut Vec<u8>) {
    head(b'$', bytes.len() as i64, out);
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

/// Writes a command as a client sends it.
pub fn write_command<T: AsRef<[u8]>>(parts: &[T], out: &mut Vec<u8>) {
    head(b'*', parts.len() as i64, out);
    for part in parts {
        bulk(part.as_ref(), out);
    }
}

pub(crate) fn words(words: &[&str]) -> Command {
    words.iter().map(|word| word.as_bytes().to_vec()).collect()
}
