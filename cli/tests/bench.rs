//! `locklab bench` as a script sees it: what is said of each row, and exit codes.
#![allow(missing_docs)]

mod support;

use std::collections::BTreeSet;
use std::process::Stdio;

use serde_json::Value;
use support::{Pty, Server, code, locklab, run, stderr, stdout, until};

/// One short window on a server of the test's own.
fn bench(server: &Server, args: &[&str]) -> (i32, Value, String) {
    let dir = tempfile::tempdir().unwrap();
    let url = server.url();
    let mut all = vec!["bench", "--json", "--seed", "7", "--target", &url];
    all.extend(["--rounds", "1", "--warmup", "100ms", "--duration", "400ms"]);
    all.extend(args);
    let output = run(dir.path(), &all);
    let json = serde_json::from_str(&stdout(&output)).unwrap_or(Value::Null);
    (code(&output), json, stderr(&output))
}

#[test]
fn an_open_loop_says_what_was_offered_and_shows_response_beside_service() {
    let server = Server::start();
    let subject = ["--subject", "lock-core:plain", "--workload", "uncontended"];
    let open = ["--rate", "100/s"];
    let (code, json, errors) = bench(&server, &[&subject[..], &open].concat());
    assert!([0, 2].contains(&code), "{code} {errors}");
    let row = &json["rows"][0];
    assert_eq!(row["measures"]["load"]["mode"], "open", "{row}");
    assert_eq!(row["measures"]["load"]["arrivals"], "constant");
    assert_eq!(row["measures"]["load"]["rate_per_s"], 100.0);
    assert!(row["measures"]["response_ns"]["n"].as_u64().unwrap() > 0);
    assert!(row["measures"]["pacing"]["lag_ns"]["n"].as_u64().unwrap() > 0);
    assert!(row["cycles_per_s"]["low"].is_null(), "one round has no interval");
}

#[test]
fn what_cannot_be_done_is_said_before_anything_starts() {
    let dir = tempfile::tempdir().unwrap();
    let args = ["bench", "--kind", "fair", "--subject", "baseline:set-nx-px"];
    let output = run(dir.path(), &args);
    assert_eq!(code(&output), 64, "{}", stderr(&output));
    assert!(stderr(&output).contains("fair"), "{}", stderr(&output));
    assert!(!dir.path().join("runs").exists());

    // Where no run can be kept: something else has the name.
    std::fs::write(dir.path().join("runs"), "").unwrap();
    let output = run(dir.path(), &["bench", "--duration", "100ms"]);
    assert_eq!(code(&output), 64, "{}", stderr(&output));
    let said = stderr(&output);
    assert!(said.contains("--out"), "{said}");
    assert_eq!(said.matches("cannot create").count(), 1, "{said}");
}

#[test]
fn a_kind_that_is_not_the_subjects_own_is_said_in_the_row() {
    let server = Server::start();
    let kind = |kind: &str| {
        let subject = ["--subject", "lock-core:plain", "--kind", kind];
        let load = ["--workload", "uncontended", "--tasks", "2"];
        let (code, json, errors) = bench(&server, &[subject, load].concat());
        assert!([0, 2].contains(&code), "{code} {errors}");
        assert_eq!(json["rows"][0]["subject"], "lock-core:plain");
        json["rows"][0]["measures"]["load"]["kind"].clone()
    };
    assert_eq!(kind("fair"), "fair");
    assert!(kind("plain").is_null());
}

#[test]
fn several_clients_are_processes_of_their_own() {
    let server = Server::start();
    let (code, json, errors) = bench(
        &server,
        &["--subject", "lock-core:plain", "--workload", "uncontended", "--clients", "2", "--tasks", "4"],
    );
    assert_eq!(code, 0, "{errors}");
    let load = &json["rows"][0]["measures"]["load"];
    assert_eq!((&load["clients"], &load["client_processes"]), (&2.into(), &true.into()));
    assert_eq!(json["rows"][0]["safety"]["state"], "clean");
}

#[test]
fn a_terminal_shows_rate_and_p99_while_it_is_measured() {
    let (server, dir) = (Server::start(), tempfile::tempdir().unwrap());
    let url = server.url();
    // A loop of a driver's own says what it did round by round.
    let own = &["--duration", "400ms", "--rounds", "40", "--own-loop"][..];
    for how in [&["--duration", "60s", "--rounds", "1"][..], own] {
        let mut command = locklab(dir.path());
        command.args(["bench", "--target", &url, "--subject", "lock-core:plain"]);
        command.args(how);
        let pty = Pty::of(&mut command);
        let mut child = pty.start(&mut command);
        let mut seen = String::new();
        until("the bar has a rate and a p99", || {
            seen += &pty.shown();
            seen.contains(" grants/s, p99 ") && seen.contains(" left ")
        });
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

#[test]
fn a_lock_that_runs_the_loop_itself_is_taken_at_its_word_and_not_judged() {
    let server = Server::start();
    let own = ["--own-loop", "--subject", "lock-core:plain,lock-core:fair"];
    let load = ["--tasks", "4", "--workload", "contended", "--rounds", "2"];
    let dir = tempfile::tempdir().unwrap();
    let url = server.url();
    let measured = ["--target", &url, "--warmup", "200ms", "--duration", "1s"];
    let all = [&["bench", "--json"][..], &measured, &own, &load].concat();
    let output = run(dir.path(), &all);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let json: Value = serde_json::from_str(&stdout(&output)).expect("a run");
    for row in json["rows"].as_array().expect("rows") {
        assert_eq!(row["measures"]["load"]["own_loop"], true, "{row}");
        assert_eq!(row["safety"]["state"], "unknown");
        assert!(row["handoff_ns"]["p50"].as_u64().unwrap() > 0, "{row}");
        assert!(row["server_cpu_us_per_cycle"].as_f64().unwrap() > 0.0);
        // What only a history says is absent, and never nought.
        assert!(row["measures"]["passing"].is_null(), "{row}");
    }
    let (code, _, errors) = bench(&server, &["--kind", "mutex"]);
    assert_eq!(code, 64, "{errors}");
    assert!(errors.contains("no lock has the kind `mutex`; there are"), "{errors}");
    // A driver says its kinds only in its hello.
    let driver = [
        "--subject",
        concat!("exec:python3 ", env!("CARGO_MANIFEST_DIR"), "/../examples/driver.py"),
        "--kind",
        "fair",
    ];
    let (code, _, errors) = bench(&server, &driver);
    assert_eq!(code, 64, "{errors}");
    assert!(errors.contains("it has no kind `fair`; it has plain"), "{errors}");
    let (code, _, errors) = bench(&server, &["--own-loop", "--workload", "zipf"]);
    assert_eq!(code, 64, "{errors}");
    assert!(errors.contains("contended or chain"), "{errors}");
}

#[test]
fn a_sweep_is_a_curve_by_level() {
    let server = Server::start();
    let (code, json, errors) =
        bench(&server, &["--sweep", "tasks", "--tasks", "5", "--subject", "lock-core:plain"]);
    assert!([0, 2].contains(&code), "{code} {errors}");
    let sweep = &json["sweeps"][0];
    assert_eq!(sweep["over"], "tasks");
    let levels: Vec<f64> =
        sweep["points"].as_array().unwrap().iter().map(|point| point["level"].as_f64().unwrap()).collect();
    assert_eq!(levels, [1.0, 2.0, 5.0]);
}

#[test]
fn a_sweep_over_shards_says_what_a_client_costs() {
    let dir = tempfile::tempdir().unwrap();
    let sweep = "bench --json --sweep shards --shards 2 --subject lock-core:plain --rounds 1 --warmup 50ms";
    let output = run(dir.path(), &sweep.split(' ').collect::<Vec<_>>());
    assert!([0, 2].contains(&code(&output)), "{}", stderr(&output));
    let json: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let sweep = &json["sweeps"][0];
    assert_eq!((&sweep["over"], &sweep["topology"]), (&"shards".into(), &"cluster".into()));
    for shards in [1, 2] {
        let point = &sweep["points"][shards - 1];
        assert_eq!(point["level"], shards as f64, "{point}");
        let cost = &point["client_cost"];
        assert!(cost["first_lock_ns"].as_u64().unwrap() > 0, "{point}");
        assert_eq!(cost["connections"], shards as f64, "{point}");
    }
    let output = run(dir.path(), &["bench", "--sweep", "shards", "--topology", "masters"]);
    assert_eq!(code(&output), 64);
    assert!(stderr(&output).contains("a cluster for each level"), "{}", stderr(&output));
}

/// A lock that is held for 20 ms is granted less than 50 times a second, and one that polls for it keeps up
/// with 20.
#[test]
fn the_knee_of_a_slow_lock_is_found() {
    let server = Server::start();
    let lock = ["--subject", "baseline:set-nx-px", "--tasks", "16"];
    let load = ["--workload", "contended", "--hold", "20ms"];
    let sweep = ["--sweep", "rate", "--rate", "40/s"];
    let (code, json, errors) = bench(&server, &[&lock[..], &load, &sweep].concat());
    assert!([0, 2].contains(&code), "{code} {errors}");
    let knee = &json["sweeps"][0]["knee"];
    let rate = |name: &str| knee[name].as_f64();
    // On a loaded machine the search may end without an answer; then it says why.
    if let Some(unknown) = knee["unknown"].as_object() {
        assert_ne!(unknown["why"], "", "{knee}");
        return;
    }
    let (good, bad) = (rate("good_per_s").unwrap(), rate("bad_per_s").unwrap());
    assert!(good < 50.0 && good < bad && bad > 20.0, "{knee}");
}

#[test]
fn a_sweep_is_about_the_workload_that_is_named() {
    let server = Server::start();
    let sweep = ["--sweep", "tasks", "--tasks", "2"];
    let wished = ["--workload", "contended", "--subject", "lock-core:plain"];
    let (code, json, errors) = bench(&server, &[sweep, wished].concat());
    assert!([0, 2].contains(&code), "{code} {errors}");
    assert_eq!(json["sweeps"][0]["workload"], "contended");
    for row in json["rows"].as_array().unwrap() {
        assert_eq!((&row["workload"], &row["locks"]), (&"contended".into(), &1.into()));
    }
}

#[test]
fn a_proxy_on_the_way_is_said_in_the_row_with_what_it_really_added() {
    let dir = tempfile::tempdir().unwrap();
    let output = run(
        dir.path(),
        &[
            "bench",
            "--json",
            "--rtt",
            "0.2ms,5ms",
            "--subject",
            "lock-core:plain",
            "--workload",
            "uncontended",
            "--rounds",
            "1",
            "--duration",
            "400ms",
            "--tasks",
            "8",
        ],
    );
    assert!([0, 2].contains(&code(&output)), "{}", stderr(&output));
    let json: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let rows = json["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 2);
    let mut added = Vec::new();
    for (row, asked_ns) in rows.iter().zip([200_000, 5_000_000]) {
        let load = &row["measures"]["load"];
        assert_eq!(load["added_rtt_ns"], asked_ns);
        let ns = |name: &str| load[name].as_u64().unwrap();
        // Timers never fire early: no answer can come sooner than the delay of both directions.
        assert!(ns("round_trip_ns") >= asked_ns, "{row}");
        assert!(row["acquire_ns"]["p50"].as_u64().unwrap() >= asked_ns * 99 / 100, "{row}");
        assert!(ns("direct_round_trip_ns") < ns("round_trip_ns"), "{row}");
        added.push(ns("round_trip_ns") - ns("direct_round_trip_ns"));
    }
    assert!(added[0] < added[1], "{added:?}");
}

#[test]
fn readers_permits_and_several_locks_are_measured_with_the_locks_that_have_them() {
    let server = Server::start();
    for (workload, subject, said) in [
        ("read-mostly", "lock-core:read", "10 % of the cycles write"),
        ("multi", "lock-core:multi", "3 locks at once"),
        ("semaphore", "lock-core:semaphore", "4 permits"),
    ] {
        let (code, json, errors) = bench(&server, &["--workload", workload]);
        assert!([0, 2].contains(&code), "{code} {errors}");
        let row = &json["rows"][0];
        assert_eq!(row["subject"], subject);
        assert_eq!(row["safety"]["state"], "clean", "{row}");
        assert_eq!(row["measures"]["load"]["asks"], said);
    }
}

/// The numbers that the server gave to the lock's connections which are open now: each round has a new one.
fn connections(server: &Server) -> Vec<String> {
    let list = server.cli(&["CLIENT", "LIST"]);
    let ours = list.lines().filter(|line| line.contains("name=locklab-c1"));
    ours.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

#[test]
fn a_target_that_dies_in_mid_run_ends_with_what_was_measured_marked() {
    let server = Server::start();
    let dir = tempfile::tempdir().unwrap();
    let url = server.url();
    let bench = locklab(dir.path())
        .args(["bench", "--json", "--target", &url, "--out", "run"])
        .args(["--subject", "lock-core:plain", "--workload", "uncontended"])
        .args(["--rounds", "100", "--warmup", "50ms", "--duration", "200ms"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut seen = BTreeSet::new();
    until("some rounds are over", || {
        seen.extend(connections(&server));
        seen.len() > 3
    });
    drop(server);
    let output = bench.wait_with_output().unwrap();
    assert_eq!(code(&output), 69, "{}", stderr(&output));
    let json: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let row = &json["rows"][0];
    let rounds = row["rounds"].as_u64().unwrap();
    assert!((1..100).contains(&rounds), "{row}");
    assert!(row["acquire_ns"]["n"].as_u64().unwrap() > 0);
    let kept = std::fs::read(dir.path().join("run/run.json")).unwrap();
    let kept: Value = serde_json::from_slice(&kept).unwrap();
    assert_eq!(kept["partial"], true);
    let summary = std::fs::read_to_string(dir.path().join("run/summary.txt")).unwrap();
    assert!(summary.contains("ended early"), "{summary}");
}

#[test]
fn what_cannot_be_is_wrong_usage() {
    let dir = tempfile::tempdir().unwrap();
    for args in [
        &["bench", "--rate", "fast"][..],
        &["bench", "--rate", "10/s", "--workload", "herd"],
        &["bench", "--rtt", "soon"],
        &["bench", "--sweep", "moods"],
        &["bench", "--sweep", "tasks", "--workload", "zipf,contended"],
        &["bench", "--sweep", "rate", "--workload", "herd"],
        &["bench", "--workload", "nothing"],
        &["bench", "--workload", "contended,multi"],
        &["bench", "--workload", "multi", "--subject", "lock-core:fair"],
    ] {
        let output = run(dir.path(), args);
        assert_eq!(code(&output), 64, "{args:?}: {}", stderr(&output));
        assert!(!dir.path().join("runs").exists(), "{args:?} left a run behind");
    }
}

#[test]
fn on_a_refused_connection_the_cause_comes_first() {
    let dir = tempfile::tempdir().unwrap();
    let output = run(dir.path(), &["bench", "--target", "redis://127.0.0.1:1"]);
    assert_eq!(code(&output), 69, "{}", stderr(&output));
    let said = stderr(&output);
    let errors: Vec<&str> = said.lines().filter(|line| line.starts_with("locklab:")).collect();
    assert!(errors[0].contains("Connection refused"), "{said}");
    assert!(!errors[0].contains("keys"), "{said}");
}

/// Each lock is measured on the servers of its own system, and its row says what its grants waited for.
#[cfg(feature = "etcd")]
#[test]
fn locks_of_two_systems_share_their_rounds() {
    use std::io::Write as _;
    let dir = tempfile::tempdir().unwrap();
    let windows = ["--rounds", "2", "--warmup", "50ms", "--duration", "200ms"];
    let load = ["--workload", "uncontended", "--tasks", "4", "--seed", "7"];
    let args = |more: &[&'static str]| {
        let bench = ["bench", "--json", "--topology", "single,etcd"];
        [&bench[..], &windows, &load, more].concat()
    };
    let of_both = ["--fsync", "--subject", "lock-core:plain,etcd:lock"];
    let output = run(dir.path(), &args(&of_both));
    if code(&output) == 69 {
        let mut said = std::io::stderr();
        let _ = writeln!(said, "SKIPPED locks_of_two_systems_share_their_rounds: {}", stderr(&output));
        return;
    }
    let json: Value = serde_json::from_str(&stdout(&output)).expect("JSON");
    let row = |row: &Value| {
        let of = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        (of(&row["subject"]), of(&row["topology"]), of(&row["measures"]["load"]["durability"]))
    };
    let rows: Vec<_> = json["rows"].as_array().into_iter().flatten().map(row).collect();
    let word = |text: &str| text.to_owned();
    assert_eq!(
        rows,
        [
            (word("lock-core:plain"), word("single"), word("fsync")),
            (word("etcd:lock"), word("etcd"), word("fsync")),
        ],
        "{}",
        stderr(&output)
    );
    assert_eq!(json["comparisons"][0]["where"], "single+etcd/uncontended/4");

    let output = run(dir.path(), &args(&["--subject", "postgres:row"]));
    assert_eq!(code(&output), 64, "{}", stderr(&output));
    let said = stderr(&output);
    assert!(said.contains("postgres:row is a lock on none of these topologies: single, etcd"), "{said}");
}
