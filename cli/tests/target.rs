//! Scenarios on somebody else's servers: nothing is started or ended there, no foreign key is touched, and what cannot be done is said.
#![allow(missing_docs)]

mod support;

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Output, Stdio};

use support::{Server, code, locklab, run, stderr, stdout};

fn scenario(dir: &Path, faults: &str) -> String {
    let text = format!(
        "name = \"theirs\"\n[topology]\nkind = \"single\"\n[lock]\nlease = \"2s\"\n[load]\nclients = 2\nduration = \"1500ms\"\n\
         {faults}\n[expect]\ncontract = \"clean\"\n"
    );
    fs::write(dir.join("theirs.toml"), text).unwrap();
    "theirs.toml".to_owned()
}

fn chaos(dir: &Path, url: &str, more: &[&str]) -> Output {
    let mut args = vec![
        "chaos",
        "theirs.toml",
        "--target",
        url,
        "--seed",
        "7",
        "--json",
    ];
    args.extend(more);
    run(dir, &args)
}

fn first_fault(output: &Output) -> serde_json::Value {
    let run: serde_json::Value = serde_json::from_str(&stdout(output)).unwrap();
    run["scenarios"][0]["faults"][0].clone()
}

#[test]
fn somebody_elses_server_is_loaded_and_nothing_of_theirs_is_touched() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start();
    server.cli(&["SET", "theirs", "1"]);
    server.cli(&["SET", "locklab:another-run:1:orders", "1"]);
    scenario(
        dir.path(),
        "[[faults]]\nat = \"300ms\"\nfor = \"300ms\"\nfault = \"cut\"\non = \"client 1 <-> master\"\n\
         [[faults]]\nat = \"900ms\"\nfault = \"client-kill\"\non = \"master\"\n",
    );
    let commands = |name: &str| {
        let stats = server.cli(&["INFO", "commandstats"]);
        stats.contains(&format!("cmdstat_{name}:"))
    };
    let output = chaos(dir.path(), &server.url(), &[]);
    assert_eq!(code(&output), 0, "{}{}", stdout(&output), stderr(&output));
    assert_eq!(first_fault(&output)["bit"], true, "{}", stdout(&output));
    assert_eq!(server.cli(&["GET", "theirs"]), "1");
    for name in ["flushall", "flushdb", "config|set", "shutdown", "debug"] {
        assert!(!commands(name), "{name} was sent");
    }
    assert_eq!(keys(&server), ["locklab:another-run:1:orders", "theirs"]);
}

fn keys(server: &Server) -> Vec<String> {
    let keys = server.cli(&["KEYS", "*"]);
    let mut keys: Vec<String> = keys.lines().map(str::to_owned).collect();
    keys.sort();
    keys
}

#[test]
fn a_benchmark_takes_its_keys_away_again() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start();
    server.cli(&["SET", "theirs", "1"]);
    let url = server.url();
    let subjects = "lock-core:fenced,lock-core:permits,lock-core:semaphore";
    let args = [
        "bench",
        "--target",
        &url,
        "--subject",
        subjects,
        "--workload",
        "uncontended",
        "--warmup",
        "0",
        "--duration",
        "200ms",
        "--rounds",
        "1",
        "--json",
        "--verbose",
    ];
    let output = run(dir.path(), &args);
    assert!(code(&output) <= 2, "{}", stderr(&output));
    let said = stderr(&output);
    let removed = said.lines().find(|line| line.contains("were removed"));
    assert!(
        removed.is_some_and(|line| !line.starts_with("0 keys")),
        "some were there: {said}"
    );
    assert_eq!(keys(&server), ["theirs"], "{said}");
}

#[test]
fn what_can_be_said_without_the_servers_is_said_without_them() {
    let dir = tempfile::tempdir().unwrap();
    scenario(
        dir.path(),
        "[[faults]]\nat = \"300ms\"\nfault = \"client-kill\"\non = \"master\"\n",
    );
    let nobody = "redis://127.0.0.1:1";
    let output = chaos(dir.path(), nobody, &["--dry-run"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    // An address that nobody has.
    let far = "redis://192.0.2.1:6379";
    let output = chaos(dir.path(), far, &["--yes-this-is-mine"]);
    assert_eq!(code(&output), 64, "{}", stderr(&output));
    let said = stderr(&output);
    assert!(
        said.contains("theirs.toml:9:1:") && said.contains("--allow client-kill"),
        "{said}"
    );
}

#[test]
fn a_fault_needs_the_owners_command_and_with_it_is_carried_out_and_undone() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start();
    let pause = "[[faults]]\nat = \"300ms\"\nfor = \"400ms\"\nfault = \"pause\"\non = \"master\"\n";
    scenario(dir.path(), pause);
    let refused = chaos(dir.path(), &server.url(), &[]);
    assert_eq!(code(&refused), 65, "{}", stderr(&refused));
    let said = stderr(&refused);
    assert!(
        said.contains("theirs.toml:9:1:") && said.contains("[hooks] pause ="),
        "{said}"
    );
    assert!(!dir.path().join("runs").exists(), "nothing half-written");

    let pid = server.pid();
    let hooks =
        format!("[hooks]\npause = \"kill -STOP {pid}\"\npause-heal = \"kill -CONT {pid}\"\n");
    scenario(dir.path(), &format!("{pause}{hooks}"));
    let output = chaos(dir.path(), &server.url(), &[]);
    assert_eq!(code(&output), 0, "{}{}", stdout(&output), stderr(&output));
    let fault = first_fault(&output);
    assert_eq!(fault["bit"], true, "{fault}");
    assert!(fault["healed_ns"].is_u64(), "{fault}");
    assert_eq!(server.cli(&["PING"]), "PONG");
}

#[test]
fn a_command_that_fails_proves_nothing_and_the_run_is_unknown() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start();
    scenario(
        dir.path(),
        "[[faults]]\nat = \"200ms\"\nfault = \"restart\"\non = \"master\"\n[hooks]\nrestart = \"sh -c 'echo no pod {node} >&2; exit 3'\"\n",
    );
    let output = chaos(dir.path(), &server.url(), &[]);
    assert_eq!(code(&output), 2, "{}{}", stdout(&output), stderr(&output));
    let proof = first_fault(&output)["proof"].to_string();
    assert!(proof.contains("no pod n1"), "{proof}");
}

#[test]
fn servers_beyond_this_machine_need_their_owners_word() {
    let dir = tempfile::tempdir().unwrap();
    scenario(dir.path(), "");
    let output = chaos(dir.path(), "redis://192.0.2.1:6379", &[]);
    assert_eq!(code(&output), 64, "{}", stderr(&output));
    assert!(
        stderr(&output).contains("--yes-this-is-mine"),
        "{}",
        stderr(&output)
    );
    let unknown = chaos(dir.path(), "redis://127.0.0.1:1", &["--allow", "flushal"]);
    assert_eq!(code(&unknown), 64);
    assert!(
        stderr(&unknown).contains("flushall"),
        "{}",
        stderr(&unknown)
    );
    let nobody = chaos(dir.path(), "redis://127.0.0.1:1", &[]);
    assert_eq!(code(&nobody), 69, "{}", stderr(&nobody));
}

#[test]
fn servers_that_speak_tls_are_steered_over_tls() {
    let dir = tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .unwrap();
    let dir = dir.path();
    let mut theirs = locklab(dir)
        .args(["up", "single", "--tls"])
        .env("XDG_RUNTIME_DIR", dir)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut url = String::new();
    let out = theirs.stdout.take().unwrap();
    BufReader::new(out).read_line(&mut url).unwrap();
    let url = url.trim();
    assert!(url.starts_with("rediss://"), "{url}");

    scenario(
        dir,
        "[[faults]]\nat = \"500ms\"\nfault = \"client-kill\"\non = \"master\"\n",
    );
    let output = chaos(dir, url, &[]);
    assert_eq!(code(&output), 0, "{}{}", stdout(&output), stderr(&output));
    assert_eq!(first_fault(&output)["bit"], true, "{}", stdout(&output));

    scenario(
        dir,
        "[[faults]]\nat = \"300ms\"\nfor = \"300ms\"\nfault = \"cut\"\non = \"client 1 <-> master\"\n",
    );
    let refused = chaos(dir, url, &[]);
    assert_eq!(code(&refused), 65);
    assert!(
        stderr(&refused).contains("tls-server-name=NAME"),
        "{}",
        stderr(&refused)
    );
    // The certificates of a run are for `localhost` too.
    let named = format!("{url}&tls-server-name=localhost");
    let output = chaos(dir, &named, &[]);
    assert_eq!(code(&output), 0, "{}{}", stdout(&output), stderr(&output));
    assert_eq!(first_fault(&output)["bit"], true, "{}", stdout(&output));
    support::signal(&theirs, nix::sys::signal::Signal::SIGINT);
    assert_eq!(theirs.wait().unwrap().code(), Some(0));
}
