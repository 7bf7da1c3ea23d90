//! What is done with a plan once more: `replay` runs it again, `replay --shrink` looks for the smallest that
//! convicts, `soak` draws one for each seed.
#![allow(missing_docs)]

mod support;

use std::path::Path;

use serde_json::Value;
use support::{code, run, stderr, stdout};

/// A lock without an owner check, and a fault that it does not need to be convicted.
const BROKEN: &str = "name = \"broken\"\n[topology]\nkind = \"single\"\n\
    [lock]\nsubject = \"broken:release-without-owner-check\"\nlease = \"100ms\"\nwait = \"400ms\"\n\
    [load]\nclients = 3\nhold = \"20ms..150ms\"\nduration = \"2s\"\n\
    [[faults]]\nat = \"300ms\"\nfor = \"200ms\"\nfault = \"delay\"\non = \"client 1 -> master\"\nwith = { latency = \"1ms\" }\n\
    [expect]\ncontract = \"violated\"\n";

/// Runs `locklab` with `--json`: its exit code, what it said, and its document.
fn said(dir: &Path, args: &[&str]) -> (i32, String, Value) {
    let output = run(dir, &[args, &["--json"]].concat());
    let document = serde_json::from_str(&stdout(&output)).unwrap_or_default();
    (code(&output), stderr(&output), document)
}

#[test]
fn a_run_is_replayed_and_shrunk() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    std::fs::write(dir.join("broken.toml"), BROKEN).unwrap();
    let (ended, why, _) = said(dir, &["chaos", "broken.toml", "--seed", "3"]);
    assert_eq!(ended, 0, "{why}");

    let listed = stdout(&run(dir, &["list", "runs"]));
    let last: Vec<&str> = listed.lines().last().unwrap().split_whitespace().collect();
    assert!(last[0].ends_with("chaos-broken"), "{listed}");
    assert_eq!(last[2..], ["chaos", "0", "1", "as", "expected"], "{listed}");

    let (ended, why, small) = said(dir, &["replay", "latest", "--shrink", "--tries", "2"]);
    assert_eq!(ended, 0, "{why}");
    assert_eq!(small["verdict"], "contract");
    assert_eq!(small["before"]["faults"], 1);
    assert_eq!(small["after"]["faults"], 0, "it convicts without: {why}");
    let smallest = small["scenario"].as_str().unwrap();
    assert!(smallest.contains("runs/"), "not beside the user's files: {smallest}");
    let (ended, why, _) = said(dir, &["chaos", smallest, "--seed", "3"]);
    assert_eq!(ended, 0, "what was written convicts, too: {why}");

    let plan = small["plan"].as_str().unwrap();
    for (of, faults) in [("latest", 0), (plan, 0)] {
        let (ended, why, again) = said(dir, &["replay", of, "--repeat", "2", "--jobs", "2"]);
        assert_eq!(ended, 0, "{why}");
        let scenarios = again["scenarios"].as_array().unwrap();
        assert_eq!(scenarios.len(), 2);
        for scenario in scenarios {
            assert_eq!(scenario["seed"], 3);
            assert_eq!(scenario["faults"].as_array().unwrap().len(), faults);
            assert_eq!(scenario["verdicts"]["contract"]["state"], "violated");
        }
    }
    let (ended, why, _) = said(dir, &["replay", "latest", "--seed", "4"]);
    assert_eq!(ended, 64, "{why}");
    let (ended, why, _) = said(dir, &["replay", "latest", "--shrink", "--verdict", "liveness"]);
    assert_eq!(ended, 65, "{why}");
    assert!(why.contains("nothing to shrink"), "{why}");
}

#[test]
fn a_soak_remembers_what_is_done() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let soak = |seeds: &str| said(dir, &["soak", "--seed", "5", "--seeds", seeds, "--jobs", "2"]);
    let (ended, why, first) = soak("2");
    assert_eq!(ended, 0, "{why}");
    assert_eq!(first["done"], 2);
    assert_eq!(first["findings"], serde_json::json!([]));
    let state = std::fs::read_to_string(dir.join("runs/soak.jsonl")).unwrap();
    assert_eq!(state.lines().count(), 2, "{state}");
    assert!(!dir.join("runs/soak").exists(), "clean runs are not kept");

    let (ended, why, again) = soak("2");
    assert_eq!(ended, 0, "{why}");
    assert_eq!(again["done"], 2);
    let unchanged = std::fs::read_to_string(dir.join("runs/soak.jsonl")).unwrap();
    assert_eq!(unchanged, state, "no seed ran twice");
}
