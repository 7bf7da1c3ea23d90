//! `locklab up`, `ps` and `down` as a script sees them, and what is left of the servers afterwards.
#![allow(missing_docs)]

mod support;

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{SigHandler, Signal};
use support::{code, locklab, processes_of, run, signal, stderr, stdout, until};

/// Starts `up` and reads the first line of its standard output.
fn up(dir: &Path, args: &[&str]) -> (Child, String) {
    up_by(locklab(dir), dir, args)
}

fn up_by(mut locklab: Command, dir: &Path, args: &[&str]) -> (Child, String) {
    let mut child = locklab
        .arg("up")
        .args(args)
        .args(["--out", "servers"])
        .env("XDG_RUNTIME_DIR", dir)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    (child, line.trim_end().to_owned())
}

fn ps(dir: &Path) -> serde_json::Value {
    let output = locklab(dir).args(["ps", "--json"]).env("XDG_RUNTIME_DIR", dir).output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn the_first_line_is_a_url_that_a_lock_can_use_and_ctrl_c_ends_the_servers() {
    let dir = tempfile::tempdir().unwrap();
    let (mut child, url) = up(dir.path(), &["single"]);
    assert!(url.starts_with("redis://127.0.0."), "{url}");
    let output = run(dir.path(), &["lock", &url, "orders", "--", "true"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let listed = ps(dir.path())["running"][0].clone();
    assert_eq!(listed["url"], url);
    let shown = locklab(dir.path()).arg("ps").env("XDG_RUNTIME_DIR", dir.path()).output();
    let shown = stdout(&shown.unwrap());
    let line: Vec<&str> = shown.split_whitespace().collect();
    assert_eq!(line[..2], [listed["id"].as_str().unwrap(), "single"]);
    assert_eq!(line.last(), Some(&url.as_str()), "{shown}");
    signal(&child, Signal::SIGINT);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(processes_of(dir.path(), child.id()), Vec::<String>::new());
    assert_eq!(ps(dir.path())["running"], serde_json::json!([]));
    assert!(dir.path().join("servers/logs/n1.log").is_file(), "logs are kept");
}

/// Sentinels have a password of their own, which `doctor` needs to find the master, and never says.
#[test]
fn doctor_asks_sentinels_with_their_own_password() {
    let dir = tempfile::tempdir().unwrap();
    let (mut child, url) = up(dir.path(), &["sentinel", "--acl"]);
    let (servers, password) = url.split_once("?sentinel-password=").expect("a password of sentinels");
    let output = run(dir.path(), &["doctor", &url, "--json"]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let node = &report["nodes"][0];
    assert_eq!((&node["role"], &node["replicas"]), (&"master".into(), &2.into()), "{report}");
    let wrong = run(dir.path(), &["doctor", &format!("{servers}?sentinel-password=wrong")]);
    assert_eq!(code(&wrong), 69, "{}", stderr(&wrong));
    assert!(stderr(&wrong).contains("WRONGPASS"), "{}", stderr(&wrong));
    for said in [&output.stdout, &output.stderr, &wrong.stderr] {
        assert!(!String::from_utf8_lossy(said).contains(password));
    }
    signal(&child, Signal::SIGINT);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// `up` with its own answer to SIGHUP from before it began, whatever the tests themselves were started with.
fn up_where_hang_up_is(handler: SigHandler, dir: &Path) -> (Child, String) {
    let mut command = locklab(dir);
    // SAFETY: sigaction is async-signal-safe and touches only the child.
    unsafe {
        command.pre_exec(move || {
            nix::sys::signal::signal(Signal::SIGHUP, handler)?;
            Ok(())
        });
    }
    up_by(command, dir, &["single"])
}

#[test]
fn the_end_of_its_terminal_is_as_ctrl_c_unless_nohup_was_said() {
    let dir = tempfile::tempdir().unwrap();
    let (mut child, _) = up_where_hang_up_is(SigHandler::SigDfl, dir.path());
    signal(&child, Signal::SIGHUP);
    signal(&child, Signal::SIGHUP);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(processes_of(dir.path(), child.id()), Vec::<String>::new());

    let (mut child, url) = up_where_hang_up_is(SigHandler::SigIgn, dir.path());
    signal(&child, Signal::SIGHUP);
    let output = run(dir.path(), &["lock", &url, "orders", "--", "true"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    signal(&child, Signal::SIGINT);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn detached_servers_outlive_their_starter_until_they_are_taken_down() {
    let dir = tempfile::tempdir().unwrap();
    let (mut child, url) = up(dir.path(), &["masters", "--detach"]);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(url.starts_with("redlock://"), "{url}");
    let output = run(dir.path(), &["lock", &url, "orders", "--", "true"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let listed = ps(dir.path());
    let id = listed["running"][0]["id"].as_str().unwrap();
    let output = locklab(dir.path()).args(["down", id]).env("XDG_RUNTIME_DIR", dir.path()).output().unwrap();
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert_eq!(processes_of(dir.path(), child.id()), Vec::<String>::new());
}

#[test]
fn servers_die_with_a_starter_that_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let (mut child, _) = up(dir.path(), &["sentinel"]);
    assert!(processes_of(dir.path(), child.id()).len() > 6, "six servers and their starter");
    signal(&child, Signal::SIGKILL);
    child.wait().unwrap();
    until("no server is left", || processes_of(dir.path(), child.id()).is_empty());
}

#[test]
fn what_cannot_be_started_is_said_with_its_exit_code() {
    let dir = tempfile::tempdir().unwrap();
    let unknown = run(dir.path(), &["up", "sinlge"]);
    assert_eq!(code(&unknown), 64);
    assert!(stderr(&unknown).contains("single"), "names what there is: {}", stderr(&unknown));

    let taken = std::net::TcpListener::bind("127.0.0.11:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let in_use = run(dir.path(), &["up", "single", "--port", &port, "--out", "a"]);
    assert_eq!(code(&in_use), 69);
    assert!(stderr(&in_use).contains(&port), "names the port: {}", stderr(&in_use));

    let missing =
        locklab(dir.path()).args(["up", "single", "--out", "b"]).env("PATH", dir.path()).output().unwrap();
    assert_eq!(code(&missing), 69);
    assert!(stderr(&missing).contains("redis-server"), "names the package: {}", stderr(&missing));

    let broken = run(dir.path(), &["up", "single", "--config", "no-such-directive=1", "--out", "c"]);
    assert_eq!(code(&broken), 64);
    assert!(stderr(&broken).contains("no-such-directive"), "shows the log: {}", stderr(&broken));
    assert_eq!(stdout(&broken), "", "nothing but a URL belongs there");
    let lines = "kind = \"single\"\nconfig = { apendonly = \"no\" }\n";
    std::fs::write(dir.path().join("typo.toml"), lines).unwrap();
    let broken = run(dir.path(), &["up", "typo.toml", "--out", "d"]);
    assert_eq!(code(&broken), 65, "the file's fault: {}", stderr(&broken));

    for port in ["0", "65534", "65535"] {
        let refused = run(dir.path(), &["up", "single", "--port", port, "--out", "e"]);
        assert_eq!(code(&refused), 64, "{}", stderr(&refused));
        assert!(stderr(&refused).contains("from 1 to 65533"));
    }
    let file = run(dir.path(), &["up", "single", "--out", "typo.toml"]);
    assert_eq!(code(&file), 64);
    assert!(stderr(&file).contains("typo.toml is not a directory"), "{}", stderr(&file));
}

#[test]
fn servers_whose_url_cannot_be_written_do_not_stay() {
    for flags in [&[][..], &["--detach"]] {
        let dir = tempfile::tempdir().unwrap();
        let full = std::fs::File::create("/dev/full").unwrap();
        let mut up = locklab(dir.path())
            .args(["up", "single", "--out", "servers"])
            .args(flags)
            .stdout(full)
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        support::until("it ends by itself", || up.try_wait().unwrap().is_some());
        assert_eq!(up.wait().unwrap().code(), Some(69));
        assert_eq!(support::processes_of(dir.path(), up.id()), [""; 0]);
    }
}

#[test]
fn a_file_says_what_is_started_and_whatever_is_wrong_in_it_is_said_together() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(
        dir.path().join("lab.toml"),
        "[topology]\nkind = \"masters\"\npersistence = \"aof-always\"\ntls = true\nacl = true\n\
         masters = 3\n",
    )
    .unwrap();
    let (mut child, url) = up(dir.path(), &["lab.toml"]);
    assert!(url.starts_with("redlocks://locklab:"), "{url}");
    let password = url.split([':', '@']).nth(2).unwrap().to_owned();
    let output = run(dir.path(), &["lock", &url, "orders", "--kind", "redlock", "--", "true"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let listed = ps(dir.path());
    assert!(!listed.to_string().contains(&password), "{listed}");
    assert_eq!(listed["running"][0]["nodes"][2]["name"], "n3");
    assert_eq!(listed["running"][0]["server"]["speaks_tls"], true);
    signal(&child, Signal::SIGINT);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(processes_of(dir.path(), child.id()), Vec::<String>::new());

    std::fs::write(dir.path().join("bad.toml"), "[topology]\nkind = \"ring\"\ntsl = true\n").unwrap();
    let bad = run(dir.path(), &["up", "bad.toml"]);
    assert_eq!(code(&bad), 65);
    let said = stderr(&bad);
    assert!(said.contains("bad.toml:2:8") && said.contains("bad.toml:3:1"), "{said}");
    assert_eq!(code(&run(dir.path(), &["up", "absent.toml"])), 65);
}
