//! The task of a connection: writes what its users have asked and hands the replies to them.
use std::future::{Future, poll_fn};
use std::io::ErrorKind;
use std::mem::MaybeUninit;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use tokio::io::ReadBuf;

use super::frame::{BadReply, ReplyDecoder};
use super::socket::ReadHalf;
use super::{KEEP, SharedConnection};

/// Bytes that are read at once.
const CHUNK: usize = 16 * 1024;

/// The one task that reads from a connection, and writes what its users leave to it.
pub(super) struct Driver {
    wire: Arc<SharedConnection>,
    reading: ReadHalf,
    decoder: ReplyDecoder,
    input: Vec<u8>,
    output: Vec<u8>,
    written: usize,
    /// Has let the others have their turn before this write.
    waited: bool,
    wakers: Vec<Waker>,
}

/// Ends the connection with its driver, also where its runtime drops it.
struct EndOnDrop(Arc<SharedConnection>);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.end("the connection was closed");
    }
}

impl Driver {
    pub(super) fn new(wire: Arc<SharedConnection>, reading: ReadHalf) -> Self {
        Driver {
            wire,
            reading,
            decoder: ReplyDecoder::default(),
            input: Vec::new(),
            output: Vec::new(),
            written: 0,
            waited: false,
            wakers: Vec::new(),
        }
    }

    pub(super) async fn run(mut self) {
        let _ending = EndOnDrop(Arc::clone(&self.wire));
        let why = poll_fn(|context| self.poll(context)).await;
        self.wire.end(&why);
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<String> {
        if self.wire.has_ended() {
            return Poll::Ready(String::new());
        }
        if let Poll::Ready(why) = self.poll_read(context) {
            return Poll::Ready(why);
        }
        self.poll_write(context)
    }

    fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<String> {
        let mut chunk = [MaybeUninit::uninit(); CHUNK];
        loop {
            let mut buffer = ReadBuf::uninit(&mut chunk);
            match ready!(self.reading.poll_read(context, &mut buffer)) {
                Err(error) => return Poll::Ready(error.to_string()),
                Ok(()) if buffer.filled().is_empty() => {
                    return Poll::Ready("the server closed the connection".to_owned());
                }
                Ok(()) => {}
            }
            if let Err(bad) = self.deliver(buffer.filled()) {
                return Poll::Ready(bad.to_string());
            }
        }
    }

    /// Hands the replies in `bytes`, after what was left over before, to those who wait. Bytes that are no
    /// reply keep no earlier reply from anybody; a reply too many does: it may be any.
    fn deliver(&mut self, bytes: &[u8]) -> Result<(), BadReply> {
        let mut queue = self.wire.queue.lock();
        queue.heard = true;
        let mut count = 0;
        let mut hand_on = |mut rest: &[u8]| {
            let all = rest.len();
            loop {
                let (value, used) = self.decoder.next(rest)?;
                rest = &rest[used..];
                let Some(value) = value else {
                    return Ok(all - rest.len());
                };
                count += 1;
                if !queue.deliver(value, &mut self.wakers) {
                    return Err(BadReply::Unasked);
                }
            }
        };
        let end = if self.input.is_empty() {
            hand_on(bytes).map(|used| self.input.extend_from_slice(&bytes[used..]))
        } else {
            self.input.extend_from_slice(bytes);
            hand_on(&self.input).map(|used| drop(self.input.drain(..used)))
        };
        if self.input.is_empty() && self.input.capacity() > KEEP {
            self.input = Vec::new();
        }
        queue.burst = count;
        queue.busy = count > 1 || !queue.owed.is_empty();
        if end == Err(BadReply::Unasked) {
            queue.take_back();
        }
        drop(queue);
        self.wakers.drain(..).for_each(Waker::wake);
        end
    }

    fn poll_write(&mut self, context: &mut Context<'_>) -> Poll<String> {
        loop {
            if self.written == self.output.len() {
                self.output.clear();
                if self.output.capacity() > KEEP {
                    self.output = Vec::new();
                }
                self.written = 0;
                let mut queue = self.wire.queue.lock();
                queue.writing = false;
                if queue.out.is_empty() {
                    queue.driver_woken = false;
                    match &mut queue.driver {
                        Some(waker) => waker.clone_from(context.waker()),
                        none => *none = Some(context.waker().clone()),
                    }
                    drop(queue);
                    // A task that leaves something from now on wakes the driver.
                    return match ready!(self.wire.socket.poll_flush(context)) {
                        Ok(()) => Poll::Pending,
                        Err(error) => Poll::Ready(error.to_string()),
                    };
                }
                let hurries = std::mem::take(&mut queue.urgent);
                if queue.busy && !hurries && !std::mem::replace(&mut self.waited, true) {
                    // The tasks that were just woken ask first; then what is short of a batch leaves in one
                    // write. To yield wakes no other worker of the runtime, as to wake oneself does.
                    queue.driver_woken = true;
                    drop(queue);
                    let _ = pin!(tokio::task::yield_now()).poll(context);
                    return Poll::Pending;
                }
                self.waited = false;
                queue.writing = true;
                queue.unwritten = 0;
                std::mem::swap(&mut queue.out, &mut self.output);
            }
            match self.wire.socket.try_write(&self.output[self.written..]) {
                Ok(written) => self.written += written,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    match ready!(self.wire.socket.poll_write_ready(context)) {
                        Ok(()) => {}
                        Err(error) => return Poll::Ready(error.to_string()),
                    }
                }
                Err(error) => return Poll::Ready(error.to_string()),
            }
        }
    }
}
