//! Ctrl-C and SIGKILL during each fault on processes: nothing stays stopped, slow or running, within bounded
//! time.
#![allow(missing_docs)]

mod support;

use std::path::Path;
use std::process::{Child, Stdio};

use nix::sys::signal::Signal;
use support::{locklab, processes_of, signal, until};

/// Topology and fault; each lasts until the end of a load that no test waits for.
const FAULTS: [(&str, &str); 11] = [
    ("single", "fault = \"kill\"\non = \"master\""),
    ("single", "fault = \"kill\"\non = \"client 1\""),
    ("single", "fault = \"pause\"\non = \"master\""),
    ("single", "fault = \"pause\"\non = \"client 1\""),
    ("single", "fault = \"restart\"\nwith = { after = \"60s\" }"),
    ("single", "fault = \"stress\"\nwith = { workers = 16 }"),
    ("single", "fault = \"power-cut\""),
    ("single", "fault = \"disk\"\nwith = { fsync = \"5s\" }"),
    ("single", "fault = \"clock\"\nwith = { jump = \"-1h\" }"),
    ("masters", "fault = \"pause\"\non = \"majority\""),
    ("cluster", "fault = \"migrate-slot\"\nwith = { slots = 100, pause = \"1s\" }"),
];

fn start(dir: &Path, topology: &str, fault: &str) -> Child {
    let subject = match topology {
        "masters" => "lock-core:redlock",
        _ => "lock-core:reentrant",
    };
    let text = format!(
        "name = \"ends\"\n[topology]\nkind = \"{topology}\"\n[lock]\nsubject = \"{subject}\"\n[load]\nclients = 2\nduration = \"5m\"\n\
         [[faults]]\nat = \"200ms\"\n{fault}\n"
    );
    std::fs::write(dir.join("ends.toml"), text).unwrap();
    locklab(dir)
        .args(["chaos", "ends.toml", "--seed", "1", "--out", "run"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn under_fault(dir: &Path) -> bool {
    std::fs::read_to_string(dir.join("run/history.jsonl"))
        .is_ok_and(|history| history.contains("\"phase\":\"inject\""))
}

fn each_fault_ends_with(end: Signal) {
    for (topology, fault) in FAULTS {
        let dir = tempfile::tempdir().unwrap();
        let mut child = start(dir.path(), topology, fault);
        until(&format!("{fault} is under way"), || {
            under_fault(dir.path()) || child.try_wait().unwrap().is_some()
        });
        assert!(under_fault(dir.path()), "{fault}: it ended before the fault");
        signal(&child, end);
        until(&format!("{fault}: it ends after {end}"), || child.try_wait().unwrap().is_some());
        until(&format!("{fault}: no server and no client is left after {end}"), || {
            processes_of(dir.path(), child.id()).is_empty()
        });
    }
}

#[test]
fn ctrl_c_during_a_fault_leaves_nothing() {
    each_fault_ends_with(Signal::SIGINT);
}

#[test]
fn sigkill_during_a_fault_leaves_nothing() {
    each_fault_ends_with(Signal::SIGKILL);
}
