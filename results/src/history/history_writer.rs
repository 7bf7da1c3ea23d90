//! Writes one `history.jsonl` from many threads, in order of time, each line written before its call returns.

use std::borrow::Cow;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::history::{Entry, Line};
use crate::wording::secrets;

/// Why an entry was not kept.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HistoryWriteError {
    /// The operating system refused the write; the file was cut back to its last whole line.
    #[error("cannot write {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// An earlier entry was not kept. Nothing follows: a hole would let a checker judge wrongly.
    #[error("{} ends early: {first}", path.display())]
    Broken {
        /// The file.
        path: PathBuf,
        /// What happened first.
        first: String,
    },
}

/// Appends to one history file. Shared between threads by reference; keeps no line in memory.
///
/// # Promises
/// - A line is handed to the operating system before `append_with` returns, so that it survives the death of
///   this process; only [`HistoryWriter::finish`] makes it survive a power cut.
/// - Lines are in order of `t_ns`, because the stamp is taken inside the lock that also orders the lines.
/// - After the first failure nothing is appended any more.
#[derive(Debug)]
pub struct HistoryWriter {
    path: PathBuf,
    inner: Mutex<WriterState>,
}

#[derive(Debug)]
struct WriterState {
    file: File,
    length: u64,
    lines: u64,
    last_ns: u64,
    broken: Option<String>,
}

impl HistoryWriter {
    /// Begins a file; one that is there already is an error of kind `AlreadyExists`.
    pub fn create(path: &Path) -> io::Result<Self> {
        Ok(Self::over(path, OpenOptions::new().append(true).create_new(true).open(path)?))
    }

    fn over(path: &Path, file: File) -> Self {
        Self {
            path: path.to_owned(),
            inner: Mutex::new(WriterState { file, length: 0, lines: 0, last_ns: 0, broken: None }),
        }
    }

    /// Appends what `entry` makes of its stamp, `now_ns` on the run's monotonic clock, and returns the stamp.
    ///
    /// `now_ns` is called inside the lock, must not call the writer, and is raised to the last line's stamp.
    pub fn append_with(
        &self,
        now_ns: impl FnOnce() -> u64,
        entry: impl FnOnce(u64) -> Entry,
    ) -> Result<u64, HistoryWriteError> {
        let mut inner = self.lock();
        if let Some(first) = &inner.broken {
            return Err(HistoryWriteError::Broken { path: self.path.clone(), first: first.clone() });
        }
        let t_ns = now_ns().max(inner.last_ns);
        let entry = entry(t_ns);
        let mut text = Line { t_ns, entry }.to_json();
        if let Cow::Owned(_) = secrets::hide(&text) {
            text = without_passwords(&text);
        }
        text.push('\n');
        // One write call per line: lines of two processes do not mix, and a crash tears one at most.
        if let Err(source) = inner.file.write_all(text.as_bytes()) {
            inner.broken = Some(source.to_string());
            // A partly written line is cut off again if possible; otherwise readers drop the torn last line.
            let _ = inner.file.set_len(inner.length);
            return Err(self.failed(source));
        }
        inner.length += text.len() as u64;
        inner.lines += 1;
        inner.last_ns = t_ns;
        Ok(t_ns)
    }

    /// How many lines were kept so far.
    pub fn lines(&self) -> u64 {
        self.lock().lines
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Syncs the file to the disk. To be called once, at the end; the writer stays usable.
    pub fn finish(&self) -> Result<(), HistoryWriteError> {
        let synced = self.lock().file.sync_all();
        synced.map_err(|source| self.failed(source))
    }

    fn failed(&self, source: io::Error) -> HistoryWriteError {
        let path = self.path.clone();
        HistoryWriteError::Io { path, source }
    }

    /// A panic in a caller's clock leaves the file as it was, so the lock is taken over.
    fn lock(&self) -> MutexGuard<'_, WriterState> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keys of a line that readers parse: their values are never a driver's text.
const FIXED: [&str; 7] = ["op", "end", "event", "phase", "by", "kind", "fault"];

/// A line of which a part, such as a grant's name, is from a driver that repeats its target.
fn without_passwords(line: &str) -> String {
    let Ok(serde_json::Value::Object(mut line)) = serde_json::from_str(line) else {
        return secrets::hide(line).into_owned();
    };
    for (_, value) in line.iter_mut().filter(|(key, _)| !FIXED.contains(&key.as_str())) {
        secrets::hide_in(value);
    }
    serde_json::Value::Object(line).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::Event;

    fn crash(client: String) -> Entry {
        Entry::Event(Event::Crash { client })
    }
    #[test]
    fn after_a_failure_nothing_follows() {
        let full = Path::new("/dev/full");
        let file = OpenOptions::new().append(true).open(full);
        let writer = HistoryWriter::over(full, file.expect("/dev/full"));
        let append = |t_ns| writer.append_with(|| t_ns, |_| crash("c1".to_owned()));
        let (first, second) = (append(1).expect_err("full"), append(2).expect_err("broken"));
        assert!(matches!(first, HistoryWriteError::Io { .. }), "{first:?}");
        assert!(matches!(second, HistoryWriteError::Broken { .. }), "{second:?}");
        assert_eq!(writer.lines(), 0);
    }
}
