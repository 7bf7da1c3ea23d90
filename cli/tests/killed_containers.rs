//! `locklab` killed with SIGKILL at random moments of start, run and stop leaves no container, and after the
//! next start no network, volume or directory.
#![allow(missing_docs)]

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use support::{locklab, signal};

/// After this long nothing of a killed program may run.
const GONE_WITHIN: Duration = Duration::from_secs(3);
/// Kills per part of a life.
const ROUNDS: usize = 3;

/// What the engine lists, a line each; `None` without an engine.
fn docker(args: &[&str]) -> Option<BTreeSet<String>> {
    let output = Command::new("docker").args(args).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    output.status.success().then(|| text.lines().map(str::to_owned).collect())
}

/// The containers that a process of this number started, running or not.
fn containers_of(pid: u32) -> Vec<String> {
    let mark = format!("locklab.owner={pid}:");
    let all = docker(&["ps", "--all", "--format", "{{.Names}} {{.Labels}}"]).expect("the engine");
    all.into_iter().filter(|line| line.contains(&mark)).collect()
}

fn networks_and_volumes() -> BTreeSet<String> {
    let mut all = docker(&["network", "ls", "--format", "network {{.Name}}"]).expect("the engine");
    all.extend(docker(&["volume", "ls", "--format", "volume {{.Name}}"]).expect("the engine"));
    all
}

fn up(dir: &Path, round: usize) -> Child {
    let topology = ["masters", "sentinel", "single"][round % 3];
    locklab(dir)
        .args(["up", topology, "--provisioner", "container"])
        // The image is made of this binary: no registry is asked.
        .env("LOCKLAB_REDIS_SERVER", "/usr/bin/redis-server")
        .env("XDG_RUNTIME_DIR", dir)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Waits until it is up.
fn is_up(child: &mut Child) {
    let mut line = String::new();
    let out = child.stdout.take().unwrap();
    BufReader::new(out).read_line(&mut line).unwrap();
    assert!(line.contains("redis") || line.starts_with("redlock"), "{line:?}");
}

fn killed(child: &mut Child, moment: &str) {
    let pid = child.id();
    // It may have ended in order just before.
    let _ = child.kill();
    child.wait().unwrap();
    let end = Instant::now() + GONE_WITHIN;
    // Late ones count too: a request to create that was under way is obeyed after the death.
    while Instant::now() < end {
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(containers_of(pid), [""; 0], "{moment}");
}

/// Directories and records of deployments.
fn left(dir: &Path) -> Vec<PathBuf> {
    let own = dir.join("locklab");
    let entries = |folder: PathBuf| fs::read_dir(folder).into_iter().flatten().flatten();
    entries(own.join("deployments"))
        .chain(entries(own))
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .filter(|path| !path.ends_with("deployments"))
        .collect()
}

#[test]
fn no_container_outlives_a_program_that_is_killed_at_random_moments() {
    if docker(&["version"]).is_none() {
        let _ = writeln!(std::io::stderr(), "SKIPPED killed_containers: no container engine answers");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let before = networks_and_volumes();
    for round in 0..ROUNDS {
        // Side by side, as each has to be watched for three seconds.
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let start = Duration::from_millis(rand::random_range(0..1500));
                let mut starting = up(dir, round);
                std::thread::sleep(start);
                killed(&mut starting, &format!("{start:?} after its launch"));
            });
            scope.spawn(|| {
                let mut running = up(dir, round + 1);
                is_up(&mut running);
                killed(&mut running, "while it ran");
            });
            let mut stopping = up(dir, round + 2);
            is_up(&mut stopping);
            signal(&stopping, Signal::SIGINT);
            let stop = Duration::from_millis(rand::random_range(0..400));
            std::thread::sleep(stop);
            killed(&mut stopping, &format!("{stop:?} into its end"));
        });
    }
    // The next start removes what the dead left.
    let mut next = up(dir, 2);
    is_up(&mut next);
    let own = format!("up-{}-", next.id());
    let strangers: Vec<PathBuf> = left(dir)
        .into_iter()
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            !name.starts_with(&own)
        })
        .collect();
    assert_eq!(strangers, Vec::<PathBuf>::new());
    assert_eq!(networks_and_volumes(), before);
    signal(&next, Signal::SIGINT);
    assert_eq!(next.wait().unwrap().code(), Some(0));
    assert_eq!(containers_of(next.id()), [""; 0]);
}
