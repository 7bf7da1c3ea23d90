//! `locklab simulate` with a scenario file, as a script sees it.
#![cfg(feature = "simulate")]
#![allow(missing_docs)]

mod support;

use std::process::Output;

use support::{code, run, stderr, stdout};

fn simulate(servers: &str, subject: &str) -> Output {
    let dir = tempfile::tempdir().unwrap();
    let text = format!(
        "name = \"mine\"\n[topology]\nkind = \"{servers}\"\n[lock]\nsubject = \"{subject}\"\nlease = \"500ms\"\n[load]\nduration = \"3s\"\n\
         [expect]\ncontract = \"clean\"\n"
    );
    std::fs::write(dir.path().join("mine.toml"), text).unwrap();
    run(
        dir.path(),
        &["simulate", "mine.toml", "--seeds", "5", "--json"],
    )
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
fn what_cannot_be_simulated_is_refused_with_its_place() {
    for (servers, subject, why) in [
        ("etcd", "lock-core:fair", "mine.toml"),
        (
            "single",
            "exec:./driver",
            "mine.toml: exec:./driver is a program",
        ),
        ("singel", "lock-core:fair", "mine.toml:3"),
    ] {
        let output = simulate(servers, subject);
        assert_eq!(code(&output), 64, "{}", stderr(&output));
        assert!(stderr(&output).contains(why), "{}", stderr(&output));
    }
}
