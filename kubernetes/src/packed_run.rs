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

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(dir: &Path) -> String {
        let mut log = String::from("merged: /results/merged\n");
        pack(dir, |line| {
            log.push_str(line);
            log.push('\n');
        })
        .expect("a directory");
        log
    }

    #[test]
    fn a_run_comes_back_as_it_was_and_a_torn_log_is_told() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::create_dir(from.path().join("00")).unwrap();
        fs::write(from.path().join("run.json"), "{}").unwrap();
        fs::write(from.path().join("00/history.jsonl"), "line\n".repeat(1000)).unwrap();
        let log = packed(from.path());
        assert_eq!(unpack(&log, to.path()), Ok(Vec::new()));
        assert_eq!(fs::read_to_string(to.path().join("00/history.jsonl")).unwrap(), "line\n".repeat(1000));
        let lines: Vec<&str> = log.lines().collect();
        assert!(unpack(&lines[..2].join("\n"), to.path()).is_err_and(|why| why.contains("after 1 files")));
        let without_one = [lines[1], lines[3]].join("\n");
        assert!(unpack(&without_one, to.path()).is_err_and(|why| why.contains("1 of 2 files")));
    }

    #[test]
    fn a_path_that_leads_out_of_the_run_is_refused() {
        for path in ["../x", "/etc/x", "a/../../x", ""] {
            assert!(inside(Path::new("run"), path).is_err(), "{path}");
        }
    }

    #[test]
    fn what_no_log_holds_stays_and_is_named() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(from.path().join("run.json"), "{}").unwrap();
        let mut noise = 1_u32;
        let noise: Vec<u8> = std::iter::repeat_with(|| {
            noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (noise >> 24) as u8
        })
        .take(LOG_BYTES_MAX)
        .collect();
        fs::write(from.path().join("history.jsonl.zst"), noise).unwrap();
        assert_eq!(unpack(&packed(from.path()), to.path()), Ok(vec!["history.jsonl.zst".to_owned()]));
    }
}
