//! Turns a history that somebody else is writing into the lines that were added since the last look.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader};
use std::path::{Path, PathBuf};

use results::history::Line;

/// A history file, read as it grows.
pub(super) struct Follow {
    path: PathBuf,
    file: Option<BufReader<File>>,
    /// The beginning of a line whose end is not written yet.
    begun: Vec<u8>,
}

impl Follow {
    /// The file need not be there yet.
    pub(super) fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            file: None,
            begun: Vec::new(),
        }
    }

    /// Whole lines that were added; what is no history line is left out. Once opened, the file is read on although it be renamed.
    pub(super) fn lines(&mut self) -> io::Result<Vec<Line>> {
        if self.file.is_none() {
            match File::open(&self.path) {
                Ok(file) => self.file = Some(BufReader::new(file)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
                Err(error) => return Err(error),
            }
        }
        let mut lines = Vec::new();
        if let Some(file) = &mut self.file {
            while file.read_until(b'\n', &mut self.begun)? > 0 {
                let Some(text) = self.begun.strip_suffix(b"\n") else {
                    break;
                };
                if let Ok(text) = std::str::from_utf8(text) {
                    lines.extend(Line::parse(text));
                }
                self.begun.clear();
            }
        }
        Ok(lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn a_line_is_given_once_and_only_when_it_is_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("history.jsonl");
        let mut follow = Follow::new(&path);
        assert!(follow.lines().unwrap().is_empty());
        let mut file = File::create(&path).unwrap();
        write!(file, "{{\"t_ns\":7,\"event\":\"crash\",\"client\":").unwrap();
        assert!(follow.lines().unwrap().is_empty());
        writeln!(file, "\"c1\"}}\nnot a line").unwrap();
        let lines = follow.lines().unwrap();
        assert_eq!(lines.len(), 1);
        assert_eq!(lines[0].t_ns, 7);
        assert!(follow.lines().unwrap().is_empty());
    }
}
