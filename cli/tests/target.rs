//! Scenarios on somebody else's servers: nothing is started or ended there, no foreign key is touched, and
//! what cannot be done is said.
#![allow(missing_docs)]

mod support;

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Output, Stdio};

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
    let mut args = vec!["chaos", "theirs.toml", "--target", url, "--seed", "7", "--json"];
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

#[test]
fn somebody_elses_server_drops_the_connections_of_one_client() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start();
    scenario(dir.path(), "[[faults]]\nat = \"500ms\"\nfault = \"client-kill\"\non = \"client 1\"\n");
    let output = chaos(dir.path(), &server.url(), &[]);
    assert_eq!(code(&output), 0, "{}{}", stdout(&output), stderr(&output));
    assert_eq!(first_fault(&output)["bit"], true, "{}", stdout(&output));
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
    assert!(removed.is_some_and(|line| !line.starts_with("0 keys")), "some were there: {said}");
    assert_eq!(keys(&server), ["theirs"], "{said}");
}

#[test]
fn what_can_be_said_without_the_servers_is_said_without_them() {
    let dir = tempfile::tempdir().unwrap();
    scenario(dir.path(), "[[faults]]\nat = \"300ms\"\nfault = \"client-kill\"\non = \"master\"\n");
    let nobody = "redis://127.0.0.1:1";
    let output = chaos(dir.path(), nobody, &["--dry-run"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    // An address that nobody has.
    let far = "redis://192.0.2.1:6379";
    let output = chaos(dir.path(), far, &["--yes-this-is-mine"]);
    assert_eq!(code(&output), 64, "{}", stderr(&output));
    let said = stderr(&output);
    assert!(said.contains("theirs.toml:9:1:") && said.contains("--allow client-kill"), "{said}");
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
    assert!(said.contains("theirs.toml:9:1:") && said.contains("[hooks] pause ="), "{said}");
    assert!(!dir.path().join("runs").exists(), "nothing half-written");

    let pid = server.pid();
    let hooks = format!("[hooks]\npause = \"kill -STOP {pid}\"\npause-heal = \"kill -CONT {pid}\"\n");
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
    assert!(stderr(&output).contains("--yes-this-is-mine"), "{}", stderr(&output));
    let unknown = chaos(dir.path(), "redis://127.0.0.1:1", &["--allow", "flushal"]);
    assert_eq!(code(&unknown), 64);
    assert!(stderr(&unknown).contains("flushall"), "{}", stderr(&unknown));
    let nobody = chaos(dir.path(), "redis://127.0.0.1:1", &[]);
    assert_eq!(code(&nobody), 69, "{}", stderr(&nobody));
}

/// Servers that are somebody else's to the run under test, and their URL; none where they cannot be started.
fn up(dir: &Path, what: &[&str]) -> (Child, String) {
    let mut theirs =
        locklab(dir).arg("up").args(what).env("XDG_RUNTIME_DIR", dir).stdout(Stdio::piped()).spawn().unwrap();
    let mut url = String::new();
    let out = theirs.stdout.take().unwrap();
    BufReader::new(out).read_line(&mut url).unwrap();
    (theirs, url.trim().to_owned())
}

/// What the first server of another system says to bytes, until it says nothing more for a while.
#[cfg(feature = "baselines")]
fn said(url: &str, asked: &[&[u8]]) -> String {
    use std::io::{Read as _, Write as _};
    let (_, rest) = url.split_once("://").unwrap();
    let host = rest.split('@').next_back().unwrap();
    let host = host.split([',', '/']).next().unwrap();
    let mut server = std::net::TcpStream::connect(host).unwrap();
    let second = std::time::Duration::from_secs(1);
    server.set_read_timeout(Some(second)).unwrap();
    let mut all = Vec::new();
    for part in asked {
        server.write_all(part).unwrap();
        let mut bytes = [0; 4096];
        if let Ok(read) = server.read(&mut bytes) {
            all.extend(&bytes[..read]);
        }
    }
    // What was sent in pieces.
    let _ = server.read_to_end(&mut all);
    String::from_utf8_lossy(&all).into_owned()
}

/// How many keys, nodes or rows are there; a table that is not there yet has none.
#[cfg(feature = "baselines")]
fn left_at(url: &str) -> u64 {
    const ROWS: &str = "SELECT CONCAT('rows=', COUNT(*)) AS n FROM locklab_locks";
    let (text, word) = match url.split_once("://").unwrap().0 {
        "etcd" => {
            let body = r#"{"key": "AA==", "range_end": "AA==", "count_only": true}"#;
            let head = format!("POST /v3/kv/range HTTP/1.0\r\nContent-Length: {}\r\n\r\n", body.len());
            (said(url, &[(head + body).as_bytes()]), "\"count\":\"")
        }
        "zookeeper" => (said(url, &[b"srvr"]), "Node count: "),
        "mysql" => {
            // A length of three bytes and a number before each; the answer to the greeting: 4.1 and plugins
            // of its own, no password.
            let mut login = vec![0; 36];
            login[..8].copy_from_slice(&[0, 0, 0, 1, 0x08, 0x82, 0x08, 0]);
            login.extend(b"root\0\0locklab\0mysql_native_password\0");
            login[0] = login.len() as u8 - 4;
            let mut query = vec![ROWS.len() as u8 + 1, 0, 0, 0, 3];
            query.extend(ROWS.as_bytes());
            (said(url, &[b"", &login, &query]), "rows=")
        }
        _ => {
            let output = std::process::Command::new("psql").args([url, "-tAc", ROWS]).output().unwrap();
            (stdout(&output), "rows=")
        }
    };
    let number = text.split(word).nth(1).unwrap_or("0");
    let end = number.find(|c: char| !c.is_ascii_digit()).unwrap_or(number.len());
    number[..end].parse().unwrap()
}

/// What clients and proxies can do to them is done; what their owner alone can do, and what Redis alone has,
/// is refused.
#[cfg(feature = "baselines")]
fn another_systems_servers(kind: &str, subject: &str) {
    let dir = support::scratch();
    let dir = dir.path();
    let (mut theirs, url) = up(dir, &[kind]);
    if url.is_empty() {
        return support::skipped(&format!("{kind} does not start here"));
    }
    let before = left_at(&url);
    let with = ["--subject", subject];
    let bit = |faults: &str| {
        scenario(dir, faults);
        let text = fs::read_to_string(dir.join("theirs.toml")).unwrap();
        let text = text
            .replace("1500ms", "3s")
            .replace("single", kind)
            .replace("[lock]", &format!("[lock]\nsubject = \"{subject}\""));
        fs::write(dir.join("theirs.toml"), text).unwrap();
        let output = chaos(dir, &url, &with);
        assert_eq!(code(&output), 0, "{}{}", stdout(&output), stderr(&output));
        assert_eq!(first_fault(&output)["bit"], true, "{}", stdout(&output));
        let run: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
        assert_eq!(run["scenarios"][0]["topology"], kind);
        let server = run["scenarios"][0]["server"].as_str().unwrap();
        assert!(server.contains("-") && server.contains('.'), "{server}");
        assert!(!stderr(&output).contains("may have stayed"));
    };
    let all = if kind.ends_with('3') { "n1, n2, n3" } else { "n1" };
    bit(&format!(
        "[[faults]]\nat = \"500ms\"\nfor = \"500ms\"\nfault = \"partition\"\non = \"client 1 | {all}\"\n"
    ));
    bit("[[faults]]\nat = \"500ms\"\nfor = \"300ms\"\nfault = \"pause\"\non = \"holder\"\n");
    let args = [
        "bench",
        "--target",
        &url,
        "--workload",
        "uncontended",
        "--duration",
        "200ms",
        "--rounds",
        "1",
        "--json",
    ];
    let output = run(dir, &args);
    assert!(code(&output) <= 2, "{}", stderr(&output));
    let run: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    let servers = &run["meta"]["environment"]["servers"];
    let scheme = url.split("://").next().unwrap();
    let version = servers[scheme]["version"].as_str().unwrap();
    assert!(version.contains('.'), "{servers}");
    // Keys of etcd go when their leases are over.
    let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while left_at(&url) != before {
        assert!(std::time::Instant::now() < until, "{before:?} were there, and now {:?}", left_at(&url));
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    for (fault, why) in
        [("fault = \"kill\"", "[hooks] kill ="), ("fault = \"flushall\"", "is for Redis alone")]
    {
        scenario(dir, &format!("[[faults]]\nat = \"1s\"\non = \"master\"\n{fault}\n"));
        let refused = chaos(dir, &url, &with);
        assert_eq!(code(&refused), 65, "{}", stderr(&refused));
        assert!(stderr(&refused).contains(why), "{}", stderr(&refused));
    }
    scenario(dir, "");
    let of_redis = chaos(dir, &url, &["--subject", "lock-core:fenced"]);
    assert_eq!(code(&of_redis), 64, "{}", stderr(&of_redis));
    assert!(stderr(&of_redis).contains("is no lock of"));

    support::signal(&theirs, nix::sys::signal::Signal::SIGINT);
    assert_eq!(theirs.wait().unwrap().code(), Some(0));
    let gone = chaos(dir, &url, &with);
    assert_eq!(code(&gone), 69, "{}", stderr(&gone));
}

#[cfg(feature = "baselines")]
#[test]
fn somebody_elses_etcd_is_tried_like_redis() {
    another_systems_servers("etcd", "etcd:lock");
    another_systems_servers("etcd-3", "etcd:lock");
}

#[cfg(feature = "baselines")]
#[test]
fn somebody_elses_zookeeper_is_tried_like_redis() {
    another_systems_servers("zookeeper", "zookeeper:ephemeral");
    another_systems_servers("zookeeper-3", "zookeeper:ephemeral");
}

#[cfg(feature = "baselines")]
#[test]
fn somebody_elses_databases_are_tried_like_redis() {
    another_systems_servers("mysql", "mysql:row");
    another_systems_servers("postgres", "postgres:row");
}

/// No server of MongoDB is at hand, so this is as far as it goes.
#[cfg(feature = "mongodb")]
#[test]
fn a_mongodb_that_does_not_answer_is_missing() {
    let dir = tempfile::tempdir().unwrap();
    scenario(dir.path(), "");
    let with = ["--subject", "mongodb:find-and-modify"];
    let url = "mongodb://app:sesame@127.0.0.1:1/app";
    for command in ["chaos", "audit"] {
        let output = match command {
            "chaos" => chaos(dir.path(), url, &with),
            _ => run(dir.path(), &["audit", with[1], "--target", url]),
        };
        assert_eq!(code(&output), 69, "{command}: {}", stderr(&output));
        let said = stderr(&output);
        assert!(said.contains("does not answer") && !said.contains("sesame"), "{said}");
    }
}

#[test]
fn what_is_wrong_with_another_systems_url_is_said_without_its_servers() {
    let dir = tempfile::tempdir().unwrap();
    scenario(dir.path(), "");
    for (url, why) in [
        ("etcd://127.0.0.1:1,127.0.0.1:2", "take 1 or 3"),
        ("mongodb://127.0.0.1:1,127.0.0.1:2", "take 1"),
        ("zookeeper://192.0.2.1", "--yes-this-is-mine"),
    ] {
        let output = chaos(dir.path(), url, &[]);
        assert_eq!(code(&output), 64, "{}", stderr(&output));
        assert!(stderr(&output).contains(why), "{}", stderr(&output));
    }
}

#[test]
fn servers_that_speak_tls_are_steered_over_tls() {
    let dir = support::scratch();
    let dir = dir.path();
    let (mut theirs, url) = up(dir, &["single", "--tls"]);
    let url = url.as_str();
    assert!(url.starts_with("rediss://"), "{url}");

    scenario(dir, "[[faults]]\nat = \"500ms\"\nfault = \"client-kill\"\non = \"master\"\n");
    let output = chaos(dir, url, &[]);
    assert_eq!(code(&output), 0, "{}{}", stdout(&output), stderr(&output));
    assert_eq!(first_fault(&output)["bit"], true, "{}", stdout(&output));

    scenario(
        dir,
        "[[faults]]\nat = \"300ms\"\nfor = \"300ms\"\nfault = \"cut\"\non = \"client 1 <-> master\"\n",
    );
    let refused = chaos(dir, url, &[]);
    assert_eq!(code(&refused), 65);
    assert!(stderr(&refused).contains("tls-server-name=NAME"), "{}", stderr(&refused));
    // The certificates of a run are for `localhost` too.
    let named = format!("{url}&tls-server-name=localhost");
    let output = chaos(dir, &named, &[]);
    assert_eq!(code(&output), 0, "{}{}", stdout(&output), stderr(&output));
    assert_eq!(first_fault(&output)["bit"], true, "{}", stdout(&output));
    support::signal(&theirs, nix::sys::signal::Signal::SIGINT);
    assert_eq!(theirs.wait().unwrap().code(), Some(0));
}
