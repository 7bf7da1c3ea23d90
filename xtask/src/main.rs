//! What the build needs beside cargo: `cargo run -p xtask -- tidy` checks the rules that no compiler checks,
//! `-- test` runs the tests, `-- notices` prints the licences of what an archive of the program contains.
//!
//! | file | what it is for |
//! |---|---|
//! | `files.rs`, `dead.rs` | source files: headers, marks; files that no other names |
//! | `structure.rs` | names, circles of imports, commands |
//! | `edges.rs`, `deps.rs` | dependencies between crates, and on others |
//! | `links.rs` | links between Markdown files |
//! | `suite.rs` | runs the tests |
//! | `notices.rs` | prints licences |

mod dead;
mod deps;
mod edges;
mod files;
mod links;
mod notices;
mod structure;
mod suite;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What a rule found wrong, in one line each; empty is good.
type Findings = Vec<String>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.split_first().map(|(name, rest)| (&**name, rest)) {
        Some(("tidy", [])) => tidy(),
        Some(("test", arguments)) => match suite::run(arguments) {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::FAILURE,
            Err(error) => {
                report(&format!("test: {error:#}"));
                ExitCode::from(70)
            }
        },
        Some(("notices", arguments)) => notices(arguments),
        _ => {
            report(
                "usage: cargo run -p xtask -- tidy | test [ARGUMENTS OF cargo test] | notices [ARGUMENTS OF cargo metadata]",
            );
            ExitCode::from(64)
        }
    }
}

fn tidy() -> ExitCode {
    let root = workspace_root();
    let metadata = match deps::metadata(&root, &[]) {
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
    findings.extend(structure::check(&root));
    for advice in files::advice(&root) {
        report(&format!("advice: {advice}"));
    }
    for finding in &findings {
        report(&format!("tidy: {finding}"));
    }
    if findings.is_empty() {
        report("tidy: crate edges, licences, headers, dead files, links, names and circles are in order");
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Prints the notices of `cli` in the tree that these arguments (`--features`, `--filter-platform`) give.
fn notices(arguments: &[String]) -> ExitCode {
    let page = deps::metadata(&workspace_root(), arguments)
        .and_then(|metadata| notices::page(&metadata, "cli"))
        .and_then(|page| Ok(std::io::stdout().write_all(page.as_bytes())?));
    match page {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report(&format!("notices: {error:#}"));
            ExitCode::from(70)
        }
    }
}

fn workspace_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or_else(|| Path::new(".")).to_path_buf()
}

/// The only place of this program that prints.
#[allow(clippy::print_stderr)]
fn report(line: &str) {
    eprintln!("{line}");
}
