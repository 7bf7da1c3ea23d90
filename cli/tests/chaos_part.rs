//! One scenario whose clients several processes run: they begin together, `merge` judges one history on one
//! clock, and a part that is killed makes the whole incomplete and not wrong.
#![allow(missing_docs)]

mod support;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use chaos::shim::{Shims, Skew};
use serde_json::Value;
use support::{Server, code, locklab, run, stderr, stdout};

const MS: i64 = 1_000_000;

/// A contended scenario of four clients.
fn scenario(dir: &Path, subject: &str, duration: &str, more: &str) {
    let text = format!(
        "name = \"shared\"\n[topology]\nkind = \"single\"\n[lock]\nsubject = \"{subject}\"\nlease = \"2s\"\nwait = \"1s\"\n\
         [load]\nclients = 4\nduration = \"{duration}\"\nhold = \"20ms..60ms\"\nthink = \"5ms\"\nprotects = \"none\"\n{more}"
    );
    std::fs::write(dir.join("shared.toml"), text).expect("the folder can be written");
}

fn part(dir: &Path, url: &str, part: &str, more: &[&str]) -> Command {
    let mut command = locklab(dir);
    command.args(["chaos", "shared.toml", "--seed", "7", "--target", url]);
    command.args(["--part", part, "--share", "clients"]);
    command.args(["--out", &format!("p{}", &part[..1])]);
    command.args(more);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn start(mut command: Command) -> Child {
    command.spawn().expect("locklab starts")
}

fn end(child: Child) -> Output {
    child.wait_with_output().expect("locklab ends")
}

fn json(output: &Output) -> Value {
    serde_json::from_str(&stdout(output)).unwrap_or_else(|_| panic!("{}", stderr(output)))
}

fn state<'a>(verdicts: &'a Value, class: &str) -> &'a str {
    verdicts[class]["state"].as_str().unwrap_or_default()
}

/// A part whose monotonic clock, by which histories are stamped, is seconds ahead and 2 % too fast.
fn on_a_wrong_clock(mut command: Command, dir: &Path, shims: &Shims) -> Command {
    let object = dir.join("shim.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../chaos/shim/shim.c");
    let compiled = Command::new("cc")
        .args(["-shared", "-fPIC", "-O2", "-DSKEW_MONOTONIC", "-o"])
        .args([&object, &source])
        .status();
    assert!(compiled.expect("a compiler").success());
    let page = shims.page("p1").expect("a page");
    let skew = Skew { offset_ns: 7_000 * MS, drift_ppb: 20_000_000 };
    page.set_skew(skew).expect("a page");
    let mut variables: BTreeMap<_, _> = shims.env("p1").into_iter().collect();
    variables.insert("LD_PRELOAD".to_owned(), object.display().to_string());
    command.envs(variables);
    command
}

/// Two parts, one of them on a wrong clock, and the run that they make.
fn split(dir: &Path, server: &Server) -> Output {
    let shims = Shims::new(["p1".to_owned()]).expect("files in memory");
    let first = start(part(dir, &server.url(), "0/2", &[]));
    let second = part(dir, &server.url(), "1/2", &[]);
    let second = start(on_a_wrong_clock(second, dir, &shims));
    for ended in [first, second].map(end) {
        assert_eq!(code(&ended), 0, "{}", stderr(&ended));
    }
    let reads = shims.page("p1").expect("a page").skewed_reads();
    assert!(reads.expect("a page") > 1_000, "it saw a wrong clock");
    run(dir, &["merge", "p1", "p0", "--json", "--out", "both"])
}

#[test]
fn a_sound_lock_split_over_two_clocks_is_not_convicted_and_says_where_each_client_ran() {
    let (dir, server) = (tempfile::tempdir().unwrap(), Server::start());
    let dir = dir.path();
    scenario(dir, "lock-core:reentrant", "4s", "[expect]\nliveness = \"clean\"\n");
    let merged = split(dir, &server);
    assert_eq!(code(&merged), 0, "{}", stderr(&merged));
    let whole = json(&merged);
    let one = &whole["scenarios"][0];
    assert_eq!((&one["name"], &one["seed"]), (&"shared".into(), &7.into()));
    assert_eq!(whole["partial"], false);
    for class in ["belief", "contract", "confirmed", "effect", "liveness"] {
        assert_ne!(state(&one["verdicts"], class), "violated", "{class}: {one}");
    }
    assert!(one["operations"]["acquire"]["ok"].as_u64() > Some(20), "{one}");
    assert_eq!(whole["parts"][1]["had"], "clients c2, c4 of shared");
    assert_eq!(server.cli(&["KEYS", "*"]), "", "the last one removes the keys");
    let again = run(dir, &["check", "both", "--json"]);
    assert_eq!(
        json(&again)["verdicts"]["belief"]["state"],
        one["verdicts"]["belief"]["state"],
        "the joined history is a run's like any other"
    );

    // Without what they say of their clocks, the same holds overlap.
    for name in ["p0", "p1"] {
        let text = std::fs::read_to_string(dir.join(name).join("history.jsonl")).unwrap();
        let bare: Vec<&str> = text.lines().filter(|line| !line.contains("\"clock\"")).collect();
        assert!(bare.len() + 20 < text.lines().count(), "read again and again");
        std::fs::write(dir.join(format!("{name}.jsonl")), bare.join("\n") + "\n").unwrap();
    }
    let bare = ["check", "p0.jsonl", "p1.jsonl", "--clock-uncertainty", "0ms", "--json"];
    let bare = json(&run(dir, &bare));
    assert_eq!(state(&bare["verdicts"], "belief"), "violated", "{bare}");
}

#[test]
fn a_broken_lock_split_over_two_clocks_is_convicted_of_holds_of_different_parts() {
    let (dir, server) = (tempfile::tempdir().unwrap(), Server::start());
    let dir = dir.path();
    scenario(dir, "broken:steal", "3s", "[expect]\nbelief = \"violated\"\ncontract = \"violated\"\n");
    let merged = split(dir, &server);
    assert_eq!(code(&merged), 0, "{}", stderr(&merged));
    let one = &json(&merged)["scenarios"][0];
    let between = |anomaly: &&Value| {
        let of = |n: usize| anomaly["grants"][n].as_str().map(|grant| grant.ends_with("@0"));
        of(0) != of(1)
    };
    let proof = &one["verdicts"]["belief"]["anomalies"];
    let found = proof.as_array().and_then(|all| all.iter().find(between));
    assert!(found.is_some(), "{one}");
}

#[test]
fn each_fault_is_done_by_the_part_that_can() {
    let (dir, server, meet) = (tempfile::tempdir().unwrap(), Server::start(), Server::start());
    let dir = dir.path();
    let faults = "[[faults]]\nat = \"500ms\"\nfor = \"1s\"\nfault = \"kill\"\non = \"client 2\"\n\
                  [[faults]]\nat = \"2s\"\nfault = \"client-pause\"\non = \"master\"\nwith = { time = \"300ms\" }\n";
    scenario(dir, "lock-core:reentrant", "4s", faults);
    let refused = start(part(dir, &server.url(), "0/2", &[]));
    let refused = end(refused);
    assert_eq!(code(&refused), 64, "{}", stderr(&refused));
    assert!(stderr(&refused).contains("--reference"), "{}", stderr(&refused));

    let reference = ["--reference", &meet.url()];
    let parts = ["0/2", "1/2"].map(|k| start(part(dir, &server.url(), k, &reference)));
    for ended in parts.map(end) {
        assert_eq!(code(&ended), 0, "{}", stderr(&ended));
    }
    let merged = run(dir, &["merge", "p0", "p1", "--json", "--out", "both"]);
    let faults = &json(&merged)["scenarios"][0]["faults"];
    let all = faults.as_array().expect("a list");
    let done: Vec<_> = all.iter().map(|fault| (&fault["fault"], &fault["bit"])).collect();
    let yes = Value::from(true);
    assert_eq!(done, [(&"kill".into(), &yes), (&"client-pause".into(), &yes)], "each once: {faults}");
}

#[test]
fn a_part_that_is_killed_is_lost_alone_and_nobody_is_convicted_for_it() {
    let (dir, server) = (tempfile::tempdir().unwrap(), Server::start());
    let dir = dir.path();
    scenario(dir, "lock-core:reentrant", "5s", "[expect]\nliveness = \"clean\"\n");
    let first = start(part(dir, &server.url(), "0/2", &[]));
    // Who comes while another waits is not late.
    let waits = ["HGET", "locklab:parts-2-shared-7:parts", "at:0"];
    support::until("the first waits", || server.cli(&waits) == "1");
    let mut second = start(part(dir, &server.url(), "1/2", &[]));
    support::until("it was granted something", || {
        std::fs::read_to_string(dir.join("p1/history.jsonl"))
            .is_ok_and(|text| text.matches("\"grant\"").count() > 10)
    });
    second.kill().unwrap();
    second.wait().unwrap();
    let first = end(first);
    assert_eq!(code(&first), 0, "the other goes on: {}", stderr(&first));
    for parts in [&["p0", "p1"][..], &["p0"]] {
        let out = format!("all-{}", parts.len());
        let merged = run(dir, &[&["merge"][..], parts, &["--json", "--out", &out]].concat());
        assert_eq!(code(&merged), 2, "{}", stderr(&merged));
        assert!(
            stderr(&merged).contains("part 1 of 2") && stderr(&merged).contains("c2, c4"),
            "{}",
            stderr(&merged)
        );
        let whole = json(&merged);
        assert_eq!(whole["partial"], true);
        let verdicts = &whole["scenarios"][0]["verdicts"];
        for class in ["belief", "contract", "confirmed", "liveness"] {
            assert_eq!(state(verdicts, class), "unknown", "{class}: {verdicts}");
        }
    }
}

#[test]
fn what_cannot_be_shared_by_client_is_refused() {
    let (dir, server) = (tempfile::tempdir().unwrap(), Server::start());
    let dir = dir.path();
    let refused = |more: &str, flags: &[&str], why: &str| {
        scenario(dir, "lock-core:reentrant", "1s", more);
        let args = ["chaos", "shared.toml", "--share", "clients"];
        let output = run(dir, &[&args[..], flags].concat());
        assert_eq!(code(&output), 64, "{}", stderr(&output));
        assert!(stderr(&output).contains(why), "{}", stderr(&output));
    };
    let url = server.url();
    let at = ["--target", &url, "--part", "0/2"];
    refused("", &["--part", "0/2"], "--target");
    refused("", &["--target", &url], "--part");
    refused("", &["--target", &url, "--part", "0/9"], "fewer clients");
    refused("rate = \"50/s\"\n", &at, "open loop");
    refused("", &[&at[..], &["--repeat", "2"]].concat(), "one seed");
    let kill = "[[faults]]\nat = \"500ms\"\nfault = \"kill\"\non = \"holder\"\n";
    refused(kill, &at, "holder");
}
