//! One load from several generators: they begin together, `merge` sums what they measured, and one that is
//! killed is missed.
#![allow(missing_docs)]

mod support;

use std::path::Path;
use std::process::{Child, Output, Stdio};
use std::time::Duration;

use serde_json::Value;
use support::{Server, code, locklab, run, stderr, stdout};

/// Starts a part of a load of 8 tasks.
fn start(dir: &Path, url: &str, part: &str, more: &[&str]) -> Child {
    let out = format!("p{}", &part[..1]);
    let mut command = locklab(dir);
    command.args(["bench", "--target", url, "--part", part, "--out", &out]);
    command.args(["--seed", "7", "--tasks", "8", "--subject", "lock-core:plain"]);
    // Long enough for 30 cycles of a part on a machine that is busy with other tests.
    command.args(["--warmup", "100ms", "--duration", "1s"]);
    command.args(more);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("locklab starts")
}

fn end(child: Child) -> Output {
    child.wait_with_output().expect("locklab ends")
}

fn json(output: &Output) -> Value {
    serde_json::from_str(&stdout(output)).unwrap_or_else(|_| panic!("{}", stderr(output)))
}

fn document(dir: &Path, name: &str) -> Value {
    let text = std::fs::read_to_string(dir.join(name).join("run.json")).expect("a run");
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn parts_of_a_load_are_one_row_and_say_where_each_client_ran() {
    let (dir, server) = (tempfile::tempdir().unwrap(), Server::start());
    let more = ["--rounds", "2", "--workload", "uncontended,contended"];
    let parts = ["0/2", "1/2"].map(|part| start(dir.path(), &server.url(), part, &more));
    for ended in parts.map(end) {
        assert_eq!(code(&ended), 0, "{}", stderr(&ended));
    }
    assert_eq!(server.cli(&["KEYS", "*"]), "", "the last one removes the keys");
    let own = [document(dir.path(), "p0"), document(dir.path(), "p1")];
    let merged = run(dir.path(), &["merge", "p1", "p0", "--json", "--out", "both"]);
    assert_eq!(code(&merged), 0, "{}", stderr(&merged));
    let whole = json(&merged);
    assert_eq!(whole["partial"], false);
    for (at, row) in whole["rows"].as_array().unwrap().iter().enumerate() {
        let n = |row: &Value| row["acquire_ns"]["n"].as_u64().unwrap();
        let sum: u64 = own.iter().map(|run| n(&run["rows"][at])).sum();
        assert_eq!(n(row), sum, "every sample, once");
        assert_eq!((&row["tasks"], &row["rounds"]), (&8.into(), &2.into()));
        assert_eq!(own[0]["rows"][at]["tasks"], 4, "a part says what it ran");
        assert_eq!(row["measures"]["load"]["generators"], 2);
        assert!(own[0]["rows"][at]["server_cpu_us_per_cycle"].is_null());
        assert!(row["server_cpu_us_per_cycle"].as_f64().unwrap() > 0.0);
    }
    let (alone, met) = (&whole["rows"][0], &whole["rows"][1]);
    assert_eq!(alone["safety"]["state"], "clean", "no lock was in two parts");
    assert_eq!(met["safety"]["state"], "unknown", "holds of two parts were not compared");
    assert!(met["handoff_ns"].is_null());
    assert!(whole["warnings"].to_string().contains("holds of different parts"));
    let host = &own[0]["meta"]["environment"]["host"];
    assert_eq!(whole["parts"][1]["host"], *host);
    assert_eq!(whole["parts"][1]["had"], "clients c2");
    let summary = std::fs::read_to_string(dir.path().join("both/summary.txt")).unwrap();
    assert!(summary.contains("part 0 on"), "{summary}");
}

#[test]
fn parts_of_different_loads_are_refused_whatever_their_flags() {
    let (dir, servers) = (tempfile::tempdir().unwrap(), [Server::start(), Server::start()]);
    for (name, server, rounds) in [("first", 0, "1"), ("elsewhere", 1, "1"), ("longer", 1, "2")] {
        let url = servers[server].url();
        let more = ["--rounds", rounds, "--workload", "uncontended"];
        let parts = ["0/2", "1/2"].map(|part| start(dir.path(), &url, part, &more));
        for ended in parts.map(end) {
            assert_eq!(code(&ended), 0, "{}", stderr(&ended));
        }
        for (own, kept) in [("p0", name.to_owned()), ("p1", format!("{name}-1"))] {
            std::fs::rename(dir.path().join(own), dir.path().join(kept)).unwrap();
        }
    }
    for (other, why) in [("elsewhere-1", "meeting "), ("longer-1", "rounds 1 and 2")] {
        let merged = run(dir.path(), &["merge", "first", other, "--out", "both"]);
        assert_eq!(code(&merged), 65, "{}", stderr(&merged));
        assert!(stderr(&merged).contains(why), "{}", stderr(&merged));
    }
}

#[test]
fn a_part_that_is_killed_is_lost_alone_and_the_whole_is_incomplete() {
    let (dir, server) = (tempfile::tempdir().unwrap(), Server::start());
    let more = ["--rounds", "6", "--workload", "uncontended"];
    let start = |part| start(dir.path(), &server.url(), part, &more);
    let (first, mut second, third) = (start("0/3"), start("1/3"), start("2/3"));
    let lines = || {
        let rounds = std::fs::read_to_string(dir.path().join("p1/rounds.jsonl"));
        rounds.map_or(0, |text| text.lines().count())
    };
    // Three, of which a busy machine may lose one.
    support::until("three rounds", || lines() >= 4);
    second.kill().unwrap();
    second.wait().unwrap();
    for ended in [first, third].map(end) {
        assert_eq!(code(&ended), 0, "the others go on: {}", stderr(&ended));
    }
    let merged = run(dir.path(), &["merge", "p0", "p1", "p2", "--json", "--out", "all"]);
    assert_eq!(code(&merged), 2, "{}", stderr(&merged));
    let said = stderr(&merged);
    assert!(said.contains("part 1 of 3 did not end: without clients c2"), "{said}");
    let whole = json(&merged);
    assert_eq!(whole["partial"], true);
    let row = &whole["rows"][0];
    let rounds = row["rounds"].as_u64().unwrap();
    assert!((2..6).contains(&rounds), "those of all three: {rounds}");
    assert_eq!(row["tasks"], 8);

    // One that was killed before it wrote anything is a missing one.
    std::fs::create_dir(dir.path().join("empty")).unwrap();
    let without = ["merge", "p0", "empty", "p2", "--json", "--out", "two"];
    let without = run(dir.path(), &without);
    assert_eq!(code(&without), 2);
    let row = &json(&without)["rows"][0];
    assert_eq!((&row["valid"], &row["rounds"]), (&false.into(), &6.into()));
    assert!(row["why_invalid"].to_string().contains("part 1 of 3 is not in it"));
}

#[test]
fn a_part_that_does_not_come_is_named_and_one_of_another_plan_is_refused() {
    let (dir, server) = (tempfile::tempdir().unwrap(), Server::start());
    let more = ["--rounds", "1", "--workload", "uncontended"];
    let patient = [&more[..], &["--parts-within", "4s"]].concat();
    let alone = start(dir.path(), &server.url(), "0/3", &patient);
    std::thread::sleep(Duration::from_secs(2));
    let other = [&more[..], &["--hold", "1ms"]].concat();
    let other = end(start(dir.path(), &server.url(), "1/3", &other));
    assert_eq!(code(&other), 65, "{}", stderr(&other));
    assert!(stderr(&other).contains("hold: null and"), "{}", stderr(&other));
    let alone = end(alone);
    assert_eq!(code(&alone), 69, "{}", stderr(&alone));
    assert!(stderr(&alone).contains("part 1, 2 of 3 did not come"), "{}", stderr(&alone));

    for (flags, why) in [
        (&["--part", "0/2"][..], "--target"),
        (&["--part", "0/2", "--sweep", "tasks", "--target", "redis://127.0.0.1:1"], "--sweep"),
        (&["--part", "0/2", "--workload", "chain", "--target", &server.url()], "chain"),
        (&["--part", "0/2", "--tasks", "1", "--target", &server.url()], "1 tasks"),
    ] {
        let refused = run(dir.path(), &[&["bench"][..], flags].concat());
        assert_eq!(code(&refused), 64, "{}", stderr(&refused));
        assert!(stderr(&refused).contains(why), "{}", stderr(&refused));
    }
}
