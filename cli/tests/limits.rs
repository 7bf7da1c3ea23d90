//! Inputs without an end: each is refused with its limit, and none is kept in memory for as long as it lasts.
#![allow(missing_docs)]

mod support;

use std::fs;
use std::process::Command;

use support::{code, run, stderr};

#[test]
fn what_never_ends_is_refused_with_the_limit() {
    let dir = tempfile::tempdir().unwrap();
    let made = Command::new("mkfifo")
        .arg(dir.path().join("pipe.toml"))
        .status();
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
    let faults: String = (0..4_000)
        .map(|number| format!("[[faults]]\nat = \"x{number}\"\nfault = \"nope\"\n"))
        .collect();
    let text = format!("name = \"x\"\n[topology]\nkind = \"single\"\n{faults}");
    fs::write(dir.path().join("many.toml"), text).unwrap();
    let output = run(dir.path(), &["chaos", "many.toml"]);
    let said = stderr(&output);
    assert_eq!(code(&output), 65, "{said}");
    assert!((50..60).contains(&said.lines().count()), "{said}");
    assert!(said.contains("more"), "{said}");
}
