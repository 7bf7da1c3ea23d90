//! Locks as teams write them, in three languages: an audit convicts each by what it does wrong, and `conform`
//! the one that renews nothing.

mod support;

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use support::{code, run, skipped, stderr, stdout};

const CONTROLS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../drivers/controls");

/// The locks of a mode in each language that this machine has, as command lines.
fn home_made(mode: &str) -> Vec<String> {
    let built = format!("{}/home-made-go", env!("CARGO_TARGET_TMPDIR"));
    let go = ["go", "build", "-o", &built, "."];
    let mut all = Vec::new();
    for (line, there) in [
        (format!("python3 {CONTROLS}/home_made.py {mode}"), &["python3", "--version"][..]),
        (format!("node {CONTROLS}/home-made.mjs {mode}"), &["node", "--version"]),
        (format!("{built} {mode}"), &go),
    ] {
        let mut command = Command::new(there[0]);
        let ended = command.args(&there[1..]).current_dir(format!("{CONTROLS}/go")).output();
        match ended {
            Ok(output) => {
                assert!(output.status.success(), "{there:?}: {}", stderr(&output));
                all.push(line);
            }
            Err(_) => skipped(&format!("there is no {}", there[0])),
        }
    }
    all
}

fn json(dir: &Path, seed: &str, args: &[&str]) -> (i32, Value, String) {
    let output = run(dir, &[&["--json", "--seed", seed], args].concat());
    let said = format!("{}{}", stdout(&output), stderr(&output));
    let json = serde_json::from_str(&stdout(&output)).unwrap_or_else(|_| panic!("{said}"));
    (code(&output), json, said)
}

/// Audits the locks of a mode on a scenario that the suite `quick` has: each is broken by this. One that
/// chance let go has two more seeds.
fn convicted(mode: &str, scenario: &str, class: &str, defect: &str) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let locks = home_made(mode).into_iter();
    let mut locks: Vec<String> = locks.map(|line| format!("exec:{line}")).collect();
    for seed in ["7", "8", "9"] {
        let args = ["audit", "--no-bench", "--scenario", scenario, "--out", seed];
        let args: Vec<&str> = args.into_iter().chain(locks.iter().map(String::as_str)).collect();
        let (code, json, said) = json(dir.path(), seed, &args);
        let subjects = json["subjects"].as_array().expect("subjects");
        for found in subjects.iter().map(|subject| &subject["scenarios"][0]) {
            if found["outcome"] == "broken" {
                assert_eq!(code, 1, "{said}");
                assert_eq!(found["defect"], defect, "{found:#}");
                assert_eq!(found["verdicts"][class], "violated", "{found:#}");
            }
        }
        locks.retain(|name| {
            let own = subjects.iter().find(|subject| subject["name"] == **name);
            own.expect("each is there")["scenarios"][0]["outcome"] != "broken"
        });
        if locks.is_empty() {
            return;
        }
    }
    panic!("{scenario} acquits {locks:?}");
}

#[test]
fn a_renewer_that_ends_at_its_first_error_is_convicted_in_each_language() {
    convicted(
        "renewer-dies",
        "renewed-through-an-outage",
        "belief",
        "its renewal ends at an error, and its holder is not told",
    );
}

/// The key is deleted under its holder, which is nobody's fault; that two go on beside each other is the
/// renewal's.
#[test]
fn a_renewal_that_does_not_ask_whose_the_lock_is_is_convicted_and_a_sound_one_is_not() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let defect = |name: &str| format!("exec:python3 {CONTROLS}/defects.py {name}");
    let broken = [defect("renews-without-owner")];
    let sound = [defect("sound-renewed"), "lock-core:reentrant".to_owned()];
    let scenario = ["audit", "--no-bench", "--scenario", "renewed-key-lost", "--out", "run"];
    let locks = broken.iter().chain(&sound).map(String::as_str);
    let args: Vec<&str> = scenario.into_iter().chain(["broken:renews-on"]).chain(locks).collect();
    let (code, json, said) = json(dir.path(), "7", &args);
    assert_eq!(code, 1, "{said}");
    let outcome = |subject: &Value| subject["scenarios"][0]["outcome"].as_str().map(str::to_owned);
    for subject in json["subjects"].as_array().expect("subjects") {
        let is_sound = sound.iter().any(|name| subject["name"] == **name);
        match outcome(subject).as_deref() {
            Some("kept" | "inherent") => assert!(is_sound, "{subject:#}"),
            Some("broken") => assert!(!is_sound, "{subject:#}"),
            _ => panic!("{subject:#}"),
        }
    }
}

#[test]
fn a_release_in_two_steps_is_convicted_in_each_language() {
    convicted(
        "get-compare-del",
        "release-over-a-slow-line",
        "belief",
        "its late release frees another's lock",
    );
}

#[test]
fn a_release_that_asks_for_no_owner_is_convicted_in_each_language() {
    convicted(
        "release-without-owner-check",
        "short-lease",
        "belief",
        "its late release frees another's lock",
    );
}

#[test]
fn an_extend_that_asks_for_no_owner_is_convicted_in_each_language() {
    convicted("renew-without-owner-check", "extend-past-a-pause", "contract", "it extends another's lock");
}

#[test]
fn a_lock_in_two_commands_is_convicted_in_each_language() {
    convicted(
        "setnx-expire",
        "killed-while-acquiring",
        "liveness",
        "what a dead client took is not free when its lease is over",
    );
}

#[test]
fn a_lock_that_says_that_it_renews_and_does_not_is_convicted_in_each_language() {
    convicted("never-renews", "watchdog-keeps", "belief", "it does not renew, and its holder is not told");
}

#[test]
fn conform_finds_a_renewal_that_does_not_happen() {
    for (mode, wrong) in [("never-renews", &["renewal"][..]), ("renewer-dies", &[])] {
        for line in home_made(mode) {
            let dir = tempfile::tempdir().expect("a temporary directory");
            let (code, report, said) = json(dir.path(), "7", &["conform", &line]);
            let steps = report["steps"].as_array().expect("steps").iter();
            let broken = steps.filter(|step| step["outcome"] == "broken");
            let names: Vec<_> = broken.filter_map(|step| step["name"].as_str()).collect();
            assert_eq!(names, wrong, "{line}: {said}");
            assert_eq!(code, i32::from(!wrong.is_empty()), "{line}: {said}");
        }
    }
}
