//! Turns a stream of bytes into lines of a bounded length.

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

/// A longer line is no request and no reply: it would only fill our memory.
pub(super) const LONGEST: usize = 1 << 20;

/// Why there is no further line.
#[derive(Debug)]
pub(crate) enum LineError {
    /// The stream failed.
    Io(std::io::Error),
    /// A line without an end; its beginning.
    TooLong(String),
}

/// Lines of a stream; keeps an unfinished one between calls, so that `next` may be cancelled.
pub(crate) struct Lines<R> {
    input: BufReader<R>,
    partial: Vec<u8>,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(crate) fn new(input: R) -> Self {
        Lines {
            input: BufReader::new(input),
            partial: Vec::new(),
        }
    }

    /// The next line without its end, `None` at the end of the stream. An unfinished last line is given too.
    pub(crate) async fn next(&mut self) -> Result<Option<String>, LineError> {
        loop {
            let chunk = self.input.fill_buf().await.map_err(LineError::Io)?;
            if chunk.is_empty() {
                return Ok((!self.partial.is_empty()).then(|| self.take()));
            }
            let end = chunk.iter().position(|b| *b == b'\n');
            let length = end.map_or(chunk.len(), |at| at + 1);
            self.partial.extend_from_slice(&chunk[..length]);
            self.input.consume(length);
            if end.is_some() {
                return Ok(Some(self.take()));
            }
            if self.partial.len() > LONGEST {
                let beginning = String::from_utf8_lossy(&self.partial[..200]).into_owned();
                return Err(LineError::TooLong(beginning));
            }
        }
    }

    fn take(&mut self) -> String {
        let mut line = std::mem::take(&mut self.partial);
        while line.last().is_some_and(|b| matches!(b, b'\n' | b'\r')) {
            line.pop();
        }
        match String::from_utf8(line) {
            Ok(line) => line,
            Err(e) => String::from_utf8_lossy(e.as_bytes()).into_owned(),
        }
    }
}
