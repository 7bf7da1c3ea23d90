//! `locklab bench` as a script sees it: what is said of each row, and exit codes.
#![allow(missing_docs)]

mod support;

use serde_json::Value;
use support::{Server, code, run, stderr, stdout};

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
    let open = ["--rate", "100/s", "--arrivals", "poisson"];
    let (code, json, errors) = bench(&server, &[&subject[..], &open].concat());
    assert!([0, 2].contains(&code), "{code} {errors}");
    let row = &json["rows"][0];
    assert_eq!(row["measures"]["load"]["mode"], "open", "{row}");
    assert_eq!(row["measures"]["load"]["arrivals"], "poisson");
    assert_eq!(row["measures"]["load"]["rate_per_s"], 100.0);
    assert!(row["measures"]["response_ns"]["n"].as_u64().unwrap() > 0);
    assert!(row["measures"]["pacing"]["lag_ns"]["n"].as_u64().unwrap() > 0);
    assert!(
        row["cycles_per_s"]["low"].is_null(),
        "one round has no interval"
    );
}

#[test]
fn several_clients_are_processes_of_their_own() {
    let server = Server::start();
    let (code, json, errors) = bench(
        &server,
        &[
            "--subject",
            "lock-core:plain",
            "--workload",
            "uncontended",
            "--clients",
            "2",
            "--tasks",
            "4",
        ],
    );
    assert_eq!(code, 0, "{errors}");
    let load = &json["rows"][0]["measures"]["load"];
    assert_eq!(
        (&load["clients"], &load["client_processes"]),
        (&2.into(), &true.into())
    );
    assert_eq!(json["rows"][0]["safety"]["state"], "clean");
}

#[test]
fn a_sweep_is_a_curve_by_level() {
    let server = Server::start();
    let (code, json, errors) = bench(
        &server,
        &[
            "--sweep",
            "tasks",
            "--tasks",
            "5",
            "--subject",
            "lock-core:plain",
        ],
    );
    assert!([0, 2].contains(&code), "{code} {errors}");
    let sweep = &json["sweeps"][0];
    assert_eq!(sweep["over"], "tasks");
    let levels: Vec<f64> = sweep["points"]
        .as_array()
        .unwrap()
        .iter()
        .map(|point| point["level"].as_f64().unwrap())
        .collect();
    assert_eq!(levels, [1.0, 2.0, 5.0]);
    assert!(
        sweep["scalability"].is_null(),
        "three levels are too few for a law"
    );
}

#[test]
fn a_proxy_on_the_way_is_said_in_the_row() {
    let dir = tempfile::tempdir().unwrap();
    let output = run(
        dir.path(),
        &[
            "bench",
            "--json",
            "--rtt",
            "5ms",
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
    let row = &json["rows"][0];
    assert_eq!(row["measures"]["load"]["added_rtt_ns"], 5_000_000);
    // Timers never fire early: no answer can come sooner than the delay of both directions.
    assert!(
        row["acquire_ns"]["p50"].as_u64().unwrap() >= 4_000_000,
        "{row}"
    );
    assert!(row["measures"]["load"]["round_trip_ns"].as_u64().unwrap() >= 4_000_000);
}

#[test]
fn what_cannot_be_is_wrong_usage() {
    let dir = tempfile::tempdir().unwrap();
    for args in [
        &["bench", "--rate", "fast"][..],
        &["bench", "--rate", "10/s", "--workload", "herd"],
        &["bench", "--arrivals", "poisson"],
        &["bench", "--rtt", "soon"],
        &["bench", "--sweep", "moods"],
        &["bench", "--workload", "nothing"],
    ] {
        let output = run(dir.path(), args);
        assert_eq!(code(&output), 64, "{args:?}: {}", stderr(&output));
        assert!(
            !dir.path().join("runs").exists(),
            "{args:?} left a run behind"
        );
    }
}
