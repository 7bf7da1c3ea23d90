//! The matrix of servers: what `list servers` says is so, `--server` runs on what was named, and one that is
//! not here ends with 69.

mod support;

use serde_json::Value;
use support::{code, run, skipped, stderr, stdout};

fn listed(dir: &std::path::Path) -> Vec<Value> {
    let output = run(dir, &["--json", "list", "servers"]);
    let json: Value = serde_json::from_str(&stdout(&output)).expect("a document");
    json["items"].as_array().expect("a list").clone()
}

#[test]
fn each_server_is_here_with_its_path_or_says_how_to_get_it() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let items = listed(dir.path());
    assert!(items.len() >= 6, "{items:?}");
    for item in &items {
        match item["path"].as_str() {
            Some(path) => {
                let said = std::process::Command::new(path).arg("--version").output();
                let said = String::from_utf8_lossy(&said.expect("it starts").stdout).into_owned();
                let version = item["version"].as_str().expect("a version");
                assert!(said.contains(&format!("v={version}")), "{item}");
            }
            None => assert!(item["missing"].as_str().is_some_and(|why| why.len() > 25), "{item}"),
        }
    }
}

#[test]
fn a_scenario_runs_on_each_server_that_was_named() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let items = listed(dir.path());
    let mut here = items.iter().filter(|item| item["path"].is_string());
    let (Some(one), Some(two)) = (here.next(), here.next_back()) else {
        return skipped("there is one server on this machine; `make servers` gets more");
    };
    let name = |item: &Value| item["name"].as_str().expect("a name").to_owned();
    let text = "name = \"short\"\n[topology]\nkind = \"single\"\n[load]\nclients = 2\nduration = \"700ms\"\n[expect]\ncontract = \"clean\"\n";
    std::fs::write(dir.path().join("short.toml"), text).expect("the folder can be written");
    let both = format!("{},{}", name(one), name(two));
    let output = run(dir.path(), &["--json", "chaos", "short.toml", "--server", &both, "--out", "r"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let json: Value = serde_json::from_str(&stdout(&output)).expect("a document");
    let scenarios = json["scenarios"].as_array().expect("a list");
    let ran: Vec<&str> = scenarios.iter().filter_map(|one| one["server"].as_str()).collect();
    let full = |item: &Value| {
        format!("{}-{}", item["flavour"].as_str().unwrap_or("?"), item["version"].as_str().unwrap_or("?"))
    };
    assert_eq!(ran, [full(one), full(two)]);
    let summary = std::fs::read_to_string(dir.path().join("r/summary.txt")).expect("a summary");
    assert!(ran.iter().all(|server| summary.contains(server)), "{summary}");
}

#[test]
fn a_server_that_is_not_here_ends_with_69_and_says_how_to_get_it() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    for command in [&["chaos", "failover-async"][..], &["audit", "lock-core:plain"]] {
        let output = run(dir.path(), &[command, &["--server", "redis-7.999"]].concat());
        assert_eq!(code(&output), 69, "{}", stderr(&output));
        assert!(stderr(&output).contains("make servers"), "{}", stderr(&output));
    }
}
