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
    let (name, arguments) = arguments.split_first().map_or(("", &[][..]), |(name, rest)| (&**name, rest));
    let done = match name {
        "tidy" if arguments.is_empty() => tidy(),
        "test" => suite::run(arguments),
        "notices" => notices(arguments).map(|()| true),
        _ => {
            report(
                "usage: cargo run -p xtask -- tidy | test [ARGUMENTS OF cargo test] | notices [ARGUMENTS OF cargo metadata]",
            );
            return ExitCode::from(64);
        }
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            report(&format!("{name}: {error:#}"));
            ExitCode::from(70)
        }
    }
}

/// Checks all rules. Whether nothing was found.
fn tidy() -> anyhow::Result<bool> {
    let root = workspace_root();
    let metadata = deps::metadata(&root, &[])?;
    for advice in files::advice(&root) {
        report(&format!("advice: {advice}"));
    }
    let findings: [Findings; 6] = [
        edges::check(&metadata),
        deps::check(&metadata),
        files::check(&root),
        dead::check(&root),
        links::check(&root),
        structure::check(&root),
    ];
    let findings = findings.concat();
    for finding in &findings {
        report(&format!("tidy: {finding}"));
    }
    if findings.is_empty() {
        report("tidy: crate edges, licences, headers, dead files, links, names and circles are in order");
    }
    Ok(findings.is_empty())
}

/// Prints the notices of `cli` in the tree that these arguments (`--features`, `--filter-platform`) give.
fn notices(arguments: &[String]) -> anyhow::Result<()> {
    let page = notices::page(&deps::metadata(&workspace_root(), arguments)?, "cli")?;
    Ok(std::io::stdout().write_all(page.as_bytes())?)
}

fn workspace_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or_else(|| Path::new(".")).to_path_buf()
}

/// The only place of this program that prints.
#[allow(clippy::print_stderr)]
fn report(line: &str) {
    eprintln!("{line}");
}
