//! Drivers behind other programs, as `sh -c`, `uv run`, `npx` or `go run` start them: faults and the end
//! reach all of their processes.
#![allow(missing_docs)]

mod support;

use std::path::Path;
use std::process::{Command, Stdio};

use nix::sys::signal::Signal;
use support::{code, locklab, processes_of, signal, stderr, until};

/// Writes a driver behind a shell. Beside it run one process without the environment that marks it, and one
/// that has left its group.
fn wrapped(dir: &Path, mode: &str) {
    let driver = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/drivers/driver.py");
    let script = format!("env -i sleep 900 & setsid sleep 901 & python3 '{driver}' {mode}; true");
    std::fs::write(dir.join("wrapped.sh"), script).unwrap();
}

fn chaos(dir: &Path, fault: &str, duration: &str) -> Command {
    wrapped(dir, "right");
    let text = format!(
        "name = \"wrapped\"\n[topology]\nkind = \"single\"\n[lock]\nsubject = \"exec:sh wrapped.sh\"\nlease = \"1s\"\nwait = \"500ms\"\n\
         [load]\nclients = 2\ntasks = 1\nhold = \"30ms\"\nduration = \"{duration}\"\n\
         [[faults]]\nat = \"500ms\"\nfor = \"1s\"\nfault = \"{fault}\"\non = \"client 1\"\n"
    );
    std::fs::write(dir.join("wrapped.toml"), text).unwrap();
    let mut command = locklab(dir);
    command.args(["chaos", "wrapped.toml", "--seed", "1", "--out", "run"]);
    command
}

/// Six clients, of which five say hello only when all have been asked to.
#[test]
fn a_benchmark_greets_all_at_once_counts_every_process_and_names_what_left_the_group() {
    let dir = tempfile::tempdir().unwrap();
    wrapped(dir.path(), "together");
    let bench = "bench --subject|exec:sh wrapped.sh|--clients|6|--tasks|6|--rounds|1|--duration|2s|--warmup|100ms|--out|run";
    let mut command = locklab(dir.path());
    let output = command.args(bench.replacen(' ', "|", 1).split('|')).output();
    let output = output.unwrap();
    let said = stderr(&output);
    assert_eq!(code(&output), 0, "{said}");
    let run = std::fs::read_to_string(dir.path().join("run/run.json")).unwrap();
    let run: serde_json::Value = serde_json::from_str(&run).unwrap();
    // The shell itself does next to nothing.
    let cpu_us = run["rows"][0]["client_cpu_us_per_cycle"].as_f64();
    assert!(cpu_us.is_some_and(|us| us > 1.0), "{cpu_us:?}");
    assert!(run.to_string().contains("(`sleep 901`)"), "{run}");
    assert_eq!(processes_of(dir.path(), 0), Vec::<String>::new());
}

#[test]
fn what_left_the_group_of_a_tried_driver_is_named() {
    let dir = tempfile::tempdir().unwrap();
    wrapped(dir.path(), "right");
    let mut command = locklab(dir.path());
    let output = command.args(["conform", "sh wrapped.sh"]).output().unwrap();
    let said = stderr(&output);
    assert!(said.contains("(`sleep 901`)"), "{said}");
    assert_eq!(processes_of(dir.path(), 0), Vec::<String>::new());
}

fn history(dir: &Path) -> String {
    std::fs::read_to_string(dir.join("run/history.jsonl")).unwrap_or_default()
}

#[test]
fn a_pause_stops_every_process_of_a_driver_and_the_end_leaves_none() {
    let dir = tempfile::tempdir().unwrap();
    let output = chaos(dir.path(), "pause", "3s").output().unwrap();
    let said = stderr(&output);
    assert!(code(&output) <= 2, "{said}");
    assert_eq!(processes_of(dir.path(), 0), Vec::<String>::new());
    let run = std::fs::read_to_string(dir.path().join("run/run.json")).unwrap();
    // The shell, the driver and two that sleep.
    assert!(run.contains("/proc says stopped (T) of all 4 processes"), "{run}");
    assert!(run.contains("left the driver's process group") && run.contains("(`sleep 901`)"), "{run}");
    assert!(!run.contains("(`sleep 900`)"), "{run}");
}

#[test]
fn a_kill_ends_every_process_of_a_driver() {
    let dir = tempfile::tempdir().unwrap();
    let output = chaos(dir.path(), "kill", "3s").output().unwrap();
    let run = std::fs::read_to_string(dir.path().join("run/run.json")).unwrap();
    assert!(run.contains("and 3 that it started are gone"), "{run}\n{}", stderr(&output));
    assert_eq!(processes_of(dir.path(), 0), Vec::<String>::new());
}

#[test]
fn nothing_of_a_driver_is_left_when_locklab_is_killed() {
    for end in [Signal::SIGKILL, Signal::SIGINT] {
        let dir = tempfile::tempdir().unwrap();
        let mut run =
            chaos(dir.path(), "pause", "5m").stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        until("the pause is under way", || {
            history(dir.path()).contains("\"phase\":\"inject\"") || run.try_wait().unwrap().is_some()
        });
        assert!(processes_of(dir.path(), run.id()).len() > 8);
        signal(&run, end);
        run.wait().unwrap();
        until(&format!("nothing is left after {end}"), || processes_of(dir.path(), run.id()).is_empty());
    }
}
