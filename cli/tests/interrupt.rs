//! Ctrl-C and SIGKILL during the main job: no server, no client and no half-written file is left, and what
//! was measured is kept.
#![allow(missing_docs)]

mod support;

use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use nix::sys::signal::Signal;
use support::{locklab, processes_of, signal, until};

fn quickstart(dir: &Path) -> Child {
    locklab(dir)
        .args(["quickstart", "--seed", "1", "--out", "run"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn json(path: &Path) -> Option<serde_json::Value> {
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}

/// The history of some scenario that is under way.
fn history(dir: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(dir.join("run")).ok()?;
    entries
        .flatten()
        .map(|entry| entry.path().join("history.jsonl"))
        .find(|path| std::fs::metadata(path).is_ok_and(|file| file.len() > 0))
}

#[test]
fn ctrl_c_while_servers_start_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut child = quickstart(dir.path());
    until("a server was started", || processes_of(dir.path(), child.id()).len() > 1);
    signal(&child, Signal::SIGINT);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    nothing_left(dir.path(), &child);
}

#[test]
fn ctrl_c_under_load_keeps_what_was_measured() {
    let dir = tempfile::tempdir().unwrap();
    let mut child = quickstart(dir.path());
    let kept = dir.path().join("run/run.json");
    until_slow("a row was measured", || {
        json(&kept).is_some_and(|run| !run["rows"].as_array().unwrap().is_empty())
    });
    signal(&child, Signal::SIGINT);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    nothing_left(dir.path(), &child);
    let run = json(&kept).expect("run.json is whole");
    assert_eq!(run["partial"], true);
    let page = std::fs::read_to_string(dir.path().join("run/report.html")).expect("a report");
    assert!(page.trim_end().ends_with("</html>"), "the page is whole");
}

#[test]
fn ctrl_c_under_faults_keeps_the_history() {
    let dir = tempfile::tempdir().unwrap();
    let mut child = quickstart(dir.path());
    until_slow("a scenario is being recorded", || history(dir.path()).is_some());
    signal(&child, Signal::SIGINT);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    nothing_left(dir.path(), &child);
    let history = history(dir.path()).expect("the history is kept");
    let text = std::fs::read_to_string(history).unwrap();
    assert!(text.ends_with('\n'), "no line is torn");
    assert_eq!(json(&dir.path().join("run/run.json")).expect("run.json is whole")["partial"], true);
}

#[test]
fn sigkill_under_faults_leaves_no_process_and_a_readable_run() {
    let dir = tempfile::tempdir().unwrap();
    let mut child = quickstart(dir.path());
    until_slow("a scenario is being recorded", || history(dir.path()).is_some());
    signal(&child, Signal::SIGKILL);
    child.wait().unwrap();
    nothing_left(dir.path(), &child);
    let run = json(&dir.path().join("run/run.json")).expect("run.json is whole");
    assert_eq!(run["partial"], true, "a killed run says so by itself");
    assert!(!run["rows"].as_array().unwrap().is_empty(), "what was measured before is kept");
}

/// A server whose start was under way dies with its parent, a moment after it.
fn nothing_left(dir: &Path, child: &Child) {
    until("no server and no client is left", || processes_of(dir, child.id()).is_empty());
}

/// The first row, and the load before the first scenario, take half a minute on a busy machine.
fn until_slow(what: &str, mut condition: impl FnMut() -> bool) {
    let mut met = false;
    for _ in 0..4 {
        let end = std::time::Instant::now() + std::time::Duration::from_secs(30);
        while !met && std::time::Instant::now() < end {
            met = condition();
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
    assert!(met, "waited two minutes in vain: {what}");
}
