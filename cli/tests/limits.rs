//! Inputs without an end: each is refused with its limit, and none is kept in memory for as long as it lasts.
#![allow(missing_docs)]

mod support;

use std::fs;
use std::process::Command;

use support::{code, run, stderr, stdout};

#[test]
fn what_never_ends_is_refused_with_the_limit() {
    let dir = tempfile::tempdir().unwrap();
    let made = Command::new("mkfifo").arg(dir.path().join("pipe.toml")).status();
    assert!(made.unwrap().success());
    let ca = "rediss://127.0.0.1:1?tls-ca=/dev/zero";
    let cases: [(&[&str], i32, &str); 6] = [
        (&["chaos", "/dev/zero"], 65, "64 MB"),
        (&["gate", "--budget", "/dev/zero"], 65, "64 MB"),
        (&["up", "/dev/zero"], 65, "64 MB"),
        (&["check", "/dev/zero"], 65, "16 MB"),
        (&["doctor", ca], 64, "16 MB"),
        (&["chaos", "./pipe.toml"], 65, "nobody has written"),
    ];
    for (args, wanted, says) in cases {
        let output = run(dir.path(), args);
        let said = stderr(&output);
        assert_eq!(code(&output), wanted, "{args:?}: {said}");
        assert!(said.contains(says), "{args:?}: {said}");
    }
}

#[test]
fn of_four_thousand_errors_the_first_fifty_are_shown() {
    let dir = tempfile::tempdir().unwrap();
    let faults: String =
        (0..4_000).map(|number| format!("[[faults]]\nat = \"x{number}\"\nfault = \"nope\"\n")).collect();
    let text = format!("name = \"x\"\n[topology]\nkind = \"single\"\n{faults}");
    fs::write(dir.path().join("many.toml"), text).unwrap();
    let output = run(dir.path(), &["chaos", "many.toml"]);
    let said = stderr(&output);
    assert_eq!(code(&output), 65, "{said}");
    assert!((50..60).contains(&said.lines().count()), "{said}");
    assert!(said.contains("more"), "{said}");
}

#[test]
fn what_a_driver_says_has_limits() {
    let dir = tempfile::tempdir().unwrap();
    let driver = |mode: &str| {
        let driver = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/drivers/driver.py");
        format!("python3 {driver} {mode}")
    };
    let conform = |mode: &str| run(dir.path(), &["conform", &driver(mode), "--out", mode]);
    for (mode, says) in [
        ("long-grant", "a grant whose name has more than 1024 bytes"),
        ("chatter", "printed more than 10000 events"),
    ] {
        let output = conform(mode);
        let said = stdout(&output) + &stderr(&output);
        assert_eq!(code(&output), 1, "{mode}: {said}");
        assert!(said.contains(says), "{mode}: {said}");
    }
    let subject = format!("exec:{}", driver("long-grant"));
    let bench = ["bench", "--subject", &subject, "--duration", "300ms"];
    let output = run(dir.path(), &[&bench[..], &["--rounds", "1"]].concat());
    // Sentences are wrapped at the width of the screen.
    let said = stdout(&output) + &stderr(&output);
    let words = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("at most 1024 bytes"), "{said}");
    let output = conform("loud");
    let log = fs::read_to_string(dir.path().join("loud/driver.log")).unwrap();
    assert!(log.contains("(the log ends here: those of the run have 64 MB"), "{}", stderr(&output));
    assert!(log.len() < 70_000_000, "{}", log.len());
}

#[test]
fn a_history_that_memory_cannot_hold_is_refused_before_it_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let large = fs::File::create(dir.path().join("large.jsonl")).unwrap();
    large.set_len(1 << 42).unwrap();
    let output = run(dir.path(), &["check", "large.jsonl"]);
    assert_eq!(code(&output), 69, "{}", stderr(&output));
    assert!(stderr(&output).contains("MB of memory"), "{}", stderr(&output));
}
