//! Programs where a subject stands: `exec:` may be left out, and one that cannot be started or says nothing
//! useful is told what fits. And what help says of all commands.
#![allow(missing_docs)]

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::Value;
use support::{code, run, stderr, stdout};

/// One line and 64 in every command that starts drivers.
fn refused(dir: &Path, program: &str, said: &str) {
    for command in [
        &["audit", program][..],
        &["conform", program],
        &["chaos", "never-released", "--subject", program],
        &["bench", "--subject", program, "--topology", "single"],
    ] {
        let output = run(dir, command);
        let error = stderr(&output);
        assert_eq!(code(&output), 64, "{command:?}: {}{error}", stdout(&output));
        assert_eq!(error.lines().count(), 1, "{command:?}: {error}");
        assert!(error.contains(said), "{command:?}: {error}");
        assert!(stdout(&output).is_empty(), "{}", stdout(&output));
    }
}

#[test]
fn a_program_that_cannot_be_started_is_one_line_and_wrong_usage_everywhere() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    fs::write(dir.path().join("driver.py"), "").expect("a file");
    for (program, said) in [
        ("exec:./nothing", "there is no program ./nothing"),
        ("./drvier.py", "did you mean `./driver.py`?"),
        ("exec:driver.py", "is started as `./driver.py`"),
        ("./driver.py", "chmod +x ./driver.py"),
        ("exec:pyhton3 driver.py", "did you mean `python3`?"),
        ("exec:/", "/ is a directory"),
    ] {
        refused(dir.path(), program, said);
    }
    assert!(!dir.path().join("runs").exists(), "a run was begun");
}

#[test]
fn exec_may_be_left_out_and_a_name_that_is_known_is_taken_first() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("lock-core:plain");
    fs::write(&path, "#!/bin/sh\n").expect("a file");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("a mode");
    fs::write(
        dir.path().join("own.toml"),
        "name = \"own\"\n[topology]\nkind = \"single\"\n[lock]\nsubject = \"cat -u\"\nlease = \"1s\"\n[load]\nduration = \"1s\"\n",
    )
    .expect("a file");
    for (args, subject) in [
        (&["never-released", "--subject", "cat -u"][..], "exec:cat -u"),
        (&["never-released", "--subject", "./lock-core:plain"], "exec:./lock-core:plain"),
        (&["never-released", "--subject", "lock-core:plain"], "lock-core:plain"),
        (&["own.toml"], "exec:cat -u"),
    ] {
        let args = [&["--json", "chaos", "--dry-run"], args].concat();
        let output = run(dir.path(), &args);
        let plans: Value = serde_json::from_str(&stdout(&output))
            .unwrap_or_else(|error| panic!("{error}: {}", stderr(&output)));
        let found = &plans["plans"][0]["lock"]["subject"];
        assert_eq!(found, subject, "{args:?}: {plans:#}");
    }
}

#[test]
fn a_hello_that_fails_gets_the_remedy_that_fits() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    for (program, said) in [
        ("sh -c 'echo Welcome; exec cat >&2'", "banners, logs"),
        ("sh -c 'echo no such module >&2; exit 3'", "start the program by hand"),
        ("sleep 1000", "flush standard output"),
    ] {
        let args = ["--json", "conform", program, "--patience", "500ms"];
        let output = run(dir.path(), &args);
        let report: Value = serde_json::from_str(&stdout(&output))
            .unwrap_or_else(|error| panic!("{error}: {}", stderr(&output)));
        let hello = &report["steps"][0];
        assert_eq!(hello["outcome"], "broken", "{report:#}");
        let remedy = hello["remedy"].as_str().expect("text");
        assert!(remedy.contains(said), "{program}: {hello:#}");
        if program.contains("exit 3") {
            let found = hello["found"].as_str().expect("text");
            let told = found.contains("code 3") && found.contains("no such module");
            assert!(told, "{found}");
        }
    }
}

/// The first words of the lines that are indented by two.
fn listed(text: &str) -> Vec<&str> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("  "));
    lines.filter_map(|line| line.split(' ').next().filter(|word| !word.is_empty())).collect()
}

#[test]
fn every_command_is_in_one_group_and_nine_are_shown() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let all = stdout(&run(dir.path(), &["help", "all"]));
    let named: BTreeSet<&str> = listed(&all).into_iter().collect();
    assert_eq!(named.len(), listed(&all).len(), "a name twice: {all}");
    assert_eq!(code(&run(dir.path(), &["man", "--out", "pages"])), 0);
    let pages = fs::read_dir(dir.path().join("pages")).expect("pages").flatten();
    let pages = pages.map(|page| page.file_name().to_string_lossy().into_owned());
    let pages: BTreeSet<String> = pages
        .filter_map(|page| Some(page.strip_prefix("locklab-")?.strip_suffix(".1")?.to_owned()))
        .filter(|page| !page.starts_with("kube-"))
        .collect();
    // A driver is started by programs alone.
    let pages: BTreeSet<&str> = pages.iter().map(String::as_str).chain(["driver"]).collect();
    assert_eq!(named, pages);
    let short = stdout(&run(dir.path(), &["-h"]));
    let commands = short.split("Commands:").nth(1).and_then(|rest| rest.split("\n\n").next());
    assert_eq!(listed(commands.expect("commands")).len(), 9, "{short}");
}

#[test]
fn the_short_help_of_bench_has_eight_options() {
    let short = stdout(&run(Path::new("."), &["bench", "-h"]));
    let options = short.lines().filter(|line| line.trim_start().starts_with("--"));
    assert_eq!(options.count(), 8, "{short}");
}
