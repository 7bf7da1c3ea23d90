//! Checks the source files: a header that is missing, a mark that must not be committed; and advice on
//! length.

use std::path::{Path, PathBuf};

use crate::Findings;

/// Above this a file is probably two; advice, never a failure, since lists and tests may be long.
const LINES_ADVISED: usize = 600;

/// A comment is read best below this width; code is formatted to the same.
const COMMENT_COLUMNS: usize = 110;

pub(crate) fn sources(root: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root).into_iter().flatten().flatten();
    let crates = entries.map(|entry| entry.path());
    let crates = crates.filter(|path| path.join("Cargo.toml").is_file());
    let mut found: Vec<PathBuf> = crates.flat_map(|path| below(&path, "rs")).collect();
    found.sort();
    found
}

/// Every file that is ours below a directory and whose name ends so, sorted.
pub(crate) fn below(dir: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            let (path, name) = (entry.path(), entry.file_name());
            // What was built, run or checked out is not ours.
            let ours = name == ".github" || !name.to_string_lossy().starts_with('.');
            let kept = ["target", "runs", "book", "node_modules"];
            if path.is_dir() && ours && !kept.iter().any(|kept| name == *kept) {
                dirs.push(path);
            } else if path.extension().is_some_and(|extension| extension == ending) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

pub(crate) fn check(root: &Path) -> Findings {
    let mut findings = scenarios(root);
    for path in sources(root) {
        let name = shown(root, &path);
        let Ok(text) = std::fs::read_to_string(&path) else {
            findings.push(format!("{name}: not readable as UTF-8"));
            continue;
        };
        if !text.starts_with("//! ") {
            findings.push(format!("{name}: opens without `//!`: say what it is for"));
        }
        for (number, line) in (1..).zip(text.lines()) {
            if is_wide_comment(line) {
                findings.push(format!("{name}:{number}: a comment of more than {COMMENT_COLUMNS} columns"));
            }
            let found = marks().into_iter().filter(|mark| line.contains(mark));
            findings.extend(found.map(|mark| format!("{name}:{number}: `{mark}`")));
        }
    }
    findings
}

/// A row of a table cannot be broken, and neither can a word.
fn is_wide_comment(line: &str) -> bool {
    let text = line.trim_start();
    let words = text.trim_start_matches(['/', '!', ' ']);
    text.starts_with("//")
        && line.chars().count() > COMMENT_COLUMNS
        && !words.starts_with('|')
        && words.contains(' ')
}

/// Marks that stand for unfinished work; spelt apart so that this file does not find itself.
fn marks() -> [String; 3] {
    [["TO", "DO"].concat(), ["FIX", "ME"].concat(), ["X", "XX"].concat()]
}

/// Each scenario file says what it claims and what it expects.
fn scenarios(root: &Path) -> Findings {
    let mut findings = Findings::new();
    for path in below(&root.join("chaos/scenarios"), "toml") {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        for needed in ["about = ", "claim = ", "[expect]"] {
            if !text.contains(needed) {
                findings.push(format!("{}: without `{needed}`", shown(root, &path)));
            }
        }
    }
    findings
}

/// Files longer than advised.
pub(crate) fn advice(root: &Path) -> Findings {
    sources(root)
        .into_iter()
        .filter_map(|path| {
            let lines = std::fs::read_to_string(&path).ok()?.lines().count();
            (lines > LINES_ADVISED)
                .then(|| format!("{} has {lines} lines; is it two files?", shown(root, &path)))
        })
        .collect()
}

pub(crate) fn shown(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).display().to_string()
}
