//! `new-driver` writes a driver that conforms as it is, in each language that this machine has.
#![allow(missing_docs)]

mod support;

use std::{path::Path, process::Command};

use serde_json::Value;
use support::{code, locklab, run, skipped, stderr, stdout};

/// The languages, and what says whether the machine has them.
const LANGUAGES: &[(&str, &[&str])] = &[
    ("python", &["python3", "--version"]),
    ("node", &["node", "--version"]),
    ("go", &["go", "version"]),
    ("java", &["javac", "-version"]),
    ("rust", &[]),
];

fn has(program: &[&str]) -> bool {
    let output = Command::new(program[0]).args(&program[1..]).output();
    output.is_ok_and(|output| output.status.success())
}

fn json(dir: &Path, args: &[&str]) -> Value {
    let output = run(dir, &[&["--json"], args].concat());
    serde_json::from_str(&stdout(&output))
        .unwrap_or_else(|error| panic!("{error}: {}{}", stdout(&output), stderr(&output)))
}

fn conforms(dir: &Path, language: &str) {
    let written = json(dir, &["new-driver", language, "my-lock"]);
    let own = dir.join("my-lock");
    for file in written["files"].as_array().expect("files") {
        let path = own.join(file.as_str().expect("a path"));
        assert!(path.is_file(), "{}", path.display());
    }
    let text = |field: &str| written[field].as_str().expect("text").to_owned();
    let readme = std::fs::read_to_string(own.join("README.md")).expect("a README");
    let conform = format!("conform '{}'", text("run"));
    for needed in [&conform, &text("build"), "`hello.target`", "`options.watchdog_ms`"] {
        assert!(readme.contains(needed), "{readme}");
    }
    let build = Command::new("sh").args(["-c", &text("build")]).current_dir(&own).output().expect("sh runs");
    assert!(build.status.success(), "{}", stderr(&build));
    let report = json(&own, &["conform", &text("run")]);
    assert_eq!(report["conforms"], true, "{language}: {report:#}");
    let steps = report["steps"].as_array().expect("steps");
    for step in steps {
        // All that the template has; it does not renew, so that it has nothing to lose, and knows no owners.
        // Its kind has no tokens and takes one name.
        let has = match step["name"].as_str() {
            Some(
                "renewal" | "loss" | "owner moves" | "tokens" | "several names" | "reading in writing"
                | "readers" | "master away" | "late entry" | "renewed in turn",
            ) => false,
            // What these two run on is nobody's to block.
            Some("block") => !["go", "java"].contains(&language),
            // A thread that sleeps is ended by nothing.
            Some("cancel") => ["node", "go", "java"].contains(&language),
            _ => true,
        };
        let expected = if has { "kept" } else { "skipped" };
        assert_eq!(step["outcome"], expected, "{language}: {step:#}");
    }
    let hello = steps[0]["found"].as_str().expect("text");
    assert!(hello.starts_with("my-lock 1.0"), "{hello}");
}

#[test]
fn a_new_driver_conforms_as_it_is_written() {
    std::thread::scope(|scope| {
        for (language, program) in LANGUAGES {
            if program.is_empty() {
                skipped(
                    "rust, whose build would take minutes: bench/tests/rust_template.rs tries it within the workspace's",
                );
                continue;
            }
            if !has(program) {
                skipped(&format!("there is no {}", program[0]));
                continue;
            }
            scope.spawn(|| {
                let dir = tempfile::tempdir().expect("a temporary directory");
                conforms(dir.path(), language);
            });
        }
    });
}

#[test]
fn every_language_is_tried() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let help = stdout(&run(dir.path(), &["new-driver", "--help"]));
    let names: Vec<&str> = LANGUAGES.iter().map(|(name, _)| *name).collect();
    let listed = format!("Languages: {}", names.join(", "));
    assert!(help.contains(&listed), "{help}");
}

#[test]
fn nothing_is_overwritten_and_wrong_words_are_wrong_usage() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    std::fs::create_dir(dir.path().join("taken")).expect("a directory");
    for (args, said) in [
        (["pyhton", "mine"], "did you mean `python`?"),
        (["cobol", "mine"], "for python, node, go, java, rust"),
        (["python", "taken"], "taken is there already"),
        (["python", "../mine"], "no name for a driver"),
        (["python", "9lives"], "no name for a driver"),
        (["python", ""], "no name for a driver"),
    ] {
        let output = locklab(dir.path()).arg("new-driver").args(args).output().expect("locklab runs");
        assert_eq!(code(&output), 64, "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(said), "{}", stderr(&output));
    }
    let left = std::fs::read_dir(dir.path()).expect("a directory").count();
    assert_eq!(left, 1, "something was written");
}
