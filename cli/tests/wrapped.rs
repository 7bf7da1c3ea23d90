//! Drivers behind other programs, as `sh -c`, `uv run`, `npx` or `go run` start them: faults and the end reach all of their processes.
#![allow(missing_docs)]

mod support;

use std::path::Path;
use std::process::{Command, Stdio};

use nix::sys::signal::Signal;
use support::{code, locklab, processes_of, signal, stderr, until};

/// A driver behind a shell. Beside it run one process without the environment that marks it, and one that has left its group.
fn chaos(dir: &Path, fault: &str, duration: &str) -> Command {
    let driver = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/drivers/driver.py");
    let script = format!("env -i sleep 900 & setsid sleep 901 & python3 '{driver}'; true");
    std::fs::write(dir.join("wrapped.sh"), script).unwrap();
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
    assert!(
        run.contains("/proc says stopped (T) of all 4 processes"),
        "{run}"
    );
    assert!(
        run.contains("left the driver's process group") && run.contains("(`sleep 901`)"),
        "{run}"
    );
    assert!(!run.contains("(`sleep 900`)"), "{run}");
}

#[test]
fn a_kill_ends_every_process_of_a_driver() {
    let dir = tempfile::tempdir().unwrap();
    let output = chaos(dir.path(), "kill", "3s").output().unwrap();
    let run = std::fs::read_to_string(dir.path().join("run/run.json")).unwrap();
    assert!(
        run.contains("and 3 that it started are gone"),
        "{run}\n{}",
        stderr(&output)
    );
    assert_eq!(processes_of(dir.path(), 0), Vec::<String>::new());
}

#[test]
fn nothing_of_a_driver_is_left_when_locklab_is_killed() {
    for end in [Signal::SIGKILL, Signal::SIGINT] {
        let dir = tempfile::tempdir().unwrap();
        let mut run = chaos(dir.path(), "pause", "5m")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        until("the pause is under way", || {
            history(dir.path()).contains("\"phase\":\"inject\"")
                || run.try_wait().unwrap().is_some()
        });
        assert!(processes_of(dir.path(), run.id()).len() > 8);
        signal(&run, end);
        run.wait().unwrap();
        until(&format!("nothing is left after {end}"), || {
            processes_of(dir.path(), run.id()).is_empty()
        });
    }
}
