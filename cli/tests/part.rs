//! Parts of a plan: disjoint and complete, joined by `merge` as if one machine had run all, incomplete where
//! one is missing.

mod support;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Output;

use serde_json::Value;
use support::{code, locklab, run, stderr, stdout};

fn json(output: &Output) -> Value {
    serde_json::from_str(&stdout(output)).unwrap_or_else(|_| panic!("{}", stderr(output)))
}

/// What a call would run, name and seed.
fn listed(output: &Output) -> Vec<(String, u64)> {
    let document = json(output);
    let scenarios = document["scenarios"].as_array().cloned().unwrap_or_default();
    let one = |one: &Value| {
        let name = one["name"].as_str().unwrap_or_default().to_owned();
        (name, one["seed"].as_u64().unwrap_or_default())
    };
    scenarios.iter().map(one).collect()
}

/// Short scenarios without faults; the lock of the last one is broken.
fn write_scenarios(dir: &Path) -> Vec<String> {
    let write = |number: u32| {
        let name = format!("s{number}");
        let expect = if number == 4 { "violated" } else { "clean" };
        let text = format!(
            "name = \"{name}\"\n[topology]\nkind = \"single\"\n[load]\nclients = 2\nduration = \"300ms\"\nhold = \"1ms\"\n[expect]\ncontract = \"{expect}\"\n"
        );
        std::fs::write(dir.join(format!("{name}.toml")), text).expect("the folder can be written");
        format!("{name}.toml")
    };
    (0..5).map(write).collect()
}

#[test]
fn parts_are_disjoint_and_complete_by_flag_and_by_environment() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let args = ["chaos", "--all", "--repeat", "2", "--seed", "7", "--dry-run", "--json"];
    let whole: BTreeSet<_> = listed(&run(dir.path(), &args)).into_iter().collect();
    let mut parts = Vec::new();
    for index in 0..3 {
        let part = format!("{index}/3");
        let by_flag = listed(&run(dir.path(), &[&args[..], &["--part", &part]].concat()));
        let mut command = locklab(dir.path());
        command.args(args).env("JOB_COMPLETION_INDEX", index.to_string());
        let by_environment = command.env("LOCKLAB_PARTS", "3").output().expect("locklab runs");
        assert_eq!(by_flag, listed(&by_environment));
        assert!(!by_flag.is_empty());
        parts.extend(by_flag);
    }
    assert_eq!(parts.len(), whole.len(), "disjoint");
    assert_eq!(parts.into_iter().collect::<BTreeSet<_>>(), whole, "complete");
    for bad in ["3/3", "x", "0/0"] {
        let refused = run(dir.path(), &[&args[..], &["--part", bad]].concat());
        assert_eq!(code(&refused), 64, "{}", stderr(&refused));
    }
}

#[test]
fn merged_parts_are_the_whole_run_and_a_missing_one_is_named() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let files = write_scenarios(dir.path());
    let mut args = vec!["chaos", "--seed", "7", "--json"];
    args.extend(files.iter().map(String::as_str));
    let mut codes = Vec::new();
    for index in 0..2 {
        let (part, out) = (format!("{index}/2"), format!("p{index}"));
        let output = run(dir.path(), &[&args[..], &["--part", &part, "--out", &out]].concat());
        codes.push(code(&output));
    }
    let merged = run(dir.path(), &["merge", "p1", "p0", "--json", "--out", "whole"]);
    // A lock that is sound is not convicted as its file expects.
    assert!(codes.contains(&1), "{codes:?}");
    assert_eq!(code(&merged), 1, "{}", stderr(&merged));
    let names: Vec<String> = listed(&merged).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["s0", "s1", "s2", "s3", "s4"], "in the order of the plan");
    let checked = run(dir.path(), &["check", "whole", "--json"]);
    assert_eq!(code(&checked), 0, "histories came along, and are clean: {}", stderr(&checked));

    let clean = codes.iter().position(|code| *code == 0).expect("one part is as expected");
    let alone = run(dir.path(), &["merge", &format!("p{clean}"), "--json", "--out", "alone"]);
    assert_eq!(code(&alone), 2, "{}", stderr(&alone));
    let checked = run(dir.path(), &["check", "alone", "--json"]);
    assert_eq!(code(&checked), 0, "its histories too: {}", stderr(&checked));
    assert_eq!(json(&alone)["partial"], true);
    let said = stderr(&alone);
    assert!(said.contains(&format!("part {} of 2 is missing: without s", 1 - clean)), "{said}");

    let mut other = args.clone();
    other[2] = "8";
    run(dir.path(), &[&other[..], &["--part", "1/2", "--out", "other"]].concat());
    let refused = run(dir.path(), &["merge", "p0", "other"]);
    assert_eq!(code(&refused), 65, "{}", stderr(&refused));
    assert!(stderr(&refused).contains("seed: 7 and 8"), "{}", stderr(&refused));
}

#[test]
fn parts_of_another_lock_an_edited_file_or_another_server_are_refused() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let files = write_scenarios(dir.path());
    let part = |command: &str, index: &str, out: &str, more: &[&str]| {
        let part = [command, "--seed", "7", "--part", index, "--out", out];
        let output = run(dir.path(), &[&part[..], more].concat());
        assert!((0..=2).contains(&code(&output)), "{}", stderr(&output));
    };
    let refused = |out: &str, words: &[&str]| {
        let merged = run(dir.path(), &["merge", "whole", out, "--json"]);
        let said = stderr(&merged);
        assert_eq!(code(&merged), 65, "{said}");
        for word in words {
            assert!(said.contains(word), "{said}");
        }
    };
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    let with = |more: &[&'static str]| [&files[..], more].concat();
    part("chaos", "0/2", "whole", &files);
    part("chaos", "1/2", "lock", &with(&["--subject", "baseline:set-nx-px"]));
    let another = "subject \"lock-core:reentrant\" and \"baseline:set-nx-px\"";
    refused("lock", &["s0 (seed 7): ", another]);
    let path = std::env::var_os("PATH").expect("a path");
    let server = std::env::split_paths(&path)
        .map(|folder| folder.join("redis-server"))
        .find(|server| server.is_file())
        .expect("a server");
    let server = server.to_string_lossy();
    let elsewhere = [&files[..], &["--server", &server]].concat();
    part("chaos", "1/2", "server", &elsewhere);
    refused("server", &["server \"redis\" and "]);
    let s1 = dir.path().join("s1.toml");
    let text = std::fs::read_to_string(&s1).expect("a scenario");
    std::fs::write(&s1, text.replace("300ms", "350ms")).expect("it is edited");
    part("chaos", "1/2", "edited", &files);
    refused("edited", &["s1 (seed 7): load "]);

    let scenario = ["--no-bench", "--scenario", "s1.toml,s2.toml"];
    let audit = |locks: &[&'static str]| [locks, &scenario[..]].concat();
    std::fs::remove_dir_all(dir.path().join("whole")).expect("it is there");
    part("audit", "0/2", "whole", &audit(&["lock-core:plain"]));
    part("audit", "1/2", "two", &audit(&["baseline:set-nx-px"]));
    refused("two", &["s1 (seed 7): subject \"lock-core:plain\" and \"baseline:set-nx-px\""]);
}

#[test]
fn an_audit_that_tried_nothing_is_the_same_whole_and_in_parts() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let asked = "baseline:set-nx-px --no-bench --scenario read-write,fair-holder-killed --json";
    let asked: Vec<&str> = std::iter::once("audit").chain(asked.split(' ')).collect();
    let audit = |more: &[&str]| run(dir.path(), &[&asked[..], more].concat());
    for index in ["0/2", "1/2"] {
        let part = audit(&["--part", index, "--out", &index[..1]]);
        assert_eq!(code(&part), 0, "{}", stderr(&part));
    }
    let merged = run(dir.path(), &["merge", "0", "1", "--json", "--out", "both"]);
    let outputs = [(audit(&[]), "/subjects"), (merged, "/audit/subjects")];
    for (output, subjects) in &outputs {
        let said = stderr(output);
        assert_eq!(code(output), 65, "{said}");
        assert!(said.contains("nothing was tried"), "{said}");
        let document = json(output);
        let scenarios = &document.pointer(subjects).expect("a scorecard")[0]["scenarios"];
        for scenario in [0, 1] {
            let outcome = &scenarios[scenario]["outcome"];
            assert_eq!(outcome, "not-applicable", "{document}");
        }
    }
    let alone = run(dir.path(), &["merge", "0", "--out", "alone"]);
    assert_eq!(code(&alone), 2, "another part is missing");
}

#[test]
fn an_audit_in_parts_is_one_audit_again() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let files = write_scenarios(dir.path()).join(",");
    let args =
        ["audit", "lock-core:reentrant", "--no-bench", "--scenario", &files, "--repeat", "2", "--json"];
    for index in 0..2 {
        let (part, out) = (format!("{index}/2"), format!("p{index}"));
        let output = run(dir.path(), &[&args[..], &["--part", &part, "--out", &out]].concat());
        assert_eq!(json(&output)["subjects"][0]["name"], "lock-core:reentrant");
    }
    let merged = run(dir.path(), &["merge", "p0", "p1", "--json", "--out", "whole"]);
    let audit = &json(&merged)["audit"];
    assert_eq!(audit["subjects"].as_array().map(Vec::len), Some(1), "{audit}");
    let subject = &audit["subjects"][0];
    let scenarios = subject["scenarios"].as_array().cloned().unwrap_or_default();
    assert_eq!(scenarios.len(), 5, "{subject}");
    for scenario in &scenarios {
        let seeds: Vec<_> =
            scenario["runs"].as_array().into_iter().flatten().map(|run| run["seed"].as_u64()).collect();
        assert_eq!(seeds, [Some(1), Some(2)], "{scenario}");
    }
}

#[test]
fn a_part_that_is_killed_at_once_is_a_missing_one() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let files = write_scenarios(dir.path());
    let mut args = vec!["chaos", "--seed", "7", "--json"];
    args.extend(files.iter().map(String::as_str));
    let mut killed = locklab(dir.path());
    killed.args(&args).args(["--part", "0/2", "--out", "p0"]);
    let mut killed = killed
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("locklab starts");
    support::until("it says which part it is", || {
        std::fs::read_to_string(dir.path().join("p0/run.json")).is_ok_and(|run| run.contains("\"part\""))
    });
    killed.kill().expect("it runs");
    killed.wait().expect("it ends");
    let other = [&args[..], &["--part", "1/2", "--out", "p1"]].concat();
    run(dir.path(), &other);
    let merged = run(dir.path(), &["merge", "p0", "p1", "--out", "whole"]);
    assert!([1, 2].contains(&code(&merged)), "{}", stderr(&merged));
    let said = stderr(&merged);
    assert!(said.contains("part 0 of 2 did not end: without s"), "{said}");
}

#[cfg(not(feature = "kube"))]
#[test]
fn kube_of_a_build_without_it_is_refused_and_says_how_to_get_it() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    for flags in [&["render", "failover-wait-all", "--parts", "2"][..], &["run"], &[]] {
        let refused = run(dir.path(), &[&["kube"][..], flags].concat());
        assert_eq!(code(&refused), 64, "{}", stderr(&refused));
        assert!(stderr(&refused).contains("--features kube"), "{}", stderr(&refused));
    }
}
