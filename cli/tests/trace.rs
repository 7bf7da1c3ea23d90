//! `locklab trace` and `locklab doctor TARGET` as people and scripts see them, on servers of their own.
#![allow(missing_docs)]

mod support;

use std::process::Stdio;

use lock_core::Kind;
use nix::sys::signal::Signal;
use serde_json::Value;
use support::{Server, code, locklab, run, signal, stderr, stdout, until};

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn a_trace_shows_a_locks_life_in_the_format_of_the_reference() {
    let server = Server::start();
    let dir = tempfile::tempdir().unwrap();
    let output = run(dir.path(), &["trace", &server.url(), "--name", "orders", "--json"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let trace = json(&stdout(&output));
    let events = trace["events"].as_array().expect("events");
    let find = |step: &str, client: &str, what: &str| {
        let found = events.iter().find(|event| {
            event["step"] == step
                && event["client"] == client
                && (event["script"] == what || event["command"] == what)
                // A new server knows no script: it says so once, and is told.
                && !event["reply"].as_str().is_some_and(|reply| reply.contains("NOSCRIPT"))
        });
        found.unwrap_or_else(|| panic!("no {what} of the {client} in {step}: {trace}"))
    };
    let channel = "redisson_lock__channel:{orders}";
    let acquire = find("acquire", "holder", "acquire");
    assert_eq!(acquire["keys"], serde_json::json!(["orders"]));
    assert_eq!(acquire["reply"], "nil");
    // What the script calls, as MONITOR shows it: whether it is free, the count, the lease.
    let owner = acquire["args"][1].as_str().expect("an owner");
    let calls = serde_json::json!(["pttl orders", format!("hset orders {owner} 1"), "pexpire orders 1500"]);
    assert_eq!(acquire["inner"], calls, "{trace}");
    let busy = find("wait", "waiter", "acquire");
    let left: i64 = busy["reply"].as_str().unwrap().parse().expect("what is left");
    assert!(left > 0 && left <= 1500, "{left}");
    let subscribe = find("wait", "waiter", "SUBSCRIBE");
    assert_eq!(subscribe["keys"], serde_json::json!([channel]));
    assert_eq!(find("renew", "holder", "extend")["reply"], "1");
    let release = find("release", "holder", "release");
    // Where the channel is as usual the script knows it.
    assert_eq!(release["keys"], serde_json::json!(["orders"]));
    // Freed, and one client listens.
    assert_eq!(release["reply"], "2");
    assert_eq!(find("release", "waiter", "message")["args"], serde_json::json!(["0"]));
    let calls = [format!("hdel orders {owner}"), format!("publish {channel} 0")];
    assert_eq!(release["inner"], serde_json::json!(calls));
    assert_eq!(subscribe["inner"], Value::Null);
    find("release", "waiter", "acquire");
    find("last release", "waiter", "release");
    assert_eq!(server.cli(&["EXISTS", "orders"]), "0");
}

/// Keys that nothing would ever remove.
fn endless(server: &Server) -> Vec<String> {
    let keys = server.cli(&["KEYS", "*"]);
    let mut keys: Vec<_> = keys.lines().map(str::to_owned).collect();
    keys.retain(|key| server.cli(&["PTTL", key]) == "-1");
    keys
}

#[test]
fn a_trace_of_every_kind_shows_a_wait_and_leaves_nothing() {
    let server = Server::start();
    let dir = tempfile::tempdir().unwrap();
    let list = json(&stdout(&run(dir.path(), &["list", "subjects", "lock-core", "--json"])));
    let items = list["items"].as_array().unwrap().iter();
    let names = items.filter_map(|item| item["name"].as_str()?.strip_prefix("lock-core:"));
    let kinds: Vec<Kind> = names.filter_map(|name| name.parse().ok()).collect();
    assert_eq!(kinds, Kind::ALL);
    let traces = kinds.into_iter().map(|kind| {
        let url = match kind {
            Kind::Redlock => format!("redlock://127.0.0.1:{}", server.port),
            _ => server.url(),
        };
        let mut command = locklab(dir.path());
        command.args(["trace", &url, "--json", "--kind", kind.name()]);
        let (out, err) = (Stdio::piped(), Stdio::piped());
        (kind, command.stdout(out).stderr(err).spawn().unwrap())
    });
    // All at once: each waits for a renewal.
    for (kind, child) in traces.collect::<Vec<_>>() {
        let output = child.wait_with_output().unwrap();
        assert_eq!(code(&output), 0, "{kind}: {}", stderr(&output));
        let trace = json(&stdout(&output));
        let held = match kind {
            Kind::Read => "write",
            kind => kind.name(),
        };
        assert_eq!(trace["holder_kind"], held);
        let events = trace["events"].as_array().unwrap();
        let has = |step: &str, client: &str| {
            let of = |event: &&Value| event["step"] == step && event["client"] == client;
            events.iter().any(|event| of(&event))
        };
        assert!(has("wait", "waiter"), "{kind}: {trace}");
        assert!(has("last release", "waiter"), "{kind}: {trace}");
        assert!(!has("last release", "holder"), "{kind}: {trace}");
    }
    assert_eq!(endless(&server), Vec::<String>::new());
}

#[test]
fn an_interrupted_trace_gives_back_what_it_holds() {
    let server = Server::start();
    let dir = tempfile::tempdir().unwrap();
    for kind in ["reentrant", "fenced"] {
        let child = locklab(dir.path())
            .args(["trace", &server.url(), "--kind", kind])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        until("its lock is held", || !server.cli(&["KEYS", "locklab:trace:*"]).is_empty());
        signal(&child, Signal::SIGINT);
        let output = child.wait_with_output().unwrap();
        assert_eq!(code(&output), 130, "{kind}: {}", stderr(&output));
        let said = stderr(&output);
        assert!(said.contains("interrupted"), "{said}");
        assert_eq!(server.cli(&["KEYS", "locklab:trace:*"]), "");
    }
    assert_eq!(endless(&server), Vec::<String>::new());
}

#[test]
fn a_name_that_cannot_be_traced_is_wrong_usage() {
    let server = Server::start();
    let dir = tempfile::tempdir().unwrap();
    server.cli(&["HSET", "held", "somebody-else:1", "1"]);
    server.cli(&["SADD", "set", "x"]);
    for (name, says) in [("held", "--name"), ("set", "TYPE set")] {
        let output = run(dir.path(), &["trace", &server.url(), "--name", name]);
        assert_eq!(code(&output), 64, "{name}: {}", stderr(&output));
        assert!(stderr(&output).contains(says), "{}", stderr(&output));
    }
}

#[test]
fn a_trace_is_readable_and_keeps_passwords_to_itself() {
    let server = Server::start();
    server.cli(&["CONFIG", "SET", "requirepass", "s3cret"]);
    let dir = tempfile::tempdir().unwrap();
    let url = format!("redis://:s3cret@127.0.0.1:{}", server.port);
    let output = run(dir.path(), &["trace", &url, "--kind", "plain"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let text = stdout(&output);
    for part in ["acquire: the holder", "SET  locklab:trace:", "→ OK", "EVALSHA release_plain"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let inner = text.lines().filter(|line| line.trim().starts_with("get locklab:trace:"));
    assert!(inner.count() >= 2, "calls of the scripts that renew and release: {text}");
    assert!(!text.contains("s3cret"), "{text}");
    // Who may not ask for MONITOR sees the rest; so does who does not want to.
    server.cli(&["-a", "s3cret", "ACL", "SETUSER", "app", "on", ">pw", "~*", "&*", "+@all", "-monitor"]);
    let app = format!("redis://app:pw@127.0.0.1:{}", server.port);
    for (url, flag, says) in [(&app, "--json", "MONITOR at 127.0.0.1"), (&url, "--no-inner", "")] {
        let output = run(dir.path(), &["trace", url, "--kind", "plain", flag]);
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        assert!(stdout(&output).contains("release_plain"));
        assert!(!stdout(&output).contains("get locklab:trace:"), "{}", stdout(&output));
        assert!(stderr(&output).contains(says), "{}", stderr(&output));
    }
    let output = run(dir.path(), &["trace", "redis://127.0.0.1:1"]);
    assert_eq!(code(&output), 69, "{}", stderr(&output));
    // It writes a lock there and asks for MONITOR.
    let output = run(dir.path(), &["trace", "redis://192.0.2.1:6379"]);
    assert_eq!(code(&output), 64, "{}", stderr(&output));
    assert!(stderr(&output).contains("--yes-this-is-mine"));
    let output = run(dir.path(), &["trace", "nonsense"]);
    assert_eq!(code(&output), 64, "{}", stderr(&output));
}

#[test]
fn doctor_finds_the_valkey_that_servers_are_started_from() {
    let dir = tempfile::tempdir().unwrap();
    let path = std::env::var_os("PATH").unwrap();
    let mut paths = std::env::split_paths(&path).map(|folder| folder.join("redis-server"));
    let program = paths.find(|path| path.is_file()).expect("a server");
    let output = locklab(dir.path())
        .args(["doctor", "--json"])
        .env("LOCKLAB_VALKEY_SERVER", &program)
        .output()
        .unwrap();
    let report = json(&stdout(&output));
    let findings = report["findings"].as_array().unwrap().iter();
    let valkey = findings.filter(|finding| finding["what"] == "valkey-server");
    let valkey: Vec<_> = valkey.collect();
    let found = valkey[0]["found"].as_str().unwrap();
    assert_eq!(valkey[0]["state"], "ok", "{report}");
    assert!(found.contains(program.to_str().unwrap()), "{found}");
}

#[test]
fn doctor_judges_a_servers_settings() {
    let server = Server::start();
    let dir = tempfile::tempdir().unwrap();
    let url = server.url();
    let output = run(dir.path(), &["doctor", &url, "--json"]);
    assert_eq!(code(&output), 1, "nothing is written to a disk");
    let report = json(&stdout(&output));
    assert_eq!(report["ok"], false);
    let node = &report["nodes"][0];
    assert_eq!(node["verdict"], "danger");
    assert_eq!(node["concerns"][0]["kind"], "forgets");
    assert_eq!(node["settings"]["maxmemory-policy"], "noeviction");
    let text = stdout(&run(dir.path(), &["doctor", &url]));
    assert!(text.contains("remedy: CONFIG SET appendonly yes"), "{text}");

    server.cli(&["CONFIG", "SET", "appendonly", "yes"]);
    let output = run(dir.path(), &["doctor", &url, "--json"]);
    assert_eq!(code(&output), 0, "{}", stdout(&output));
    let report = json(&stdout(&output));
    assert_eq!(report["nodes"][0]["verdict"], "caution", "once a second");
    server.cli(&["CONFIG", "SET", "appendfsync", "always"]);
    let report = json(&stdout(&run(dir.path(), &["doctor", &url, "--json"])));
    assert_eq!(report["nodes"][0]["verdict"], "good", "{report}");

    let nobody = run(dir.path(), &["doctor", "redis://127.0.0.1:1"]);
    assert_eq!(code(&nobody), 69, "{}", stderr(&nobody));
    let nonsense = run(dir.path(), &["doctor", "nonsense"]);
    assert_eq!(code(&nonsense), 64, "{}", stderr(&nonsense));
}

/// What locks need beside good settings, and how to have it.
#[test]
fn doctor_names_what_a_server_refuses() {
    let server = Server::start();
    let dir = tempfile::tempdir().unwrap();
    for (rule, kind, remedy) in [
        ("resetchannels", "messages", "+subscribe"),
        ("-subscribe", "messages", "+subscribe"),
        ("-client|tracking", "tracking", "+client|tracking"),
        ("-@scripting", "scripts", "+eval"),
        ("-pexpire", "scripts", "+@write"),
    ] {
        server.cli(&["ACL", "SETUSER", "app", "reset", "on", ">secret", "~*", "&*", "+@all", rule]);
        let url = server.url().replace("redis://", "redis://app:secret@");
        let output = run(dir.path(), &["doctor", &url, "--json"]);
        assert_eq!(code(&output), 1, "nothing is written to a disk");
        let report = json(&stdout(&output));
        let concerns = report["nodes"][0]["concerns"].as_array().expect("some");
        let named: Vec<_> = concerns.iter().filter(|concern| concern["kind"] == kind).collect();
        assert_eq!(named.len(), 1, "{rule}: {report}");
        let text = stdout(&run(dir.path(), &["doctor", &url]));
        assert!(text.contains(remedy) && !text.contains("secret"), "{rule}: {text}");
    }
    // A user who may all is told of none of them.
    let report = json(&stdout(&run(dir.path(), &["doctor", &server.url(), "--json"])));
    let concerns = report["nodes"][0]["concerns"].as_array().expect("some");
    assert!(concerns.iter().all(|concern| concern["kind"] == "forgets"), "{report}");
}

/// The names of a user's own locks are known by how they begin: it has all that they need, or it is said.
#[test]
fn doctor_asks_names_by_their_prefix() {
    let server = Server::start();
    let dir = tempfile::tempdir().unwrap();
    // As the book advises.
    let keys = ["~orders*", "~redisson_*orders*", "~locklab_*orders*", "~{orders*", "&redisson_*orders*"];
    let user = ["ACL", "SETUSER", "app", "on", ">secret", "+@all"];
    server.cli(&[&user[..], &keys].concat());
    let url = server.url().replace("redis://", "redis://app:secret@");
    for (prefix, kinds) in [
        (&[][..], &["forgets", "unread"][..]),
        (&["--prefix", "orders"], &["forgets"]),
        (&["--prefix", "other"], &["keys", "forgets", "messages"]),
    ] {
        let args = [&["doctor", &url][..], prefix].concat();
        let report = json(&stdout(&run(dir.path(), &[&args[..], &["--json"]].concat())));
        let concerns = report["nodes"][0]["concerns"].as_array().expect("some");
        let found: Vec<_> = concerns.iter().map(|concern| concern["kind"].as_str().unwrap()).collect();
        assert_eq!(found, kinds, "{report}");
        let text = stdout(&run(dir.path(), &args));
        assert_eq!(text.contains("~NAME*"), kinds.len() > 1, "{text}");
        assert_eq!(text.contains("--prefix"), prefix.is_empty(), "{text}");
    }
}
