//! A connection for subscriptions and PING alone, in RESP2, which every server and proxy speaks.
use std::io;

use redis::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::shared_connection::{ByteStream, KEEP, ReplyDecoder, Socket};

/// Once something is subscribed, all that comes are arrays that begin with what they are (`message`,
/// `subscribe`, `pong`), and errors. Which command an error answers is not said.
pub(super) struct Subscriber {
    stream: Box<dyn ByteStream>,
    decoder: ReplyDecoder,
    input: Vec<u8>,
    /// Bytes of the input that were decoded.
    decoded: usize,
}

/// Whether it is a message, the end or the beginning of a subscription, or the answer to PING behind one.
pub(super) fn is_for_subscribers(parts: &[Value]) -> bool {
    let [Value::BulkString(kind), Value::BulkString(_), ..] = parts else { return false };
    kind.ends_with(b"message") || kind.ends_with(b"subscribe") || kind == b"pong"
}

impl Subscriber {
    pub(super) fn new(socket: Socket) -> Self {
        let decoder = ReplyDecoder::with_pushes();
        Subscriber { stream: socket.boxed(), decoder, input: Vec::new(), decoded: 0 }
    }

    pub(super) async fn write(&mut self, commands: &[u8]) -> io::Result<()> {
        self.stream.write_all(commands).await?;
        self.stream.flush().await
    }

    /// The next message or answer; an error at the end of the connection. Cancel-safe.
    pub(super) async fn next(&mut self) -> io::Result<Value> {
        loop {
            let decoded = self.decoder.next(&self.input[self.decoded..]);
            let (value, used) = decoded.map_err(|bad| io::Error::other(bad.to_string()))?;
            self.decoded += used;
            if let Some(value) = value {
                return Ok(value);
            }
            self.input.drain(..self.decoded);
            self.decoded = 0;
            if self.input.is_empty() && self.input.capacity() > KEEP {
                self.input = Vec::new();
            }
            if self.stream.read_buf(&mut self.input).await? == 0 {
                return Err(io::Error::other("the server closed the connection"));
            }
        }
    }
}
