//! `locklab check` as a script sees it: other people's histories, exit codes, and messages for bad files.
#![allow(missing_docs)]

mod support;

use std::io::Write as _;
use std::process::Stdio;

use support::{code, locklab, run, signal, stderr, stdout, until};

/// Two clients take turns, three grants, so that the floors are met.
const CLEAN: &str = r#"{"t_ns":1000000,"id":1,"client":"c1","owner":"t0","op":"acquire","lock":"orders","kind":"reentrant","lease_ms":3000,"wait_ms":500}
{"t_ns":2000000,"id":1,"end":"ok","grant":"g1"}
{"t_ns":3000000,"id":2,"op":"release","grant":"g1"}
{"t_ns":4000000,"id":2,"end":"ok"}
{"t_ns":5000000,"id":3,"client":"c2","owner":"t0","op":"acquire","lock":"orders","kind":"reentrant","lease_ms":3000,"wait_ms":500}
{"t_ns":6000000,"id":3,"end":"ok","grant":"g2"}
{"t_ns":7000000,"id":4,"op":"release","grant":"g2"}
{"t_ns":8000000,"id":4,"end":"ok"}
{"t_ns":9000000,"id":5,"client":"c1","owner":"t0","op":"acquire","lock":"orders","kind":"reentrant","lease_ms":3000,"wait_ms":500}
{"t_ns":10000000,"id":5,"end":"ok","grant":"g3"}
{"t_ns":11000000,"id":6,"op":"release","grant":"g3"}
{"t_ns":12000000,"id":6,"end":"ok"}
"#;

fn check(text: &str, args: &[&str]) -> std::process::Output {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("h.jsonl"), text).unwrap();
    let mut all = vec!["check", "h.jsonl"];
    all.extend(args);
    run(dir.path(), &all)
}

#[test]
fn a_killed_run_is_judged_by_what_it_recorded() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(
        dir.path().join("long.toml"),
        "name = \"long\"\n[topology]\nkind = \"single\"\n[load]\nduration = \"5m\"\n",
    )
    .unwrap();
    let mut chaos = locklab(dir.path())
        .args(["chaos", "long.toml", "--out", "killed"])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let history = dir.path().join("killed/history.jsonl");
    until("enough is on record", || {
        std::fs::read_to_string(&history).is_ok_and(|text| text.lines().count() > 100)
    });
    signal(&chaos, nix::sys::signal::Signal::SIGKILL);
    chaos.wait().unwrap();
    let output = run(dir.path(), &["check", "killed"]);
    assert_eq!(code(&output), 2, "{}{}", stdout(&output), stderr(&output));
    let said = stdout(&output);
    assert!(said.contains("the run did not end"), "{said}");
}

#[test]
fn a_result_that_cannot_be_written_is_not_a_success() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("h.jsonl"), CLEAN).unwrap();
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let output = locklab(dir.path()).args(["check", "h.jsonl", "--json"]).stdout(full).output().unwrap();
    assert_eq!(code(&output), 69, "{}", stderr(&output));
}

#[test]
fn turns_that_do_not_overlap_are_clean() {
    let output = check(CLEAN, &[]);
    assert_eq!(code(&output), 0, "{}{}", stdout(&output), stderr(&output));
}

#[test]
fn two_holds_within_their_leases_are_violated() {
    // g2 is granted before g1 is released.
    let overlap =
        CLEAN.replace("\"t_ns\":3000000", "\"t_ns\":6500000").replace("\"t_ns\":4000000", "\"t_ns\":6600000");
    let mut lines: Vec<&str> = overlap.lines().collect();
    lines.sort_by_key(|line| {
        let after = &line["{\"t_ns\":".len()..];
        after[..after.find(',').unwrap()].parse::<u64>().unwrap()
    });
    let output = check(&format!("{}\n", lines.join("\n")), &["--json"]);
    assert_eq!(code(&output), 1, "{}", stderr(&output));
    let json: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(json["schema"], 1);
    assert_eq!(json["verdicts"]["contract"]["state"], "violated");
    assert_eq!(json["verdicts"]["contract"]["count"], 1);
    assert_eq!(json["locks"]["orders"]["belief"]["state"], "violated");
}

/// The example of the book's page on history files.
#[test]
fn the_example_has_two_owners() {
    let example = include_str!("../../examples/two-owners.jsonl");
    let output = check(example, &["--no-floors", "--json"]);
    assert_eq!(code(&output), 1, "{}", stderr(&output));
    let said: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    let states = ["belief", "contract", "confirmed", "effect", "liveness"]
        .map(|class| said["verdicts"][class]["state"].as_str().unwrap().to_owned());
    assert_eq!(states, ["violated", "violated", "clean", "clean", "clean"]);
}

#[test]
fn the_operations_are_exported_for_another_judge() {
    let output = check(CLEAN, &["--export", "porcupine"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let lines = stdout(&output);
    let operations: Vec<serde_json::Value> =
        lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let ops: Vec<&str> = operations.iter().filter_map(|line| line["op"].as_str()).collect();
    assert_eq!(ops, ["acquire", "end"].repeat(3), "{lines}");
    assert!(operations.iter().all(|line| line["lock"] == "orders"), "{lines}");
    let output = check(CLEAN, &["--export", "knossos"]);
    assert_eq!(code(&output), 64);
}

#[test]
fn too_few_grants_are_unknown_unless_floors_are_off() {
    let short: String = CLEAN.lines().take(4).map(|line| format!("{line}\n")).collect();
    assert_eq!(code(&check(&short, &[])), 2);
    assert_eq!(code(&check(&short, &["--no-floors"])), 0);
}

#[test]
fn a_torn_last_line_is_dropped_and_the_run_is_at_best_unknown() {
    let torn = format!("{CLEAN}{{\"t_ns\":13000000,\"id\":7,\"cli");
    let output = check(&torn, &[]);
    assert_eq!(code(&output), 2, "{}", stderr(&output));
}

#[test]
fn a_bad_line_is_65_with_its_place() {
    let bad = CLEAN.replace("\"op\":\"release\",\"grant\":\"g1\"", "\"op\":\"relaese\",\"grant\":\"g1\"");
    let output = check(&bad, &[]);
    assert_eq!(code(&output), 65);
    assert!(stderr(&output).contains('3') && stderr(&output).contains("relaese"), "{}", stderr(&output));
    assert_eq!(code(&check("", &[])), 65);
    assert_eq!(code(&check("not json\n", &[])), 65);
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(code(&run(dir.path(), &["check", "nowhere"])), 65);
}

#[test]
fn an_error_is_the_document_of_a_command_that_has_no_other() {
    for (args, wanted, says) in [
        (&["check", "no-such", "--json"][..], 65, "no-such"),
        (&["bench", "--json", "--tasks", "0"], 64, "--tasks"),
        (&["bench", "--json", "--rounds", "1", "--target", "redis://127.0.0.1:1"], 69, "127.0.0.1:1"),
        (&["lock", "redis://127.0.0.1:1", "n", "--connect-timeout", "1ms", "--", "true", "--json"], 69, ""),
    ] {
        let output = run(std::path::Path::new("."), args);
        assert_eq!(code(&output), wanted, "{args:?}: {}", stderr(&output));
        if says.is_empty() {
            assert_eq!(stdout(&output), "", "the flag is the command's");
            continue;
        }
        let document: serde_json::Value = serde_json::from_str(&stdout(&output)).expect("one document");
        assert_eq!(document["exit_code"], wanted);
        assert!(document["error"].as_str().is_some_and(|error| error.contains(says)), "{document}");
        assert!(stderr(&output).contains(says), "{}", stderr(&output));
    }
}

#[test]
fn a_bad_flag_is_64() {
    assert_eq!(code(&check(CLEAN, &["--drift", "much"])), 64);
    assert_eq!(code(&check(CLEAN, &["--no-such-flag"])), 64);
    assert_eq!(code(&check(CLEAN, &["--drift", "2%"])), 0);
}

/// A directory with `CLEAN` in it as a compressed history, and its path.
fn compressed() -> (tempfile::TempDir, std::path::PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let plain = dir.path().join("history.jsonl");
    std::fs::write(&plain, CLEAN).unwrap();
    let path = results::history_file::compress_above(&plain, 0).unwrap();
    assert!(!plain.exists() && path.ends_with("history.jsonl.zst"));
    (dir, path)
}

#[test]
fn a_compressed_history_is_judged_by_its_name_and_by_its_directory() {
    let (dir, path) = compressed();
    for what in [path.as_path(), dir.path()] {
        let output = run(dir.path(), &["check", what.to_str().unwrap()]);
        assert_eq!(code(&output), 0, "{}{}", stdout(&output), stderr(&output));
    }
}

#[test]
fn a_cut_or_damaged_compressed_history_is_65_and_named() {
    let (dir, path) = compressed();
    let good = std::fs::read(&path).unwrap();
    for (bytes, words) in [
        (good[..good.len() / 2].to_vec(), "cut off"),
        ([&good[..good.len() - 4], b"....".as_slice()].concat(), "damaged"),
    ] {
        std::fs::write(&path, bytes).unwrap();
        let output = run(dir.path(), &["check", "history.jsonl.zst"]);
        assert_eq!(code(&output), 65, "{}", stderr(&output));
        let message = stderr(&output);
        assert!(message.contains("history.jsonl.zst") && message.contains(words), "{message}");
    }
}

#[test]
fn a_history_is_read_from_standard_input() {
    let (dir, path) = compressed();
    let zst = std::fs::read(path).unwrap();
    let piped = |name: &str, bytes: &[u8]| {
        let mut command = locklab(dir.path());
        command.args(["check", name]).stdin(Stdio::piped());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // Dropped when it is written, so that the history ends.
        child.stdin.take().unwrap().write_all(bytes).unwrap();
        child.wait_with_output().unwrap()
    };
    for (name, bytes) in [("-", CLEAN.as_bytes()), ("/dev/stdin", CLEAN.as_bytes()), ("-", &zst)] {
        let output = piped(name, bytes);
        assert_eq!(code(&output), 0, "{}{}", stdout(&output), stderr(&output));
    }
    let output = piped("-", b"not json\n");
    assert_eq!(code(&output), 65);
    let message = stderr(&output);
    assert!(message.contains("/dev/stdin: line 1"), "{message}");
}

#[test]
fn a_run_keeps_its_history_compressed_when_asked_to() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(
        dir.path().join("calm.toml"),
        "name = \"calm\"\n[topology]\nkind = \"single\"\n[load]\nclients = 1\nduration = \"1s\"\nhold = \"1ms\"\nthink = \"1ms\"\n",
    )
    .unwrap();
    let output = run(dir.path(), &["chaos", "calm.toml", "--compress-above", "0", "--out", "kept"]);
    assert_eq!(code(&output), 0, "{}{}", stdout(&output), stderr(&output));
    let kept = dir.path().join("kept");
    assert!(kept.join("history.jsonl.zst").is_file() && !kept.join("history.jsonl").exists());
    for args in [
        &["check", "kept"][..],
        &["report", "kept"],
        &["report", "kept", "--format", "html", "-o", "page.html"],
        &["report", "kept", "--scenario", "calm", "-o", "calm.html"],
    ] {
        let output = run(dir.path(), args);
        assert_eq!(code(&output), 0, "{args:?}: {}{}", stdout(&output), stderr(&output));
    }
    for args in
        [&["chaos", "calm.toml", "--compress-above", "much"][..], &["report", "kept", "--scenario", "storm"]]
    {
        let output = run(dir.path(), args);
        assert_eq!(code(&output), 64, "{args:?}: {}", stderr(&output));
    }
    let output = run(dir.path(), &["report", "kept", "--scenario", "clam"]);
    let told = "the run has no scenario `clam`; did you mean `calm`?";
    assert!(stderr(&output).contains(told), "{}", stderr(&output));
}

#[test]
fn a_report_of_several_runs_names_commands_that_work() {
    let dir = tempfile::tempdir().unwrap();
    let fixture = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../results/tests/fixtures/quickstart.run.json");
    let mut kept: serde_json::Value = serde_json::from_slice(&std::fs::read(fixture).unwrap()).unwrap();
    for result in kept["scenarios"].as_array_mut().unwrap() {
        result["dir"] = result["name"].clone();
    }
    for name in ["a", "b"] {
        kept["run"] = name.into();
        std::fs::create_dir(dir.path().join(name)).unwrap();
        std::fs::write(dir.path().join(name).join("run.json"), kept.to_string()).unwrap();
    }
    let output = run(dir.path(), &["report", "a", "b"]);
    let said = stdout(&output);
    assert_eq!(code(&output), 0, "{said}{}", stderr(&output));
    for told in [
        "locklab report a --scenario ",
        "`locklab replay a --shrink`",
        "`locklab report a b -o page.html` writes it",
    ] {
        assert!(said.contains(told), "{told}: {said}");
    }
    let output = run(dir.path(), &["report", "a", "b", "-o", "both.md"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let page = std::fs::read_to_string(dir.path().join("both.md")).unwrap();
    assert!(page.contains("## Configurations side by side"), "{page}");
}

#[test]
fn a_document_is_written_to_a_pipe_and_behind_a_link_which_stay_what_they_are() {
    let dir = tempfile::tempdir().unwrap();
    let fixture = concat!(env!("CARGO_MANIFEST_DIR"), "/../results/tests/fixtures/quickstart.run.json");
    std::fs::create_dir(dir.path().join("kept")).unwrap();
    let text = std::fs::read_to_string(fixture).unwrap().replace("scenarios/", "");
    std::fs::write(dir.path().join("kept/run.json"), text).unwrap();
    std::fs::write(dir.path().join("shared.md"), "old").unwrap();
    std::os::unix::fs::symlink("shared.md", dir.path().join("link.md")).unwrap();
    // A device of the test's own, which a program that may do everything could replace.
    std::os::unix::fs::symlink("/dev/stdout", dir.path().join("out.md")).unwrap();
    for (name, piped) in [("link.md", false), ("out.md", true)] {
        let output = run(dir.path(), &["report", "kept", "-o", name]);
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        assert!(dir.path().join(name).is_symlink(), "{name} was replaced");
        assert_eq!(stdout(&output).contains("What became of the lock"), piped);
    }
    let shared = std::fs::read_to_string(dir.path().join("shared.md")).unwrap();
    assert!(shared.contains("What became of the lock"), "{shared}");
}

/// A hold of one client, in a file of its own.
fn hold(dir: &std::path::Path, client: &str, from_ms: u64, to_ms: u64) -> String {
    let at = |ms: u64| ms * 1_000_000;
    let call = format!(
        r#"{{"t_ns":{},"id":1,"client":"{client}","owner":"t0","op":"acquire","lock":"a","kind":"reentrant","lease_ms":60000,"wait_ms":0}}"#,
        at(from_ms - 1)
    );
    let granted = format!(r#"{{"t_ns":{},"id":1,"end":"ok","grant":"g"}}"#, at(from_ms));
    let release = format!(r#"{{"t_ns":{},"id":2,"op":"release","grant":"g"}}"#, at(to_ms));
    let over = format!(r#"{{"t_ns":{},"id":2,"end":"ok"}}"#, at(to_ms + 1));
    let name = format!("{client}.jsonl");
    let lines = [call, granted, release, over].join("\n") + "\n";
    std::fs::write(dir.join(&name), lines).unwrap();
    name
}

#[test]
fn several_files_are_one_history_and_what_is_closer_than_their_clocks_is_unknown() {
    let dir = tempfile::tempdir().unwrap();
    let files = [hold(dir.path(), "c1", 10, 100), hold(dir.path(), "c2", 90, 200)];
    let judged = |more: &[&str]| {
        let args = ["check", &files[0], &files[1], "--no-floors", "--json"];
        run(dir.path(), &[&args[..], more].concat())
    };
    let undeclared = judged(&[]);
    assert_eq!(code(&undeclared), 65);
    assert!(stderr(&undeclared).contains("--clock-uncertainty"), "{}", stderr(&undeclared));
    let known = judged(&["--clock-uncertainty", "2ms"]);
    assert_eq!(code(&known), 1, "{}", stderr(&known));
    assert!(stdout(&known).contains("\"worst_ns\":10000000"), "{}", stdout(&known));
    let unsure = judged(&["--clock-uncertainty", "6ms"]);
    assert_eq!(code(&unsure), 2, "{}", stderr(&unsure));
    assert!(stdout(&unsure).contains("1 pairs of holds of different generators"));
}

#[test]
fn the_clock_of_a_server_is_lines_of_a_history() {
    let (dir, server) = (tempfile::tempdir().unwrap(), support::Server::start());
    let mut files = vec![hold(dir.path(), "c1", 10, 100), hold(dir.path(), "c2", 90, 200)];
    for file in &mut files {
        let args = ["clock", &server.url(), "--every", "10ms", "--for", "100ms"];
        let output = run(dir.path(), &args);
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        let clock = stdout(&output);
        assert!(clock.lines().count() >= 5, "{clock}");
        // The machine's clock began before those of these holds.
        let held = std::fs::read_to_string(dir.path().join(&*file)).unwrap();
        std::fs::write(dir.path().join(&*file), held + &clock).unwrap();
    }
    let args = ["check", &files[0], &files[1], "--no-floors", "--json"];
    let output = run(dir.path(), &args);
    // The holds lie far before all readings, and nobody knows how the clocks stood.
    assert_eq!(code(&output), 2, "{}{}", stdout(&output), stderr(&output));
}
