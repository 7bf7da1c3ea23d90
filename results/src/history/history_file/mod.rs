//! Reads a history's file, plain or compressed, and compresses a large plain one.
//!
//! While a run goes on its history is plain: each line is with the operating system before the call that
//! wrote it returns, which no compressor could promise. When it is over, a history above a size is
//! compressed. Readers tell the two forms apart by their first bytes, so a name is no part of the form.
//!
//! The compressed form is that of zstd, in frames of [`FRAME_BYTES`] with a checksum each, one after the
//! other: `zstd -d` reads it, and of a file that was cut every whole frame is left.

mod compress;
mod frames;

use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};

use crate::history::{History, HistoryError, Line, Reader};
use crate::store::HISTORY_FILE;
use crate::store::limits;
pub use compress::compress_above;
use frames::{Broken, Frames};

/// The record of one scenario where it is large.
pub const COMPRESSED_FILE: &str = "history.jsonl.zst";

/// A history of more bytes is compressed when its run is over.
pub const PLAIN_MAX_BYTES: u64 = 32 << 20;

/// How much of a history is in one frame, before it is compressed.
pub const FRAME_BYTES: usize = 1 << 20;

/// The first bytes of a zstd frame.
const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Why a file gave no history.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HistoryFileError {
    /// The operating system said no.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A line is bad, or there is no whole one. Lines are counted in the text, compressed or not.
    #[error("{}: {source}", path.display())]
    Form {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: HistoryError,
    },
    /// The compressed data are not what was written.
    #[error("{}: the compressed data are damaged: {what}; nothing after {good_bytes} bytes of text can be trusted", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What the decoder found.
        what: String,
        /// How much text came before it.
        good_bytes: u64,
    },
    /// The compressed data end so early that not one line is whole.
    #[error("{}: the compressed data are cut off before the first whole line", .0.display())]
    Cut(PathBuf),
}

/// A history and what a reader must know of its file.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredHistory {
    /// The history; `torn` where the file ends early.
    pub history: History,
    /// That the file ends early, as a sentence with its name; `None` where it is whole.
    pub warning: Option<String>,
}

/// The history's file in a scenario's directory: the plain one, else the compressed one, else `None`.
///
/// Both are there for a moment only. A symbolic link is neither: it may lead anywhere.
pub fn of_dir(dir: &Path) -> Option<PathBuf> {
    [HISTORY_FILE, COMPRESSED_FILE]
        .map(|name| dir.join(name))
        .into_iter()
        .find(|path| path.symlink_metadata().is_ok_and(|found| found.is_file()))
}

/// Reads a history file of either form, line by line.
///
/// Of a torn or cut file what is whole is kept; `torn` and [`StoredHistory::warning`] say so.
pub fn read(path: &Path) -> Result<StoredHistory, HistoryFileError> {
    let mut lines = Vec::new();
    let warning = read_lines(path, |line| lines.push(line))?;
    let history = History { torn: warning.is_some(), ..History::from_lines(lines) };
    Ok(StoredHistory { history, warning })
}

/// As [`read`], but hands over each line and keeps none; what is returned is [`StoredHistory::warning`].
pub fn read_lines(path: &Path, take: impl FnMut(Line)) -> Result<Option<String>, HistoryFileError> {
    let io = |source| HistoryFileError::Io { path: path.to_owned(), source };
    let mut file = BufReader::new(limits::open(path).map_err(io)?);
    let mut head = Vec::new();
    file.by_ref().take(MAGIC.len() as u64).read_to_end(&mut head).map_err(io)?;
    let compressed = head == MAGIC;
    // Put back in front rather than sought: the file may be a pipe.
    let file = Cursor::new(head).chain(file);
    if !compressed {
        return lines(path, file, take);
    }
    lines(path, BufReader::new(Frames::new(file)), take)
}

/// Feeds the lines of `source` to a reader.
fn lines(
    path: &Path,
    mut source: impl BufRead,
    mut take: impl FnMut(Line),
) -> Result<Option<String>, HistoryFileError> {
    let path_of = || path.to_owned();
    let form = |source| HistoryFileError::Form { path: path_of(), source };
    let mut reader = Reader::default();
    let mut line = Vec::new();
    let mut good_bytes = 0;
    let mut cut = false;
    loop {
        line.clear();
        match limits::read_line(&mut source, &mut line) {
            Ok(0) => break,
            Ok(length) => good_bytes += length as u64,
            Err(source) => {
                let path = path_of();
                match source.downcast() {
                    Ok(Broken::Cut) => cut = true,
                    Ok(Broken::Damaged(what)) => {
                        return Err(HistoryFileError::Damaged { path, what, good_bytes });
                    }
                    Err(source) => return Err(HistoryFileError::Io { path, source }),
                }
            }
        }
        if let Some(line) = reader.line(line.strip_suffix(b"\n").unwrap_or(&line)).map_err(form)? {
            take(line);
        }
        if cut {
            break;
        }
    }
    let torn = match reader.finish() {
        Ok(torn) => torn,
        Err(_) if cut => return Err(HistoryFileError::Cut(path_of())),
        Err(error) => return Err(form(error)),
    };
    let what = match (cut, torn) {
        (true, _) => "the compressed data are cut off; what is whole was read",
        (false, true) => "the last line is torn and was dropped",
        (false, false) => return Ok(None),
    };
    let path = path.display();
    Ok(Some(format!("{path}: {what}; the run is partial")))
}
