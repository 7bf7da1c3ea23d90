//! A run in a network of its own: servers cannot be reached from outside, and links are cut by dropping packets.

// What is skipped is said where the summary of the tests counts it.
#![allow(clippy::print_stderr)]
#![allow(missing_docs)]

mod support;

use std::process::Command;

use support::{code, run, stderr, stdout};

const SPLIT: &str =
    "name = \"split\"\n[topology]\nkind = \"single\"\n[load]\nclients = 1\nduration = \"1s\"\n";

const BRAIN: &str = "name = \"cut\"\n[topology]\nkind = \"sentinel\"\n[lock]\nlease = \"2s\"\n[load]\nclients = 1\nduration = \"2s\"\n\
    [[faults]]\nat = \"500ms\"\nfor = \"1s\"\nfault = \"cut\"\non = \"master -> replicas\"\n";

/// Says loudly that a test did nothing, and whether it did.
fn refused(output: &std::process::Output) -> bool {
    let refused = stderr(output).contains("not isolated");
    if refused {
        eprintln!(
            "SKIPPED: {}",
            stderr(output).lines().next().unwrap_or_default()
        );
    }
    refused
}

#[test]
fn two_runs_on_one_port_range_do_not_meet_and_a_cut_drops_packets_where_it_can() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("cut.toml"), BRAIN).unwrap();
    let output = run(
        dir.path(),
        &["chaos", "cut.toml", "--isolate", "--seed", "3", "--json"],
    );
    if refused(&output) {
        return;
    }
    assert!(code(&output) <= 2, "{}", stderr(&output));
    let kept: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    let scenario = &kept["scenarios"][0];
    let fault = &scenario["faults"][0];
    assert_eq!(fault["bit"], true, "{fault}");
    let has_iptables = Command::new("iptables").arg("--version").output().is_ok();
    let proof = fault["proof"].to_string();
    if stderr(&output).contains("by dropping packets") {
        assert!(proof.contains("packets dropped on n1 -> n"), "{proof}");
    } else {
        eprintln!(
            "SKIPPED in part: packets cannot be dropped here (iptables there: {has_iptables})"
        );
        assert!(proof.contains("bytes"), "{proof}");
    }
    assert!(
        scenario["notes"]
            .to_string()
            .contains("in a network of its own"),
        "{scenario}"
    );
}

#[test]
fn an_unprivileged_user_gets_a_network_too_or_is_told_why_not() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("split.toml"), SPLIT).unwrap();
    if !nix::unistd::getuid().is_root() {
        return;
    }
    // Everybody may write here, as in anybody's own directory.
    std::fs::set_permissions(
        dir.path(),
        std::os::unix::fs::PermissionsExt::from_mode(0o777),
    )
    .unwrap();
    let output = Command::new("setpriv")
        .args([
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            env!("CARGO_BIN_EXE_locklab"),
        ])
        .args(["chaos", "split.toml", "--isolate", "--seed", "3"])
        .current_dir(dir.path())
        .env("XDG_RUNTIME_DIR", dir.path())
        .output();
    let Ok(output) = output else {
        eprintln!("SKIPPED: there is no setpriv to become nobody with");
        return;
    };
    if refused(&output) || stderr(&output).contains("ermission denied") {
        eprintln!("SKIPPED: {}", stderr(&output));
        return;
    }
    assert!(code(&output) <= 2, "{}", stderr(&output));
    assert!(
        stderr(&output).contains("in a network of its own"),
        "{}",
        stderr(&output)
    );
}
