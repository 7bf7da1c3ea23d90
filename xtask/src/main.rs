//! The rules that no compiler checks: `cargo run -p xtask -- tidy` fails where one is broken.

mod dead;
mod deps;
mod edges;
mod files;
mod links;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What a rule found wrong, in one line each; empty is good.
type Findings = Vec<String>;

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("tidy") => tidy(),
        _ => {
            report("usage: cargo run -p xtask -- tidy");
            ExitCode::from(64)
        }
    }
}

fn tidy() -> ExitCode {
    let root = workspace_root();
    let metadata = match deps::metadata(&root) {
        Ok(metadata) => metadata,
        Err(error) => {
            report(&format!("tidy: {error:#}"));
            return ExitCode::from(70);
        }
    };
    let mut findings = Findings::new();
    findings.extend(edges::check(&metadata));
    findings.extend(deps::check(&metadata));
    findings.extend(files::check(&root));
    findings.extend(dead::check(&root));
    findings.extend(links::check(&root));
    for advice in files::advice(&root) {
        report(&format!("advice: {advice}"));
    }
    for finding in &findings {
        report(&format!("tidy: {finding}"));
    }
    if findings.is_empty() {
        report("tidy: crate edges, licences, headers, dead files and links are in order");
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn workspace_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap_or_else(|| Path::new("."))
        .to_path_buf()
}

/// The only place of this program that prints.
#[allow(clippy::print_stderr)]
fn report(line: &str) {
    eprintln!("{line}");
}
