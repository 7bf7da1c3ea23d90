//! Packs a run into lines of a pod's log, and back: every API hands out logs, few hand out volumes.
//!
//! A log is kept to some ten megabytes, so the largest histories may have to stay in the volume; the last
//! line says which.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use results::store::{REPORT_FILE, RUN_FILE, SUMMARY_FILE};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use serde::{Deserialize, Serialize};

/// What tells our lines from all others in a log.
const MARK: &str = "locklab-pack ";
/// Bytes of a log that are used: kubelets keep ten megabytes by default.
const LOG_BYTES_MAX: usize = 8 << 20;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Line {
    /// A file by its path in the run's directory, as zstd in base64.
    File(String, String),
    /// The last line: how many files there were, and those that there was no room for.
    End { files: usize, left: Vec<String> },
}

/// Writes the lines of a run: first the files that a report needs, then the others from the smallest on.
pub fn pack(dir: &Path, mut say: impl FnMut(&str)) -> io::Result<()> {
    let mut files = Vec::new();
    below(dir, dir, &mut files)?;
    let first = |path: &str| {
        [RUN_FILE, SUMMARY_FILE, REPORT_FILE].iter().position(|name| *name == path).unwrap_or(usize::MAX)
    };
    files.sort_by_key(|(path, bytes)| (first(path), *bytes));
    let (mut used, mut packed, mut left) = (0, 0, Vec::new());
    let mut line =
        |line: &Line| say(&format!("{MARK}{}", serde_json::to_string(line).expect("a line is plain JSON")));
    for (path, _) in files {
        let bytes = fs::read(dir.join(&path))?;
        let text = STANDARD.encode(compress_to_vec(bytes.as_slice(), CompressionLevel::Fastest));
        if path != RUN_FILE && used + text.len() > LOG_BYTES_MAX {
            left.push(path);
            continue;
        }
        used += text.len();
        packed += 1;
        line(&Line::File(path, text));
    }
    line(&Line::End { files: packed, left });
    Ok(())
}

/// Every file below a directory, by its path there, with its size.
fn below(root: &Path, dir: &Path, found: &mut Vec<(String, u64)>) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            below(root, &path, found)?;
        } else if let Ok(path) = path.strip_prefix(root) {
            found.push((path.to_string_lossy().into_owned(), entry.metadata()?.len()));
        }
    }
    Ok(())
}

/// Unpacks a log into a directory. Gives the files that had to stay in the volume; the error is the log's.
pub fn unpack(log: &str, dir: &Path) -> Result<Vec<String>, String> {
    let mut written = 0;
    for line in log.lines().filter_map(|line| line.strip_prefix(MARK)) {
        match serde_json::from_str(line).map_err(|error| format!("a damaged line: {error}"))? {
            Line::File(path, text) => {
                let to = inside(dir, &path)?;
                let write = || {
                    let packed = STANDARD.decode(&text).map_err(io::Error::other)?;
                    let text = ruzstd::decoding::StreamingDecoder::new(packed.as_slice());
                    let bytes = results::limits::read_all(text.map_err(io::Error::other)?)?;
                    fs::create_dir_all(to.parent().unwrap_or(dir))?;
                    fs::write(&to, bytes)
                };
                write().map_err(|error| format!("{path}: {error}"))?;
                written += 1;
            }
            Line::End { files, left } if files == written => return Ok(left),
            Line::End { files, .. } => return Err(format!("{written} of {files} files came")),
        }
    }
    Err(format!("the log ends after {written} files"))
}

/// A path that a pod gives, if it stays in the directory.
fn inside(dir: &Path, path: &str) -> Result<PathBuf, String> {
    let stays = Path::new(path).components().all(|part| matches!(part, Component::Normal(_)));
    if stays && !path.is_empty() { Ok(dir.join(path)) } else { Err(format!("`{path}` leads out of the run")) }
}
