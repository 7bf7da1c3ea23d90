//! `locklab lock` as a script sees it: what runs, with which environment, and which exit code.
#![allow(missing_docs)]

mod support;

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::process::Stdio;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use support::{
    Pty, Server, code, in_a_session, locklab, run, signal, stderr, stdout, until, until_it_catches,
    until_it_took,
};

#[test]
fn the_exit_code_is_the_commands_own_and_the_lock_is_free_afterwards() {
    let server = Server::start();
    let dir = tempfile::tempdir().unwrap();
    let output =
        run(dir.path(), &["lock", &server.url(), "orders", "--", "sh", "-c", "echo $LOCKLAB_NAME; exit 7"]);
    assert_eq!(code(&output), 7, "{}", stderr(&output));
    assert_eq!(stdout(&output), "orders\n");
    assert_eq!(server.cli(&["EXISTS", "orders"]), "0");
}

#[test]
fn the_target_is_typed_in_the_environment_or_in_a_file() {
    let server = Server::start();
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
    file("target", &format!("{}\n", server.url()));
    file("empty", "\n");
    file("other", "root:secret");
    let url = server.url();
    let cases: [(&str, &[&str], i32, &str); 11] = [
        ("", &["@target", "n"], 7, ""),
        (&url, &["n"], 7, ""),
        (&url, &["--wait", "1s", "n"], 7, ""),
        ("@target", &["n"], 7, ""),
        // What is typed wins.
        ("redis://127.0.0.1:1", &["@target", "n"], 7, ""),
        ("", &["n"], 64, "LOCKLAB_TARGET"),
        (&url, &[&url], 64, "the lock's name"),
        ("", &["@gone", "n"], 64, "cannot read gone: No such file"),
        ("@.", &["n"], 64, "cannot read .: Is a directory"),
        ("", &["@empty", "n"], 64, "empty has to hold the target's"),
        ("", &["@other", "n"], 64, "other has to hold the target's"),
    ];
    for (environment, args, wanted, says) in cases {
        let mut lock = locklab(dir.path());
        lock.arg("lock").args(args).args(["--", "sh", "-c", "exit 7"]);
        let output = lock.env("LOCKLAB_TARGET", environment).output().unwrap();
        let said = stderr(&output);
        assert_eq!(code(&output), wanted, "{environment} {args:?}: {said}");
        assert!(said.contains(says), "{environment} {args:?}: {said}");
        assert!(!said.contains("secret"), "{said}");
    }
    // The same place reads the target of every other command.
    let output = run(dir.path(), &["doctor", "@target"]);
    let shown = stdout(&output);
    assert!(shown.contains(&server.port.to_string()), "{shown}");
}

#[test]
fn the_command_runs_while_the_key_is_held_in_the_reference_format() {
    let server = Server::start();
    let dir = tempfile::tempdir().unwrap();
    let script = format!("redis-cli -p {} HVALS orders", server.port);
    let output = run(dir.path(), &["lock", &server.url(), "orders", "--", "sh", "-c", &script]);
    assert_eq!(stdout(&output).trim(), "1", "one owner, held once");
}

#[test]
fn a_lock_held_by_another_is_75_or_the_code_asked_for() {
    let server = Server::start();
    let dir = tempfile::tempdir().unwrap();
    server.cli(&["HSET", "orders", "somebody-else:1", "1"]);
    server.cli(&["PEXPIRE", "orders", "60000"]);
    // Within this time the server must be reached, too.
    let args = ["lock", &server.url(), "orders", "--wait", "2s", "--", "true"];
    let output = run(dir.path(), &args);
    assert_eq!(code(&output), 75);
    assert!(stderr(&output).contains("orders"), "says which lock: {}", stderr(&output));
    let url = server.url();
    let args = ["lock", &url, "orders", "--wait", "0", "--conflict-exit-code", "9", "--", "true"];
    assert_eq!(code(&run(dir.path(), &args)), 9);
}

#[test]
fn a_lock_lost_while_the_command_runs_ends_it_with_76() {
    let server = Server::start();
    let dir = tempfile::tempdir().unwrap();
    let url = server.url();
    let args = ["lock", &url, "orders", "--lease", "500ms", "--", "sleep", "60"];
    let output = run(dir.path(), &args);
    assert_eq!(code(&output), 76, "{}", stderr(&output));
    assert!(stderr(&output).contains("lost"), "{}", stderr(&output));
}

#[test]
fn a_command_that_runs_for_longer_than_the_lock_may_be_held_is_ended_with_76() {
    let server = Server::start();
    let dir = tempfile::tempdir().unwrap();
    let url = server.url();
    let held = |longest: &str, command: &str| {
        let args = ["lock", &url, "orders", "--max-hold", longest, "--", "sleep", command];
        let output = run(dir.path(), &args);
        assert_eq!(server.cli(&["EXISTS", "orders"]), "0");
        (code(&output), stderr(&output))
    };
    let (code, said) = held("500ms", "60");
    assert_eq!(code, 76, "{said}");
    assert!(said.contains("longest time"), "{said}");
    assert_eq!(held("60s", "0").0, 0);
}

#[test]
fn a_lock_that_is_found_lost_at_its_release_is_76() {
    let server = Server::start();
    let dir = tempfile::tempdir().unwrap();
    let script = format!("redis-cli -p {} DEL orders; exit 7", server.port);
    let url = server.url();
    let output = run(dir.path(), &["lock", &url, "orders", "--", "sh", "-c", &script]);
    assert_eq!(code(&output), 76, "{}", stderr(&output));
    assert!(stderr(&output).contains("lost"), "{}", stderr(&output));
}

#[test]
fn a_lock_on_too_few_replicas_is_asked_for_again_until_the_wait_is_over() {
    let server = Server::start();
    let dir = tempfile::tempdir().unwrap();
    let url = server.url();
    let thin = |wait: &str| {
        let args = ["lock", &url, "orders", "--durability", "wait:1", "--wait", wait, "--", "true"];
        locklab(dir.path()).args(args).stderr(Stdio::piped()).spawn().unwrap()
    };
    let asked = || server.cli(&["INFO", "commandstats"]);
    let tries = |stats: &str| {
        let of_wait = stats.lines().find_map(|line| line.strip_prefix("cmdstat_wait:calls="));
        of_wait.and_then(|calls| calls.split(',').next()?.parse::<u32>().ok())
    };
    let output = thin("3s").wait_with_output().unwrap();
    assert_eq!(code(&output), 75, "{}", stderr(&output));
    assert!(stderr(&output).contains("replica"), "{}", stderr(&output));
    let tried = tries(&asked());
    assert!(tried > Some(1), "{tried:?} tries");
    assert_eq!(server.cli(&["EXISTS", "orders"]), "0");

    // A replica that comes while it is waited for is soon enough.
    let waiting = thin("60s");
    until("it was asked for", || tries(&asked()) > tried);
    let replica = Server::start();
    replica.cli(&["REPLICAOF", "127.0.0.1", &server.port.to_string()]);
    let output = waiting.wait_with_output().unwrap();
    assert_eq!(code(&output), 0, "{}", stderr(&output));
}

#[test]
fn an_argument_may_be_any_file_name() {
    let server = Server::start();
    let dir = tempfile::tempdir().unwrap();
    let output = locklab(dir.path())
        .args(["lock", &server.url(), "orders", "--", "printf", "%s"])
        .arg(OsStr::from_bytes(b"\xff\xfe"))
        .output()
        .unwrap();
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert_eq!(output.stdout, b"\xff\xfe");
}

#[test]
fn ctrl_c_comes_to_the_command_once_with_a_terminal_and_without() {
    let server = Server::start();
    let dir = tempfile::tempdir().unwrap();
    let script =
        "trap 'echo INT' INT; trap 'kill $!; exit 5' TERM; sleep 60 & echo ready; while :; do wait; done";
    for with_terminal in [true, false] {
        let mut command = locklab(dir.path());
        command.args(["lock", &server.url(), "orders", "--", "sh", "-c", script]);
        command.stdout(Stdio::piped());
        let pty = with_terminal.then(|| Pty::of(&mut command));
        if pty.is_none() {
            in_a_session(&mut command);
        }
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut line = || lines.next().map(|line| line.unwrap());
        assert_eq!(line().as_deref(), Some("ready"));
        match &pty {
            Some(pty) => {
                // Two that come at once would be one.
                signal(&child, Signal::SIGSTOP);
                pty.type_in(b"\x03");
            }
            None => signal(&child, Signal::SIGINT),
        }
        assert_eq!(line().as_deref(), Some("INT"), "{with_terminal}");
        signal(&child, Signal::SIGCONT);
        until_it_took(&child, Signal::SIGINT);
        signal(&child, Signal::SIGTERM);
        assert_eq!(line(), None, "once, {with_terminal}");
        assert_eq!(child.wait().unwrap().code(), Some(5));
    }
}

#[test]
fn an_interrupt_while_it_connects_is_130() {
    let server = Server::start();
    let dir = tempfile::tempdir().unwrap();
    kill(Pid::from_raw(server.pid()), Signal::SIGSTOP).unwrap();
    let child = locklab(dir.path())
        .args(["lock", &server.url(), "orders", "--", "true"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    until_it_catches(&child, Signal::SIGINT);
    signal(&child, Signal::SIGINT);
    let output = child.wait_with_output().unwrap();
    assert_eq!(code(&output), 130, "{}", stderr(&output));
    assert!(stderr(&output).contains("interrupted"), "{}", stderr(&output));
}

#[test]
fn what_cannot_work_is_said_with_its_cause_and_remedy() {
    let server = Server::start();
    let dir = tempfile::tempdir().unwrap();
    let (url, port) = (server.url(), server.port);
    server.cli(&["SADD", "set", "x"]);
    let (second, third) = (support::free_port(), support::free_port());
    let masters = format!("redlock://127.0.0.1:{port},127.0.0.1:{second},127.0.0.1:{third}");
    let nodes = [second, third].map(|port| format!("could not connect to 127.0.0.1:{port}: "));
    let no_cluster = format!("redis-cluster://127.0.0.1:{port}");
    let cases: &[(i32, &str, &[&str], &[&str])] = &[
        (69, &masters, &["a", "--connect-timeout", "0"], &[&nodes[0], &nodes[1]]),
        (69, &no_cluster, &["a"], &["cluster support disabled", "redis://"]),
        (64, &format!("{url}/99"), &["a"], &["DB index is out of range"]),
        (64, &url, &["set"], &["TYPE set", "reentrant"]),
        (64, &url, &["a", "--durability", "wait:all"], &["?replicas=N"]),
        (64, &url, &["a", "--wait", "-1s"], &["duration `-1s`"]),
        (64, &url, &["a", "--lease", "-1s"], &["duration `-1s`"]),
        (64, &url, &["a", "--grace", "-1s"], &["duration `-1s`"]),
        (64, &url, &["a", "--conflict-exit-code", "-1"], &["-1 is not in 0..=255"]),
    ];
    for (exit, url, args, says) in cases {
        let args = [&["lock", url], *args, &["--", "true"]].concat();
        let output = run(dir.path(), &args);
        let said = stderr(&output);
        assert_eq!(code(&output), *exit, "{args:?}: {said}");
        for part in *says {
            assert!(said.contains(part), "{args:?} without {part}: {said}");
        }
        assert!(!said.contains("script"), "{said}");
    }
}

#[test]
fn json_is_refused_since_the_output_is_the_commands() {
    let dir = tempfile::tempdir().unwrap();
    let args = ["lock", "redis://127.0.0.1:1", "orders", "--json", "--", "true"];
    let output = run(dir.path(), &args);
    assert_eq!(code(&output), 64, "{}", stderr(&output));
    assert!(stderr(&output).contains("--json"), "{}", stderr(&output));
}

#[test]
fn a_command_that_ignores_sigterm_is_killed_after_the_grace() {
    let server = Server::start();
    let dir = tempfile::tempdir().unwrap();
    let url = server.url();
    let script = "trap '' TERM; while :; do sleep 1; done";
    let args = ["lock", &url, "orders", "--lease", "300ms", "--grace", "200ms", "--", "sh", "-c", script];
    assert_eq!(code(&run(dir.path(), &args)), 76);
}

#[test]
fn exit_codes_of_signals_and_missing_commands_are_the_shells() {
    let server = Server::start();
    let dir = tempfile::tempdir().unwrap();
    let url = server.url();
    let died = run(dir.path(), &["lock", &url, "a", "--", "sh", "-c", "kill -9 $$"]);
    assert_eq!(code(&died), 137);
    let absent = run(dir.path(), &["lock", &url, "b", "--", "./no-such-command"]);
    assert_eq!(code(&absent), 127);
    std::fs::write(dir.path().join("plain"), "not a program").unwrap();
    let unrunnable = run(dir.path(), &["lock", &url, "c", "--", "./plain"]);
    assert_eq!(code(&unrunnable), 126);
    assert_eq!(server.cli(&["EXISTS", "a", "b", "c"]), "0", "released in every case");
}

#[test]
fn no_server_is_69_and_a_bad_url_is_64() {
    let dir = tempfile::tempdir().unwrap();
    let nobody = format!("redis://127.0.0.1:{}", support::free_port());
    for bound in [["--connect-timeout", "300ms"], ["--wait", "300ms"]] {
        let args = [&["lock", &nobody, "orders"], &bound[..], &["--", "true"]].concat();
        let output = run(dir.path(), &args);
        let said = stderr(&output);
        assert_eq!(code(&output), 69, "{said}");
        assert!(said.contains("127.0.0.1"), "says which: {said}");
    }
    for bad in ["http://127.0.0.1", "redis://127.0.0.1:99999", "orders"] {
        let output = run(dir.path(), &["lock", bad, "orders", "--", "true"]);
        assert_eq!(code(&output), 64, "{bad}: {}", stderr(&output));
    }
    let output = run(dir.path(), &["lock", &nobody, "orders", "--wait", "soon", "--", "true"]);
    assert_eq!(code(&output), 64);
}

#[test]
fn a_server_that_is_not_there_yet_is_waited_for_and_that_is_said_once() {
    let dir = tempfile::tempdir().unwrap();
    let port = support::free_port();
    let url = format!("redis://127.0.0.1:{port}");
    let mut child = locklab(dir.path())
        .args(["lock", &url, "orders", "--", "sh", "-c", "exit 5"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    let mut lines = BufReader::new(child.stderr.take().unwrap());
    lines.read_line(&mut said).unwrap();
    assert!(said.contains("waiting for it"), "{said}");
    assert_eq!(said.matches("could not connect").count(), 1, "{said}");
    let _server = Server::start_at(port, &[]);
    assert_eq!(child.wait().unwrap().code(), Some(5));
    let mut rest = String::new();
    lines.read_to_string(&mut rest).unwrap();
    assert!(!rest.contains("waiting for it"), "{rest}");
}

#[test]
fn sigterm_is_passed_on_and_the_lock_released() {
    let server = Server::start();
    let dir = tempfile::tempdir().unwrap();
    let child = locklab(dir.path())
        .args(["lock", &server.url(), "orders", "--", "sleep", "60"])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    until("the lock is held", || server.cli(&["EXISTS", "orders"]) == "1");
    until("the command runs", || {
        let children = format!("/proc/{0}/task/{0}/children", child.id());
        std::fs::read_to_string(children).is_ok_and(|pids| !pids.trim().is_empty())
    });
    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), Signal::SIGTERM).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(code(&output), 128 + 15);
    assert_eq!(server.cli(&["EXISTS", "orders"]), "0");
}
