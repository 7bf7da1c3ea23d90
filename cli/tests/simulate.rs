//! `locklab simulate` with a scenario file, as a script sees it.
#![cfg(feature = "simulate")]
#![allow(missing_docs)]

mod support;

use std::process::{Output, Stdio};

use nix::sys::signal::Signal;
use serde_json::Value;
use support::{code, run, stderr, stdout};

fn simulate(servers: &str, subject: &str) -> Output {
    simulate_with(servers, subject, "clean", "")
}

fn simulate_with(servers: &str, subject: &str, contract: &str, faults: &str) -> Output {
    let dir = tempfile::tempdir().unwrap();
    let text = format!(
        "name = \"mine\"\n[topology]\nkind = \"{servers}\"\n[lock]\nsubject = \"{subject}\"\nlease = \"500ms\"\n[load]\nduration = \"3s\"\n\
         {faults}\n[expect]\ncontract = \"{contract}\"\n"
    );
    std::fs::write(dir.path().join("mine.toml"), text).unwrap();
    run(dir.path(), &["simulate", "mine.toml", "--seeds", "5", "--json"])
}

#[test]
fn a_scenario_of_ones_own_runs_on_each_seed() {
    let output = simulate("sentinel", "lock-core:fair");
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let said: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(said["seeds"], 5);
    assert!(said["grants"].as_u64().unwrap() > 50, "{said}");
    let output = simulate("single", "broken:steal");
    assert_eq!(code(&output), 1, "{}", stderr(&output));
}

#[test]
fn an_interrupted_swarm_says_what_it_has_found() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    for end in [Signal::SIGINT, Signal::SIGTERM] {
        let child = support::locklab(dir.path())
            .args(["simulate", "--seeds", "1000000000", "--json"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("locklab");
        support::until_it_holds_back(&child, end);
        support::signal(&child, end);
        let output = child.wait_with_output().expect("a child");
        assert_eq!(code(&output), 130, "{end}: {}", stderr(&output));
        let json: Value = serde_json::from_str(&stdout(&output)).expect("one document");
        assert!(json["seeds"].as_u64().is_some_and(|seeds| seeds < 1_000_000_000), "{json}");
    }
}

#[test]
fn seeds_beyond_the_last_one_are_refused() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let output = run(dir.path(), &["simulate", "--seed", "18446744073709551615"]);
    assert_eq!(code(&output), 64, "{}", stderr(&output));
}

#[test]
fn what_cannot_be_simulated_is_refused_with_its_place() {
    for (wanted, servers, subject, why) in [
        (65, "etcd", "lock-core:fair", "mine.toml"),
        (64, "single", "exec:./driver", "mine.toml: exec:./driver is a program"),
        (65, "singel", "lock-core:fair", "mine.toml:3"),
    ] {
        let output = simulate(servers, subject);
        assert_eq!(code(&output), wanted, "{}", stderr(&output));
        assert!(stderr(&output).contains(why), "{}", stderr(&output));
    }
}

#[test]
fn a_file_that_cannot_be_read_is_bad_input_and_a_place_that_cannot_be_written_is_bad_usage() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("empty.toml"), "").unwrap();
    std::fs::write(dir.path().join("notutf8.toml"), [0xff, 0xfe]).unwrap();
    for (wanted, flags) in [
        (65, &["no-such.toml"][..]),
        (65, &["empty.toml"]),
        (65, &["notutf8.toml"]),
        (65, &["."]),
        (64, &["--history", "no-such/history.jsonl"]),
        (64, &["--seeds", "0"]),
    ] {
        let output = run(dir.path(), &[&["simulate"][..], flags].concat());
        assert_eq!(code(&output), wanted, "{flags:?}: {}", stderr(&output));
    }
}

#[test]
fn what_would_do_nothing_is_refused() {
    let faults = "[[faults]]\nat = \"1s\"\nfor = \"1s\"\nfault = \"stress\"\non = \"master\"\n";
    let output = simulate_with("single", "lock-core:fair", "clean", faults);
    assert_eq!(code(&output), 64, "{}", stderr(&output));
    let why = "the fault `stress` is not simulated; these are: client-kill";
    assert!(stderr(&output).contains(why), "{}", stderr(&output));
    let output = simulate_with("single", "lock-core:fair", "clean", "rate = \"100/s\"\n");
    assert_eq!(code(&output), 64, "{}", stderr(&output));
    assert!(stderr(&output).contains("open loop"));
}

#[test]
fn what_should_be_violated_must_be_so_in_a_seed() {
    let output = simulate_with("single", "broken:steal", "violated", "");
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let output = simulate_with("single", "lock-core:fair", "violated", "");
    assert_eq!(code(&output), 1, "{}", stderr(&output));
    let said: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(said["missed"]["contract"], 5);
    assert_eq!(said["convicted"].as_array().unwrap().len(), 0);
}
