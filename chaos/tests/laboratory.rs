//! What a test program leaves behind that is killed while it judges a lock.
#![allow(missing_docs)]

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

use chaos::laboratory::{Laboratory, serve_client};
use chaos::scenario::Scenario;

/// Where the killed program keeps its run. All that it starts inherits the variable, and is known by it.
const ROOT: &str = "LABORATORY_TEST_ROOT";

const LONG: &str = "name = \"long\"\n[topology]\nkind = \"single\"\n[lock]\nsubject = \"lock-core:plain\"\n\
    [load]\nclients = 2\nduration = \"10m\"\n";

/// A client whose lock has a process of its own, in a group that no signal for the client reaches.
#[tokio::test(flavor = "multi_thread")]
async fn client() {
    if std::env::var_os("LOCKLAB_TEST_CLIENT").is_some_and(|role| role == "1") {
        let mut sleep = Command::new("sleep");
        let sleep = sleep.arg("600").process_group(0).spawn();
        std::mem::forget(sleep.expect("a process to spare"));
    }
    let lock = bench::subjects::find("lock-core:plain").expect("it is built in");
    serve_client(lock).await.expect("a harness that asks");
}

#[tokio::test(flavor = "multi_thread")]
async fn judges_until_it_is_killed() {
    let Some(root) = std::env::var_os(ROOT) else {
        return;
    };
    let lock = bench::subjects::find("lock-core:plain").expect("it is built in");
    let laboratory = Laboratory::new(lock, "client", root).expect("this program");
    let scenario = Scenario::parse("long.toml", LONG).expect("a good file");
    let ended = laboratory.judge(&scenario, 1).await;
    panic!("nobody killed this: {:?}", ended.map(|run| run.result));
}

/// The command lines of the processes that were started under the variable.
fn started(root: &Path) -> Vec<String> {
    let mark = format!("{ROOT}={}", root.display());
    let all = fs::read_dir("/proc").unwrap().flatten();
    let ours = all.filter(|entry| {
        fs::read(entry.path().join("environ")).is_ok_and(|environ| {
            let mut entries = environ.split(|byte| *byte == 0);
            entries.any(|entry| entry == mark.as_bytes())
        })
    });
    let lines = ours.map(|entry| fs::read(entry.path().join("cmdline")).unwrap_or_default());
    lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " ")).collect()
}

fn until(what: &str, root: &Path, holds: impl Fn(&[String]) -> bool) {
    let began = Instant::now();
    while !holds(&started(root)) {
        assert!(began.elapsed() < Duration::from_secs(60), "{what}: {:?}", started(root));
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_test_program_that_is_killed_leaves_no_server_and_no_process_of_a_client() {
    let dir = tempfile::tempdir().unwrap();
    let mut program = Command::new(std::env::current_exe().unwrap());
    program.args(["judges_until_it_is_killed", "--exact"]);
    let program = program.env(ROOT, dir.path()).stdout(Stdio::null());
    let mut program = program.spawn().unwrap();
    until("two clients and a server", dir.path(), |lines| {
        let count = |word: &str| lines.iter().filter(|line| line.contains(word)).count();
        count("sleep 600") >= 2 && count("redis-server") >= 1
    });
    program.kill().unwrap();
    program.wait().unwrap();
    until("nothing is left", dir.path(), <[String]>::is_empty);
}
