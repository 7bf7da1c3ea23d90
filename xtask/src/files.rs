//! Checks the source files: a header that is missing, a mark that must not be committed; and advice on length.

use std::path::{Path, PathBuf};

use crate::Findings;

/// Above this a file is probably two; advice, never a failure, since lists and tests may be long.
const LINES_ADVISED: usize = 600;

/// Every source file below our crates, sorted.
pub(crate) fn sources(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(root).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.join("Cargo.toml").is_file() {
            walk(&path, &mut found);
        }
    }
    found.sort();
    found
}

fn walk(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            if path.file_name().is_some_and(|name| name != "target") {
                walk(&path, found);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Headers and marks.
pub(crate) fn check(root: &Path) -> Findings {
    let mut findings = Findings::new();
    for path in sources(root) {
        let Ok(text) = std::fs::read_to_string(&path) else {
            findings.push(format!("{}: not readable as UTF-8", shown(root, &path)));
            continue;
        };
        if !text.starts_with("//! ") {
            findings.push(format!(
                "{}: opens without `//!`: say what it is for",
                shown(root, &path)
            ));
        }
        for (number, line) in text.lines().enumerate() {
            for mark in marks() {
                if line.contains(&mark) {
                    findings.push(format!("{}:{}: `{mark}`", shown(root, &path), number + 1));
                }
            }
        }
    }
    findings.extend(scenarios(root));
    findings
}

/// Marks that stand for unfinished work; spelt apart so that this file does not find itself.
fn marks() -> [String; 3] {
    [
        ["TO", "DO"].concat(),
        ["FIX", "ME"].concat(),
        ["X", "XX"].concat(),
    ]
}

/// Each scenario file says what it claims and what it expects.
fn scenarios(root: &Path) -> Findings {
    let mut findings = Findings::new();
    for dir in ["chaos/scenarios", "chaos/scenarios/controls"] {
        for entry in std::fs::read_dir(root.join(dir))
            .into_iter()
            .flatten()
            .flatten()
        {
            let path = entry.path();
            if path.extension().is_none_or(|extension| extension != "toml") {
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            for needed in ["about = ", "claim = ", "[expect]"] {
                if !text.contains(needed) {
                    findings.push(format!("{}: without `{needed}`", shown(root, &path)));
                }
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

/// A path as people write it.
pub(crate) fn shown(root: &Path, path: &Path) -> String {
    path.strip_prefix(root)
        .unwrap_or(path)
        .display()
        .to_string()
}
