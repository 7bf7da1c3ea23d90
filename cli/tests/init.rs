//! `init` writes what keeps a lock judged, and `audit`, `chaos` and `gate` go by it.
#![allow(missing_docs)]

mod support;

use std::fs;
use std::path::Path;

use support::{code, run, stderr, stdout};

fn says(dir: &Path, args: &[&str], exit: i32, words: &str) {
    let output = run(dir, args);
    let said = format!("{}{}", stdout(&output), stderr(&output));
    assert_eq!(code(&output), exit, "{args:?}: {said}");
    assert!(said.contains(words), "{args:?}: {said}");
}

#[test]
fn what_init_writes_is_what_chaos_gate_and_audit_go_by() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    says(dir, &["init", "lock-core:plain"], 0, "locks.budget");
    let workflow = fs::read_to_string(dir.join(".github/workflows/locks.yml")).unwrap();
    assert!(workflow.contains("subject: \"lock-core:plain\""), "{workflow}");
    says(dir, &["--seed", "7", "chaos"], 0, "locks");
    says(dir, &["gate"], 0, "contract == clean");
    // What is there is not written over.
    says(dir, &["init", "lock-core:fair"], 64, "locklab.toml is there already");
    says(dir, &["init", "lock-core:fair", "--force"], 0, "wrote");
    let kept = fs::read_to_string(dir.join("locklab.toml")).unwrap();
    assert!(kept.contains("lock-core:fair"), "{kept}");
    let scenario = "crash-single-aof";
    let audit = ["--seed", "7", "audit", "--scenario", scenario, "--no-bench"];
    says(dir, &audit, 0, "lock-core:fair");
}

#[test]
fn each_topology_gives_a_scenario_that_can_be_planned() {
    for topology in ["single", "sentinel", "cluster", "masters"] {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let subject = match topology {
            "masters" => "lock-core:redlock",
            _ => "lock-core:plain",
        };
        let init = ["init", subject, "--topology", topology, "--ci", "gitlab"];
        says(dir, &init, 0, "locks.gitlab-ci.yml");
        says(dir, &["chaos", "--dry-run"], 0, subject);
    }
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    says(dir, &["init"], 64, "which lock?");
    says(dir, &["init", "lock-core:pain"], 64, "lock-core:plain");
    let secret = ["init", "lock-core:plain", "--target", "redis://:geheim@127.0.0.1:1"];
    says(dir, &secret, 64, "--target @FILE");
    says(dir, &["audit"], 64, "`locklab init` writes one");
    says(dir, &["chaos"], 64, "`locklab init` writes one");
    assert_eq!(fs::read_dir(dir).unwrap().count(), 0);
    fs::write(dir.join("locklab.toml"), "subject = 3\nsuit = \"quick\"\n").unwrap();
    says(dir, &["audit"], 65, "locklab.toml:2:1: unknown key `suit`");
}
