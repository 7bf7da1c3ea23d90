//! What a driver does not have is not applicable to it: neither an error of the run nor unknown, and the
//! scenarios beside it go on.

mod support;

use std::path::{Path, PathBuf};

use serde_json::Value;
use support::{code, run, stderr, stdout};

/// A short scenario without faults; the kinds of its cycles stand in `[load] mix`.
fn scenario(dir: &Path, name: &str, topology: &str, kind: &str) {
    let lock = format!("subject = \"lock-core:{kind}\"\nkind = \"{kind}\"\n");
    asking(dir, name, topology, &lock);
}

/// A short scenario without faults, with these lines about its lock.
fn asking(dir: &Path, name: &str, topology: &str, lock: &str) {
    let text = format!(
        "name = \"{name}\"\n[topology]\nkind = \"{topology}\"\n[lock]\n{lock}[load]\nclients = 2\nduration = \"500ms\"\n"
    );
    std::fs::write(dir.join(format!("{name}.toml")), text).expect("the folder can be written");
}

/// A lock that works on a single server only, and has the kind `plain` only.
fn chaos(dir: &Path, names: &[&str]) -> (i32, Value, String) {
    chaos_with(dir, "cli/tests/drivers/driver.py single-only", names)
}

/// Runs these scenarios with the driver at this path in the repository.
fn chaos_with(dir: &Path, driver: &str, names: &[&str]) -> (i32, Value, String) {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
    let subject = format!("exec:python3 {}/{driver}", root.display());
    with_subject(dir, &subject, names)
}

fn with_subject(dir: &Path, subject: &str, names: &[&str]) -> (i32, Value, String) {
    let files: Vec<String> = names.iter().map(|name| format!("{name}.toml")).collect();
    let mut args = vec!["--json", "chaos", "--subject", subject, "--junit", "j.xml"];
    args.extend(files.iter().map(String::as_str));
    let output = run(dir, &args);
    let said = format!("{}{}", stdout(&output), stderr(&output));
    let json = serde_json::from_str(&stdout(&output)).unwrap_or_default();
    (code(&output), json, said)
}

#[test]
fn a_scenario_that_a_driver_has_nothing_for_is_listed_and_the_others_go_on() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    scenario(dir.path(), "here", "single", "plain");
    scenario(dir.path(), "elsewhere", "cluster", "plain");
    scenario(dir.path(), "another-kind", "single", "fenced");
    let (code, run, said) = chaos(dir.path(), &["elsewhere", "here", "another-kind"]);
    assert_eq!(code, 0, "{said}");
    let names = |list: &str| -> Vec<String> {
        let all = run[list].as_array().cloned().unwrap_or_default();
        let mut names: Vec<String> =
            all.iter().map(|one| one["name"].as_str().unwrap_or_default().to_owned()).collect();
        names.sort();
        names
    };
    assert_eq!(names("scenarios"), ["here"], "{said}");
    assert_eq!(names("not_applicable"), ["another-kind", "elsewhere"], "{said}");
    for why in ["does not work on `cluster`", "has no kind `fenced`"] {
        assert!(said.contains(why), "{said}");
    }
    let junit = std::fs::read_to_string(dir.path().join("j.xml")).expect("a JUnit file");
    assert_eq!(junit.matches("<skipped").count(), 2, "{junit}");
}

#[test]
fn a_run_that_tried_nothing_does_not_pass() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    scenario(dir.path(), "elsewhere", "cluster", "plain");
    let (code, run, said) = chaos(dir.path(), &["elsewhere"]);
    assert_eq!(code, 65, "{said}");
    assert!(said.contains("nothing was tried"), "{said}");
    assert_eq!(run["not_applicable"][0]["name"], "elsewhere", "{said}");
    assert_eq!((&run["run"], &run["as_expected"]), (&"".into(), &false.into()), "{said}");
    let junit = std::fs::read_to_string(dir.path().join("j.xml")).expect("a JUnit file");
    assert_eq!(junit.matches("<skipped").count(), 1, "{junit}");
}

#[test]
fn what_a_lock_cannot_be_asked_for_is_said_by_its_hello_its_kinds_or_itself() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    asking(dir.path(), "here", "single", "");
    asking(dir.path(), "renewed", "single", "lease = \"renewed\"\n");
    asking(dir.path(), "durable", "sentinel", "durability = \"wait:1\"\n");
    asking(dir.path(), "durable-here", "single", "durability = \"wait:1\"\n");
    asking(dir.path(), "fair", "single", "subject = \"lock-core:fair\"\n");
    let names = ["here", "renewed", "durable-here", "fair"];
    let (code, run, said) = chaos_with(dir.path(), "examples/driver.py", &names);
    assert_eq!(code, 0, "{said}");
    assert_eq!(run["scenarios"][0]["name"], "here", "{said}");
    for why in
        ["its hello has no `watchdog_ms`", "does not list the feature `durability`", "has no kind `fair`"]
    {
        assert!(said.contains(why), "{said}");
    }
    let names = ["here", "durable", "fair"];
    let (code, run, said) = with_subject(dir.path(), "baseline:set-nx-px", &names);
    assert_eq!(code, 0, "{said}");
    assert_eq!(run["scenarios"][0]["name"], "here", "{said}");
    for why in ["for replicas, as durability wait:1 asks", "has no kind `fair`"] {
        assert!(said.contains(why), "{said}");
    }
}
