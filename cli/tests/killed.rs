//! `locklab` killed with SIGKILL at any moment leaves no server, and after the next start no directory; runs
//! side by side share nothing.
#![allow(missing_docs)]

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use support::{code, locklab, processes_of, signal, stderr};

/// After this long nothing of a killed program may run.
const GONE_WITHIN: Duration = Duration::from_secs(3);
/// Kills per part of a life; each costs about the time it lets pass.
const ROUNDS: u32 = 8;

fn up(dir: &Path, args: &[&str]) -> Child {
    locklab(dir)
        .arg("up")
        .args(args)
        .env("XDG_RUNTIME_DIR", dir)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn url(child: &mut Child) -> String {
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}

fn gone(dir: &Path, child: &mut Child, moment: &str) {
    signal(child, Signal::SIGKILL);
    child.wait().unwrap();
    let end = Instant::now() + GONE_WITHIN;
    while !processes_of(dir, child.id()).is_empty() {
        assert!(Instant::now() < end, "{moment}: {:?}", processes_of(dir, child.id()));
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Everything in the directory where runs meet but the lists themselves.
fn left(dir: &Path) -> Vec<PathBuf> {
    let own = dir.join("locklab");
    let mut found = Vec::new();
    for folder in [own.clone(), own.join("deployments")] {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.file_name() != "deployments" && entry.file_name() != "ports.lock" {
                found.push(entry.path());
            }
        }
    }
    found
}

#[test]
fn nothing_outlives_a_program_that_is_killed_at_random_moments_of_start_run_and_stop() {
    let dir = support::scratch();
    let dir = dir.path();
    let mut killed = 0;
    for round in 0..ROUNDS {
        let topology = ["single", "sentinel", "masters", "cluster"][round as usize % 4];
        let start = Duration::from_millis(rand::random_range(0..400));
        let mut starting = up(dir, &[topology]);
        std::thread::sleep(start);
        gone(dir, &mut starting, &format!("{topology} killed {start:?} after its launch"));

        let mut running = up(dir, &["masters"]);
        url(&mut running);
        let run = Duration::from_millis(rand::random_range(0..50));
        std::thread::sleep(run);
        if round % 2 == 1 {
            // The moment then lies in the orderly end.
            signal(&running, Signal::SIGINT);
            std::thread::sleep(Duration::from_micros(rand::random_range(0..15_000)));
        }
        gone(dir, &mut running, &format!("killed {run:?} after its start, round {round}"));
        killed = running.id();
    }
    // One of them died while it wrote a record.
    fs::write(dir.join(format!("locklab/deployments/cluster-000000.draft-{killed}")), "{").unwrap();
    // The next start removes what the dead left, and its own orderly end the rest but the logs of that one
    // run.
    let mut next = up(dir, &["single"]);
    url(&mut next);
    let own = format!("up-{}-", next.id());
    let strangers: Vec<PathBuf> = left(dir)
        .into_iter()
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            !name.starts_with(&own) && !name.starts_with("single-")
        })
        .collect();
    assert_eq!(strangers, Vec::<PathBuf>::new());
    signal(&next, Signal::SIGINT);
    assert_eq!(next.wait().unwrap().code(), Some(0));
}

#[test]
fn runs_side_by_side_share_no_port_address_name_or_directory() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let mut children: Vec<Child> =
        (0..6).map(|number| up(dir, &[["single", "masters"][number % 2]])).collect();
    let urls: Vec<String> = children.iter_mut().map(url).collect();
    let output = locklab(dir).args(["ps", "--json"]).env("XDG_RUNTIME_DIR", dir).output().unwrap();
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let listed: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let listed = listed["running"].as_array().unwrap();
    assert_eq!(listed.len(), urls.len(), "{listed:?}");
    let distinct = |of: &dyn Fn(&serde_json::Value) -> Vec<String>| {
        let all: Vec<String> = listed.iter().flat_map(of).collect();
        let set: BTreeSet<&String> = all.iter().collect();
        assert_eq!(set.len(), all.len(), "{all:?}");
    };
    distinct(&|one| vec![one["id"].to_string()]);
    distinct(&|one| vec![one["dir"].to_string(), one["data"].to_string()]);
    distinct(&|one| {
        let nodes = one["nodes"].as_array().unwrap();
        nodes.iter().map(|node| node["address"].to_string()).collect()
    });
    for child in &children {
        signal(child, Signal::SIGINT);
    }
    for child in &mut children {
        assert_eq!(child.wait().unwrap().code(), Some(0));
    }
    assert_eq!(processes_of(dir, children[0].id()), Vec::<String>::new());
}
