//! How much of what comes from elsewhere is taken in: every limit has its name here, and an input beyond one
//! is refused in words that name it. (A server's replies have theirs in `lock-core`.)

use std::fs::{self, File};
use std::io::{self, BufRead, Read, Seek, SeekFrom};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

/// A line of a history, or of any file that is read line by line.
pub const LINE: u64 = 16 << 20;
/// A line that a driver prints. Many may wait to be understood.
pub const DRIVER_LINE: usize = 1 << 20;
/// A file that is read as a whole: a scenario, a budget, a plan, a run's document.
pub const FILE: u64 = 64 << 20;
/// The window of a compressed history, which a reader keeps in memory; `zstd` by itself needs 8 MB.
pub const WINDOW: u64 = 64 << 20;
/// The name of a grant.
pub const GRANT: usize = 1 << 10;
/// Events, and breaches of the protocol, that are kept of a driver which is tried against it.
pub const EVENTS: usize = 10_000;
/// Lines of a history that are kept for the proof of a verdict: a judge keeps none.
pub const PROOF_LINES: usize = 1_000_000;
/// What all drivers of a run keep on the disk of what they say on standard error.
pub const LOG: u64 = 64 << 20;
/// How long a pipe is waited for that nobody writes to yet.
const WRITER: Duration = Duration::from_secs(5);

fn beyond(what: &str, limit: u64) -> io::Error {
    let limit = match limit >> 20 {
        0 => format!("{} kB", limit >> 10),
        mb => format!("{mb} MB"),
    };
    io::Error::new(io::ErrorKind::InvalidData, format!("{what} is longer than {limit}, which is the limit"))
}

/// Opens a file, or a pipe that somebody writes to: to open another one would never end.
///
/// # Errors
/// As [`File::open`], or nobody writes to the pipe.
pub fn open(path: &Path) -> io::Result<File> {
    // A pipe that this process was given lies there, with its writer.
    let is_given = path.starts_with("/dev") || path.starts_with("/proc");
    if is_given || !fs::metadata(path)?.file_type().is_fifo() {
        return File::open(path);
    }
    let (opened, wanted) = mpsc::channel();
    let pipe = path.to_owned();
    std::thread::Builder::new().spawn(move || drop(opened.send(File::open(pipe))))?;
    wanted.recv_timeout(WRITER).unwrap_or_else(|_| {
        let why = format!("it is a pipe, and nobody has written to it for {WRITER:?}");
        Err(io::Error::new(io::ErrorKind::TimedOut, why))
    })
}

/// A file as a whole.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    read_all(open(path)?)
}

/// Everything that a source has.
pub fn read_all(source: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.take(FILE + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > FILE { Err(beyond("a file that is read as a whole", FILE)) } else { Ok(bytes) }
}

/// As [`read`], of a text. The error names the file, and the place of a byte that is no text.
pub fn read_text(path: impl AsRef<Path>) -> Result<String, String> {
    let path = path.as_ref();
    let bytes = read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    String::from_utf8(bytes).map_err(|error| {
        let (before, rest) = error.as_bytes().split_at(error.utf8_error().valid_up_to());
        let before = String::from_utf8_lossy(before);
        let line = before.matches('\n').count() + 1;
        let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
        let (path, found) = (path.display(), rest.first().copied().unwrap_or_default());
        format!("{path}:{line}:{column}: the byte 0x{found:02x} is no UTF-8; save the file as UTF-8")
    })
}

/// Appends the next line with its end, and says how long it is; 0 at the end of the file.
pub fn read_line(source: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<usize> {
    let length = source.take(LINE + 1).read_until(b'\n', line)?;
    if length as u64 > LINE { Err(beyond("a line", LINE)) } else { Ok(length) }
}

/// The last bytes of a file, however large it is.
pub fn tail(path: &Path, bytes: u64) -> io::Result<Vec<u8>> {
    let mut file = open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(bytes)))?;
    let mut end = Vec::new();
    file.take(bytes).read_to_end(&mut end)?;
    Ok(end)
}
