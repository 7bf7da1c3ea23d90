//! Processes that stand still for a while, as on a busy machine: the program that records, a client, a
//! server. No sound lock is convicted for it.
#![allow(missing_docs)]
// What `--nocapture` shows.
#![allow(clippy::print_stdout)]

mod support;

use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use support::{locklab, processes_of};

/// Sound locks of ours, with leases that the caller names and with those that the library renews.
const SCENARIO: &str = r#"name = "mine"
[topology]
kind = "single"
[lock]
subject = "SUBJECT"
LEASE
wait = "500ms"
[load]
duration = "6s"
clients = 3
hold = "5ms..150ms"
[expect]
belief = "clean"
contract = "clean"
confirmed = "clean"
effect = "clean"
liveness = "clean"
"#;

/// Stops a process of a run for a while, again and again until the run ends; how often.
fn stop_now_and_then(dir: &Path, run: &mut Child, rng: &mut StdRng) -> usize {
    let mut stops = 0;
    while run.try_wait().expect("a child of ours").is_none() {
        std::thread::sleep(Duration::from_millis(rng.random_range(100..900)));
        // The program itself, its clients and its servers.
        let processes = processes_of(dir, run.id());
        let Some(one) = processes.get(rng.random_range(0..processes.len().max(1))) else {
            continue;
        };
        let pid = one.split_once(':').and_then(|(pid, _)| pid.parse().ok());
        let pid = Pid::from_raw(pid.expect("a number"));
        // It may have ended by itself.
        if kill(pid, Signal::SIGSTOP).is_ok() {
            std::thread::sleep(Duration::from_millis(rng.random_range(50..800)));
            let _ = kill(pid, Signal::SIGCONT);
            stops += 1;
        }
    }
    stops
}

/// A run of a sound lock beside which processes stand still: the verdicts that it ends with, how often they
/// did, and how many such stretches its history has.
fn verdicts(seed: u64) -> (Vec<String>, usize, usize) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut rng = StdRng::seed_from_u64(seed);
    let kind = ["reentrant", "fair", "plain", "queued"][seed as usize / 2 % 4];
    let lease = ["lease = \"3s\"", ""][seed as usize % 2];
    let driver = format!("exec:{} driver lock-core:{kind}", env!("CARGO_BIN_EXE_locklab"));
    let text = SCENARIO.replace("SUBJECT", &driver).replace("LEASE", lease);
    std::fs::write(dir.path().join("mine.toml"), text).expect("a file");
    let mut run = locklab(dir.path())
        .args(["chaos", "mine.toml", "--seed", &seed.to_string()])
        .args(["--json", "--out", "run"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("locklab starts");
    let stops = stop_now_and_then(dir.path(), &mut run, &mut rng);
    let output = run.wait_with_output().expect("it ended");
    let said = support::stdout(&output);
    let said: serde_json::Value =
        serde_json::from_str(&said).unwrap_or_else(|_| panic!("{said}{}", support::stderr(&output)));
    let verdicts = said["scenarios"][0]["verdicts"].as_object();
    let verdicts = verdicts.unwrap_or_else(|| panic!("no verdicts: {said}"));
    let violated = verdicts.values().filter(|one| one["state"] == "violated");
    let proofs: Vec<_> = violated.map(|one| one["anomalies"].to_string()).collect();
    assert!(proofs.is_empty(), "seed {seed}, {kind} {lease}: {proofs:?}");
    let states = verdicts.values().filter_map(|one| one["state"].as_str());
    let history = std::fs::read_to_string(dir.path().join("run/history.jsonl"));
    let history = history.expect("a history");
    let written = history.matches(r#""event":"stall""#).count();
    (states.map(str::to_owned).collect(), stops, written)
}

/// `STOPS=200 cargo test -p cli --test stands_still` looks at more of them.
#[test]
fn a_process_that_stands_still_convicts_no_sound_lock() {
    let wanted = std::env::var("STOPS").map_or(12, |stops| stops.parse().expect("a number"));
    let (mut stops, mut runs, mut unknown, mut written) = (0, 0, 0, 0);
    for seed in 1.. {
        let (states, stopped, stalls) = verdicts(seed);
        stops += stopped;
        written += stalls;
        runs += 1;
        unknown += usize::from(states.iter().any(|state| state == "unknown"));
        if stops >= wanted {
            break;
        }
    }
    println!("{runs} runs, {stops} stops, {written} of them written down, {unknown} runs unknown");
    // Those of servers are not.
    assert!(written > stops / 4, "{written} of {stops}");
    assert!(unknown * 5 <= runs.max(5), "{unknown} of {runs} runs are unknown");
}
