//! What the machine lacks is said with its file or its limit, and is 69 in every command: never a defect,
//! never a panic.
#![allow(missing_docs)]

mod support;

use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use nix::sys::resource::{Resource, setrlimit};
use support::{code, locklab, stderr, stdout};

const SCENARIO: &str = "name = \"short\"\n[topology]\nkind = \"single\"\n[lock]\nsubject = \"lock-core:plain\"\nlease = \"1s\"\n\
    [load]\nclients = 2\nduration = \"300ms\"\nhold = \"5ms\"\n";

fn missing(output: &Output, what: &str) {
    let said = stderr(output);
    assert_eq!(code(output), 69, "{}{said}", stdout(output));
    assert!(said.contains(what), "{said}");
    assert!(!said.contains("panicked"), "{said}");
}

/// Commands that keep a run, and write other files.
const WRITERS: [&[&str]; 4] = [
    &["chaos", "short.toml", "--out", "full/run"],
    &[
        "bench",
        "--topology",
        "single",
        "--subject",
        "lock-core:plain",
        "--duration",
        "300ms",
        "--rounds",
        "1",
        "--warmup",
        "0",
        "--out",
        "full/run",
    ],
    &["check", "clean.jsonl", "--json"],
    &["simulate", "--seeds", "1", "--seed", "1", "--history", "full/h.jsonl"],
];

const CLEAN: &str = "{\"t_ns\":0,\"id\":0,\"client\":\"c\",\"owner\":\"t\",\"op\":\"acquire\",\"lock\":\"l\",\"kind\":\"plain\",\"lease_ms\":3000}\n\
    {\"t_ns\":1,\"id\":0,\"end\":\"ok\",\"grant\":\"a\"}\n";

fn place() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("short.toml"), SCENARIO).unwrap();
    fs::write(dir.path().join("clean.jsonl"), CLEAN).unwrap();
    fs::create_dir(dir.path().join("full")).unwrap();
    dir
}

/// `locklab` in a mount namespace of its own, once the shell has run `first` there; `None` where a machine
/// gives none.
fn in_namespace(dir: &Path, first: &str, args: &[&str]) -> Option<Output> {
    let unshare = |script: &str, args: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"]);
        command.arg(env!("CARGO_BIN_EXE_locklab")).args(args);
        command.current_dir(dir).stdin(Stdio::null()).output()
    };
    if !unshare(first, &[]).is_ok_and(|output| output.status.success()) {
        support::skipped("no user and mount namespaces can be had here");
        return None;
    }
    Some(unshare(&format!("{first} && exec \"$@\""), args).unwrap())
}

#[test]
fn a_full_disk_is_no_defect() {
    let dir = place();
    let full = "mount -t tmpfs -o size=32k none full && { head -c 32k /dev/zero > full/x || true; }";
    for args in WRITERS {
        if args.contains(&"check") {
            continue;
        }
        let Some(output) = in_namespace(dir.path(), full, args) else {
            return;
        };
        missing(&output, "full/");
    }
}

#[test]
fn a_disk_that_cannot_be_written_is_no_defect() {
    let dir = place();
    let read_only = "mount -t tmpfs -o ro none full";
    for args in WRITERS {
        if args.contains(&"check") {
            continue;
        }
        let Some(output) = in_namespace(dir.path(), read_only, args) else {
            return;
        };
        missing(&output, "full/");
    }
}

#[test]
fn output_that_takes_nothing_is_no_success() {
    let dir = place();
    for args in [
        &["check", "clean.jsonl"][..],
        &["check", "clean.jsonl", "--json"],
        &["list", "faults"],
        &["completions", "bash"],
        &["chaos", "short.toml", "--dry-run"],
    ] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let output = locklab(dir.path()).args(args).stdout(full).output().unwrap();
        missing(&output, "standard output");
    }
}

#[test]
fn a_place_for_temporary_files_or_state_that_is_not_there_is_named() {
    let dir = place();
    let chaos = ["chaos", "short.toml", "--out", "run"];
    let shrink = ["replay", "run/plan.json", "--shrink", "--verdict", "contract"];
    let output = locklab(dir.path()).args(chaos).output().unwrap();
    assert!(code(&output) <= 2, "{}", stderr(&output));
    for (variable, args) in [
        ("TMPDIR", &["conform", "false"][..]),
        ("TMPDIR", &shrink),
        ("XDG_RUNTIME_DIR", &["up", "single", "--out", "u"]),
        ("XDG_RUNTIME_DIR", &["ps"]),
        ("XDG_RUNTIME_DIR", &["chaos", "short.toml", "--out", "r2"]),
        ("XDG_RUNTIME_DIR", &["conform", "false"]),
    ] {
        let mut locklab = locklab(dir.path());
        let output = locklab.args(args).env(variable, "/dev/null/x").output();
        missing(&output.unwrap(), "/dev/null/x");
    }
    // A key for plans that has no place is done without: nothing of a run needs it.
    let mut locklab = locklab(dir.path());
    let locklab = locklab.args(["chaos", "short.toml", "--out", "r3"]);
    let output = locklab.env("XDG_STATE_HOME", "/dev/null/x").output().unwrap();
    assert!(code(&output) <= 2, "{}", stderr(&output));
    assert!(!dir.path().join("r3/plan.json.seal").exists());
}

#[test]
fn without_proc_nothing_is_started_and_that_is_said() {
    let dir = place();
    for args in [&["chaos", "short.toml", "--out", "run"][..], &["up", "single", "--out", "u"]] {
        let Some(output) = in_namespace(dir.path(), "mount -t tmpfs none /proc", args) else {
            return;
        };
        missing(&output, "/proc");
    }
    let check = ["check", "clean.jsonl"];
    let checked = in_namespace(dir.path(), "mount -t tmpfs none /proc", &check);
    assert_eq!(checked.map(|output| code(&output)), Some(2));
}

#[test]
fn a_place_that_a_user_names_and_that_cannot_be_written_is_wrong_usage_everywhere() {
    let dir = place();
    let simulate = ["simulate", "--seeds", "1", "--seed", "1", "--history"];
    for args in [
        &["chaos", "short.toml", "--out"][..],
        &["chaos", "short.toml", "--junit"],
        &["conform", "false", "--junit"],
        &["up", "single", "--out"],
        &["man", "--out"],
        &simulate,
    ] {
        let mut locklab = locklab(dir.path());
        let output = locklab.args(args).arg("/dev/null/x").output().unwrap();
        let said = stderr(&output);
        assert_eq!(code(&output), 64, "{args:?}: {said}");
        assert!(said.contains("/dev/null/x"), "{said}");
    }
}

/// `locklab` with a limit.
fn limited(dir: &Path, resource: Resource, limit: u64, args: &[&str]) -> Output {
    let mut command = locklab(dir);
    // SAFETY: setrlimit is async-signal-safe and touches only the child.
    unsafe {
        command.pre_exec(move || Ok(setrlimit(resource, limit, limit)?));
    }
    command.args(args).output().unwrap()
}

#[test]
fn the_limit_of_a_file_s_size_is_named() {
    let dir = place();
    for args in [WRITERS[0], WRITERS[1], WRITERS[3]] {
        let output = limited(dir.path(), Resource::RLIMIT_FSIZE, 0, args);
        missing(&output, "ulimit -f");
    }
}

#[test]
fn the_limit_of_open_files_is_named() {
    let dir = place();
    for args in [
        &["chaos", "short.toml", "--out", "run"][..],
        &["check", "clean.jsonl"],
        &["up", "single", "--out", "u"],
    ] {
        for limit in [5, 6, 8, 10, 12, 16] {
            let output = limited(dir.path(), Resource::RLIMIT_NOFILE, limit, args);
            match code(&output) {
                // Enough for a command that needs few.
                0..=2 => {}
                _ => missing(&output, "ulimit -n"),
            }
        }
    }
}

#[test]
fn a_cluster_that_does_not_fit_is_refused_before_anything_starts() {
    let dir = place();
    fs::write(dir.path().join("large.toml"), "[topology]\nkind = \"cluster\"\nshards = 100\n").unwrap();
    let args = ["up", "large.toml", "--out", "u"];
    let output = limited(dir.path(), Resource::RLIMIT_NOFILE, 400, &args);
    missing(&output, "200 nodes need 526 open files");
    assert!(!dir.path().join("u/logs").exists(), "something started");
}

#[test]
fn the_limit_of_processes_is_named() {
    // It does not bind root, so somebody else's number is taken.
    if !nix::unistd::geteuid().is_root() {
        return support::skipped("only root can be somebody for whom no other process counts");
    }
    let dir = place();
    let copy = tempfile::Builder::new().tempdir_in("/tmp").unwrap();
    let program = copy.path().join("locklab");
    fs::copy(env!("CARGO_BIN_EXE_locklab"), &program).unwrap();
    for path in [copy.path(), &program, dir.path(), &dir.path().join("full")] {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        fs::set_permissions(path, mode).unwrap();
    }
    for limit in 0..12 {
        for args in [&["check", "clean.jsonl"][..], WRITERS[0]] {
            let _ = fs::remove_dir_all(dir.path().join("full/run"));
            let mut command = Command::new(&program);
            // SAFETY: both calls are async-signal-safe and touch only the child.
            unsafe {
                command.pre_exec(move || {
                    setrlimit(Resource::RLIMIT_NPROC, limit, limit)?;
                    match nix::libc::setuid(54_321) {
                        0 => Ok(()),
                        _ => Err(std::io::Error::last_os_error()),
                    }
                });
            }
            let command = command.current_dir(dir.path()).args(args);
            let command = command.stdin(Stdio::null()).env("HOME", dir.path());
            let output = command.output().unwrap();
            match code(&output) {
                0..=2 => {}
                _ => missing(&output, "ulimit -u"),
            }
        }
    }
}

#[test]
fn without_a_server_quickstart_says_the_one_command_of_this_system_and_offers_an_engine_that_answers() {
    let dir = place();
    for (packager, install) in
        [("apk", "sudo apk add redis"), ("apt-get", "sudo apt-get install redis-server")]
    {
        let path = dir.path().join(packager);
        fs::create_dir(&path).unwrap();
        File::create(path.join(packager)).unwrap();
        let mut command = locklab(dir.path());
        let output = command.arg("quickstart").env("PATH", &path).env_remove("LOCKLAB_REDIS_SERVER");
        let output = output.output().unwrap();
        missing(&output, install);
        let offered = stderr(&output).contains("locklab quickstart --provisioner container");
        assert_eq!(offered, engine_answers(), "{}", stderr(&output));
    }
    let kept = fs::read_dir(dir.path().join("runs")).into_iter().flatten();
    assert_eq!(kept.count(), 0, "nothing is kept of nothing");
}

fn engine_answers() -> bool {
    let mut asked = Command::new("docker");
    asked.arg("version").stdout(Stdio::null()).stderr(Stdio::null());
    asked.status().is_ok_and(|status| status.success())
}

#[test]
fn help_that_cannot_be_written_was_not_given() {
    let dir = place();
    for args in [&["--help"][..], &["audit", "--help"], &["--version"]] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = locklab(dir.path()).args(args).stdout(full).output().unwrap();
        missing(&output, "could not be written to standard output");
    }
}
