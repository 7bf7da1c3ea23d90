//! Other libraries as subjects: named whether they are built or not, refused with the remedy where they are
//! not, and of those that are built each keeps to the protocol.
#![allow(missing_docs)]

mod support;

use std::{
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Command, Output},
};

use serde_json::Value;
use support::{code, locklab, skipped, stderr, stdout};

fn peers(dir: &Path, drivers: Option<&Path>, args: &[&str]) -> Output {
    let mut command: Command = locklab(dir);
    if let Some(drivers) = drivers {
        command.env("LOCKLAB_DRIVERS", drivers);
    }
    command.args(args).output().expect("locklab runs")
}

fn json(output: &Output) -> Value {
    serde_json::from_str(&stdout(output)).unwrap_or_else(|_| panic!("{}", stderr(output)))
}

/// Every peer's name, and what is missing of it.
fn listed(dir: &Path, drivers: Option<&Path>) -> Vec<(String, Option<String>)> {
    let output = peers(dir, drivers, &["--json", "list", "subjects", "peer:"]);
    let list = json(&output);
    let items = list["items"].as_array().expect("items").iter();
    let text = |value: &Value| value.as_str().map(str::to_owned);
    items
        .map(|item| {
            let name = text(&item["name"]).expect("a name");
            (name, text(&item["missing"]))
        })
        .collect()
}

#[test]
fn a_peer_that_is_not_built_is_named_with_its_remedy() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let nothing = Some(dir.path());
    let all = listed(dir.path(), nothing);
    assert!(!all.is_empty());
    for (name, missing) in &all {
        let missing = missing.as_deref().expect(name);
        assert!(missing.contains("make peers"), "{missing}");
    }
    let (name, _) = &all[0];
    for args in [
        &["conform", name][..],
        &["bench", "--subject", name],
        &["chaos", "failover-async", "--subject", name],
    ] {
        let output = peers(dir.path(), nothing, args);
        assert_eq!(code(&output), 69, "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains("make peers"), "{}", stderr(&output));
    }
    let doctor = stdout(&peers(dir.path(), nothing, &["doctor"]));
    let said = format!("built: none; not built: {name}");
    assert!(doctor.contains(&said), "{doctor}");
}

#[test]
fn a_peer_that_is_built_is_a_subject_by_its_name() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let folder = dir.path().join("peers/redsync");
    std::fs::create_dir_all(folder.join("build")).expect("a folder");
    std::fs::write(folder.join("build/driver"), "").expect("a file");
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/driver.py");
    let run = folder.join("run");
    std::fs::write(&run, format!("#!/bin/sh\nexec python3 '{example}'\n")).expect("a file");
    std::fs::set_permissions(&run, std::fs::Permissions::from_mode(0o755)).expect("ours");
    let drivers = Some(dir.path());
    let all = listed(dir.path(), drivers);
    let built = |name: &str| all.iter().any(|(n, missing)| n == name && missing.is_none());
    assert!(built("peer:redsync") && !built("peer:bsm-redislock"), "{all:?}");
    let output = peers(dir.path(), drivers, &["--json", "conform", "peer:redsync"]);
    let report = json(&output);
    assert_eq!(report["library"], "set-nx-px 1.0 (python)");
    assert_eq!(code(&output), 0, "{report:#}");
}

#[test]
fn every_peer_that_is_built_conforms() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let dir = dir.path();
    std::thread::scope(|scope| {
        for (name, missing) in listed(dir, None) {
            if let Some(missing) = missing {
                skipped(&missing);
                continue;
            }
            scope.spawn(move || {
                let output = peers(dir, None, &["--json", "conform", &name]);
                let report = json(&output);
                let steps = report["steps"].as_array().expect("steps");
                let broken = steps.iter().filter(|step| step["outcome"] == "broken");
                let broken: Vec<_> = broken.filter_map(|step| step["name"].as_str()).collect();
                // node-redlock#296: the lease counts from the first try, however long the caller waited.
                let known: &[&str] = if name == "peer:node-redlock" { &["lease after a wait"] } else { &[] };
                assert_eq!(broken, known, "{name}: {report:#}");
                let load = steps.iter().find(|step| step["name"] == "load");
                assert_eq!(load.expect("a step")["outcome"], "kept", "{name}");
            });
        }
    });
}
