//! Runs from elsewhere: no file beside the run is read or written for them, and no program that they name
//! runs unasked.
#![allow(missing_docs)]

mod support;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Output;

use serde_json::Value;
use support::{code, locklab, stderr};

const SCENARIO: &str = "name = \"short\"\n[topology]\nkind = \"single\"\n[lock]\nsubject = \"lock-core:plain\"\nlease = \"1s\"\n\
    [load]\nclients = 2\nduration = \"300ms\"\nhold = \"5ms\"\n";

/// `locklab` as on a machine that keeps its state in that directory.
fn on(machine: &str, dir: &Path, args: &[&str]) -> Output {
    let mut locklab = locklab(dir);
    let locklab = locklab.env("XDG_STATE_HOME", dir.join(machine));
    locklab.args(args).output().unwrap()
}

/// A run of one scenario, in a directory of that name.
fn a_run(dir: &Path, name: &str, subject: &str) {
    fs::write(dir.join("short.toml"), SCENARIO).unwrap();
    let chaos = ["chaos", "short.toml", "--out", name, "--subject", subject];
    let output = on("here", dir, &chaos);
    assert!(code(&output) <= 2, "{}", stderr(&output));
}

/// Changes the document of a run.
fn change(file: &Path, with: impl FnOnce(&mut Value)) {
    let mut document = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    with(&mut document);
    fs::write(file, document.to_string()).unwrap();
}

/// Every command that reads a run.
const READERS: [&[&str]; 9] = [
    &["check", "r1"],
    &["report", "r1"],
    &["report", "r1"],
    &["compare", "r1", "r2"],
    &["compare", "r2", "r1"],
    &["merge", "r2", "r1", "--force", "--out", "work/m"],
    &["gate", "r1", "contract == clean"],
    &["replay", "r1"],
    &["replay", "r1", "--shrink"],
];

fn refused(dir: &Path, why: &str) {
    for args in READERS {
        let output = on("here", dir, args);
        let said = stderr(&output);
        assert_eq!(code(&output), 65, "{args:?}: {said}");
        assert!(said.contains(why), "{args:?}: {said}");
    }
    assert!(!dir.join("work/m").exists(), "nothing is half-written");
}

#[test]
fn records_lie_in_the_run_and_nowhere_else() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    a_run(dir, "r1", "lock-core:plain");
    a_run(dir, "r2", "lock-core:plain");
    fs::create_dir_all(dir.join("r1/a/b")).unwrap();
    fs::create_dir_all(dir.join("precious")).unwrap();
    fs::write(dir.join("precious/keys"), "MINE").unwrap();
    let absolute = dir.join("precious");
    let places =
        ["../precious", "a/../../precious", "a/b", "a/", "./a", ".", "..", "/", absolute.to_str().unwrap()];
    for place in places {
        change(&dir.join("r1/run.json"), |run| {
            run["scenarios"][0]["dir"] = place.into();
        });
        refused(dir, "no plain name");
    }
    let listed = on("here", dir, &["list", "runs"]);
    assert_eq!(code(&listed), 0, "{}", stderr(&listed));
    assert_eq!(fs::read(dir.join("precious/keys")).unwrap(), b"MINE");
}

#[test]
fn symbolic_links_of_a_run_are_not_followed() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    a_run(dir, "r1", "lock-core:plain");
    a_run(dir, "r2", "lock-core:plain");
    fs::create_dir_all(dir.join("precious")).unwrap();
    // The scenario's directory is one.
    symlink(dir.join("precious"), dir.join("r1/sub")).unwrap();
    change(&dir.join("r1/run.json"), |run| {
        run["scenarios"][0]["dir"] = "sub".into();
    });
    refused(dir, "symbolic link");
    // A file in it is one.
    fs::remove_file(dir.join("r1/sub")).unwrap();
    fs::create_dir(dir.join("r1/sub")).unwrap();
    symlink("/etc/passwd", dir.join("r1/sub/history.jsonl")).unwrap();
    refused(dir, "symbolic link");
}

#[test]
fn a_joined_run_can_be_checked_and_joined_again() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    a_run(dir, "r1", "lock-core:plain");
    a_run(dir, "r2", "lock-core:plain");
    for (first, out) in [("r1", "m1"), ("m1", "m2")] {
        let merge = ["merge", first, "r2", "--force", "--out", out];
        let output = on("here", dir, &merge);
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        let checked = on("here", dir, &["check", out, "--no-floors"]);
        assert_eq!(code(&checked), 0, "{}", stderr(&checked));
        let run = fs::read(dir.join(out).join("run.json")).unwrap();
        let run: Value = serde_json::from_slice(&run).unwrap();
        for scenario in run["scenarios"].as_array().unwrap() {
            let place = dir.join(out).join(scenario["dir"].as_str().unwrap());
            assert!(place.join("plan.json").is_file(), "{}", place.display());
        }
    }
}

#[test]
fn programs_of_a_plan_from_elsewhere_run_only_when_it_is_trusted() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let own = format!("exec:{} driver lock-core:plain", env!("CARGO_BIN_EXE_locklab"));
    a_run(dir, "r1", &own);
    // A run of this machine is replayed as ever, and one of another only if its plan is trusted.
    let replay = |machine: &str, more: &[&str]| {
        let output = on(machine, dir, &[&["replay", "r1"], more].concat());
        (code(&output), stderr(&output))
    };
    let (ended, why) = replay("here", &[]);
    assert!(ended <= 2, "{why}");
    let (ended, why) = replay("there", &[]);
    assert_eq!(ended, 64, "{why}");
    assert!(why.contains("--trust-plan") && why.contains("driver lock-core:plain"), "{why}");
    let (ended, why) = replay("there", &["--trust-plan"]);
    assert!(ended <= 2, "{why}");

    // A plan that was changed is nobody's, the seal of another notwithstanding.
    let mark = dir.join("ran");
    let touch = format!("touch {}", mark.display());
    let plan = dir.join("r1/plan.json");
    let good = fs::read(&plan).unwrap();
    let set: [fn(&mut Value, &str); 4] = [
        |plan, touch| plan["lock"]["subject"] = format!("exec:{touch}").into(),
        |plan, touch| plan["topology"]["server"] = touch.replace("touch ", "").into(),
        |plan, touch| plan["hooks"] = serde_json::json!({"kill": touch}),
        |plan, touch| plan["topology"]["config"]["loadmodule"] = touch.into(),
    ];
    for set in set {
        fs::write(&plan, &good).unwrap();
        change(&plan, |plan| set(plan, &touch));
        for more in [&[][..], &["--shrink", "--verdict", "contract"]] {
            let given = [&["replay", "r1/plan.json"], more].concat();
            let output = on("here", dir, &given);
            assert_eq!(code(&output), 64, "{}", stderr(&output));
            assert!(stderr(&output).contains(mark.to_str().unwrap()), "{}", stderr(&output));
            assert!(!mark.exists());
        }
    }
}
