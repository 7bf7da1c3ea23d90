//! The lines of a driver's standard output, each with the moment at which its first byte could be read.
//!
//! A thread of its own waits for the bytes and does nothing else. A driver's ages are counted back from this
//! moment, and a busy runtime or a long queue would make them too short.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::time::Instant;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use results::limits::DRIVER_LINE;
use tokio::{process::ChildStdout, sync::mpsc};

/// Lines that may wait to be parsed; beyond that the driver has to wait.
const QUEUE: usize = 256;
/// Bytes per read: a pipe's whole buffer.
const READ: usize = 64 * 1024;

#[derive(Debug, thiserror::Error)]
pub(super) enum LineError {
    /// The pipe failed.
    #[error("its output cannot be read: {0}")]
    Io(io::Error),
    /// A line that is too long; its beginning.
    #[error("printed a line without an end, which begins `{0}`")]
    TooLong(String),
}

/// A line and the moment at which its first byte could be read.
#[derive(Debug)]
pub(super) struct TimedLine {
    pub(super) at: Instant,
    pub(super) text: String,
}

/// The lines of a driver's output. Dropping it ends the thread, also while a child keeps the pipe open.
pub(super) struct Output {
    lines: mpsc::Receiver<Result<TimedLine, LineError>>,
    _stop: io::PipeWriter,
}

impl Output {
    pub(super) fn of(stdout: ChildStdout) -> io::Result<Self> {
        let stdout = File::from(stdout.into_owned_fd()?);
        let (stopped, stop) = io::pipe()?;
        let (sender, lines) = mpsc::channel(QUEUE);
        std::thread::Builder::new().name("driver-output".to_owned()).spawn(move || {
            if let Err(error) = read(stdout, &stopped, &sender) {
                // Without a receiver nobody needs the line.
                let _ = sender.blocking_send(Err(error));
            }
        })?;
        Ok(Self { lines, _stop: stop })
    }

    /// The next line without its end, `None` at the end of the output. An unfinished last line is given too.
    pub(super) async fn next(&mut self) -> Result<Option<TimedLine>, LineError> {
        self.lines.recv().await.transpose()
    }
}

fn read(
    mut stdout: File,
    stopped: &io::PipeReader,
    lines: &mpsc::Sender<Result<TimedLine, LineError>>,
) -> Result<(), LineError> {
    let mut buffer = vec![0; READ];
    let mut partial = Vec::new();
    let mut begun = Instant::now();
    loop {
        let mut polled =
            [PollFd::new(stdout.as_fd(), PollFlags::POLLIN), PollFd::new(stopped.as_fd(), PollFlags::POLLIN)];
        match poll(&mut polled, PollTimeout::NONE) {
            Ok(_) => {}
            Err(Errno::EINTR) => continue,
            Err(error) => return Err(LineError::Io(error.into())),
        }
        let at = Instant::now();
        if polled[1].any().unwrap_or(true) {
            return Ok(());
        }
        let length = match stdout.read(&mut buffer) {
            Ok(length) => length,
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                continue;
            }
            Err(error) => return Err(LineError::Io(error)),
        };
        if length == 0 {
            if !partial.is_empty() {
                let text = text(&partial);
                let _ = lines.blocking_send(Ok(TimedLine { at: begun, text }));
            }
            return Ok(());
        }
        for piece in buffer[..length].split_inclusive(|byte| *byte == b'\n') {
            if partial.is_empty() {
                begun = at;
            }
            partial.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                let text = text(&partial);
                partial.clear();
                if lines.blocking_send(Ok(TimedLine { at: begun, text })).is_err() {
                    return Ok(());
                }
            }
        }
        if partial.len() > DRIVER_LINE {
            return Err(LineError::TooLong(text(&partial[..200])));
        }
    }
}

fn text(line: &[u8]) -> String {
    String::from_utf8_lossy(line).trim_end_matches(['\n', '\r']).to_owned()
}
