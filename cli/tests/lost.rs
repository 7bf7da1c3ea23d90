//! What is said of a lock that was lost, whatever its scenario's file expects: exit codes, JSON, JUnit, text.
#![allow(missing_docs)]

mod support;

use std::path::Path;

use serde_json::Value;
use support::{code, run, stderr, stdout};

/// `chaos` on a server that comes back empty, whose file expects that any lock is lost; with a lock of the
/// user's own.
fn on_an_empty_server(dir: &Path, args: &[&str]) -> (i32, Value) {
    let own = format!("exec:{} driver lock-core:plain", env!("CARGO_BIN_EXE_locklab"));
    let all = ["chaos", "crash-single-no-persistence", "--seed", "7", "--json"];
    let output = run(dir, &[&all[..], &["--subject", &own, "--junit", "x.xml"], args].concat());
    let json = serde_json::from_str(&stdout(&output));
    (code(&output), json.unwrap_or_else(|_| panic!("{}", stderr(&output))))
}

#[test]
fn a_lock_of_ones_own_that_was_lost_is_1_whatever_its_file_expects() {
    let dir = tempfile::tempdir().unwrap();
    let (code, json) = on_an_empty_server(dir.path(), &["--out", "run"]);
    assert_eq!((code, &json["lost"]), (1, &1.into()), "{json:#}");
    assert_eq!(json["as_expected"], true, "as its file expects");
    assert_eq!(json["scenarios"][0]["lost"], true);
    let answer = json["answer"].as_str().unwrap();
    assert!(answer.starts_with("LOST by the one configuration"), "{answer}");
    let junit = std::fs::read_to_string(dir.path().join("x.xml")).unwrap();
    assert!(junit.contains("type=\"lost\"") && junit.contains("failures=\"1\""), "{junit}");
    let text = stdout(&run(dir.path(), &["report", "run", "--color", "always"]));
    assert!(text.starts_with("\u{1b}[31mLOST by the one"), "{text}");
    assert!(text.contains("\u{1b}[90mthe scenario came out as its file expects"), "{text}");

    let (code, json) = on_an_empty_server(dir.path(), &["--out", "again", "--expect-file"]);
    assert_eq!((code, &json["lost"]), (0, &1.into()), "{json:#}");
    let junit = std::fs::read_to_string(dir.path().join("x.xml")).unwrap();
    assert!(junit.contains("failures=\"0\""), "{junit}");
}

#[test]
fn a_loss_is_shown_where_the_driver_gave_the_grant_or_where_the_file_expects() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let scenario = "name = \"at\"\n[topology]\nkind = \"single\"\n[lock]\nsubject = \"exec:sh lock.sh\"\n\
        [load]\nclients = 3\nduration = \"1s\"\n[expect]\ncontract = \"clean\"\n";
    std::fs::write(dir.join("at.toml"), scenario).unwrap();
    let lost = |says: &str| {
        let driver = format!(
            "{} driver broken:steal | sed -u 's|\"ok\":|{says}\"ok\":|'\n",
            env!("CARGO_BIN_EXE_locklab")
        );
        std::fs::write(dir.join("lock.sh"), driver).unwrap();
        let output = run(dir, &["chaos", "at.toml", "--out", "run"]);
        assert_eq!(code(&output), 1, "{}", stderr(&output));
        let form = |form| {
            let made = run(dir, &["report", "run", "--format", form, "-o", "made"]);
            assert_eq!(code(&made), 0, "{}", stderr(&made));
            std::fs::read_to_string(dir.join("made")).unwrap()
        };
        let all = [stdout(&output), form("annotations"), form("junit")];
        std::fs::remove_dir_all(dir.join("run")).unwrap();
        all
    };
    let [text, annotations, junit] = lost("\"at\":\"src/lock.sh:41\",");
    assert!(text.contains("at worst (src/lock.sh:41)"), "{text}");
    assert!(annotations.contains("::error file=src/lock.sh,line=41,title="), "{annotations}");
    assert!(junit.contains("file=\"src/lock.sh\" line=\"41\""), "{junit}");
    let [_, annotations, _] = lost("");
    assert!(annotations.contains("::error file=at.toml,line=9,title="), "{annotations}");
}

/// Takes turns of a lock that is kept and one that is not, in the same directory.
#[test]
fn runs_are_listed_the_worst_first_and_a_run_says_what_changed_since_the_last() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let scenario = "name = \"turn\"\n[topology]\nkind = \"single\"\n[lock]\nsubject = \"exec:sh lock.sh\"\n\
        [load]\nclients = 3\nduration = \"1s\"\n[expect]\ncontract = \"clean\"\n";
    std::fs::write(dir.join("turn.toml"), scenario).unwrap();
    let turn = |subject: &str| {
        let driver = format!("exec {} driver {subject}\n", env!("CARGO_BIN_EXE_locklab"));
        std::fs::write(dir.join("lock.sh"), driver).unwrap();
        stdout(&run(dir, &["chaos", "turn.toml"]))
    };
    let first = turn("lock-core:plain");
    assert!(!first.contains(" -> "), "{first}");
    let lost = turn("broken:steal");
    assert!(lost.contains("contract: clean -> violated"), "{lost}");
    let third = turn("lock-core:plain");
    assert!(third.contains("contract: violated -> clean"), "{third}");

    let latest = std::fs::read_link(dir.join("runs/latest")).unwrap();
    let page = std::fs::read_to_string(dir.join("runs/index.html")).unwrap();
    let rows: Vec<&str> = page.split("<tr>").skip(1).collect();
    assert_eq!(rows.len(), 3, "{page}");
    assert!(rows[0].contains("class=\"lost\""), "{page}");
    // Of two that were kept the newest is first, to which the link leads.
    let newest = latest.file_name().unwrap().to_str().unwrap();
    assert!(rows[1].contains(newest), "{newest}: {page}");
}
