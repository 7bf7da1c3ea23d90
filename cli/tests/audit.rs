//! `audit` gives each lock the right outcome, says with what it is proven, and ends with the code that
//! belongs to it.

mod support;

use std::path::{Path, PathBuf};
use std::process::Stdio;

use nix::sys::signal::Signal;
use serde_json::Value;
use support::{code, run, stderr, stdout};

/// Runs an audit of these locks on these scenarios, without a bench.
fn audit(dir: &Path, subjects: &[&str], more: &[&str]) -> (i32, Value, String) {
    let mut args = vec!["--json", "--seed", "7", "audit", "--no-bench"];
    args.extend(subjects);
    args.extend(more);
    let output = run(dir, &args);
    let said = format!("{}{}", stdout(&output), stderr(&output));
    let json = serde_json::from_str(&stdout(&output)).unwrap_or_default();
    (code(&output), json, said)
}

fn driver(mode: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/drivers/driver.py");
    format!("exec:python3 {} {mode}", path.display())
}

/// A short scenario whose lease is so long.
fn scenario(dir: &Path, name: &str, lease: &str) {
    let text = format!(
        "name = \"{name}\"\n[topology]\nkind = \"single\"\n[lock]\nlease = \"{lease}\"\n[load]\nclients = 2\nduration = \"700ms\"\n\
         [expect]\nbelief = \"clean\"\ncontract = \"clean\"\n"
    );
    std::fs::write(dir.join(format!("{name}.toml")), text).expect("the folder can be written");
}

fn of<'v>(json: &'v Value, subject: usize, scenario: &str) -> &'v Value {
    let all = json["subjects"][subject]["scenarios"].as_array();
    let mut all = all.into_iter().flatten();
    let found = all.find(|one| one["name"] == scenario);
    found.unwrap_or_else(|| panic!("no {scenario} in {json:#}"))
}

#[test]
fn a_sound_lock_keeps_what_its_broken_twin_breaks_and_neither_what_no_lock_can() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let subjects = ["baseline:set-nx-px", "broken:release-without-owner-check"];
    let more = [
        "--scenario",
        "late-releases,crash-single-aof,crash-single-no-persistence,read-write",
        "--out",
        "run",
        "--junit",
        "audit.xml",
        "--shrink",
        "1ms",
    ];
    let (code, json, said) = audit(dir.path(), &subjects, &more);
    assert_eq!(code, 1, "{said}");
    // Late releases by the dozen: in every run some free another's lock, if the lock lets them.
    assert_eq!(of(&json, 0, "late-releases")["outcome"], "kept", "{said}");
    let broken = of(&json, 1, "late-releases");
    assert_eq!(broken["outcome"], "broken", "{said}");
    assert_eq!(broken["verdicts"]["contract"], "violated");
    let why = broken["why"].as_str().unwrap_or_default();
    assert!(why.contains("lock-core:reentrant kept contract"), "{why}");
    let shown = &broken["runs"][0];
    assert_eq!(shown["twin"]["subject"], "lock-core:reentrant");
    for kept in [&shown["dir"], &shown["twin"]["dir"]] {
        let plan = format!("run/{}/plan.json", kept.as_str().unwrap_or_default());
        assert!(dir.path().join(plan).is_file(), "{kept}");
    }
    for subject in 0..2 {
        let kept = of(&json, subject, "crash-single-aof");
        assert_eq!(kept["outcome"], "kept", "{said}");
        assert_eq!(kept["verdicts"]["contract"], "clean");
        let forgotten = of(&json, subject, "crash-single-no-persistence");
        assert_eq!(forgotten["outcome"], "inherent", "{said}");
        let lacks = of(&json, subject, "read-write");
        assert_eq!(lacks["outcome"], "not-applicable", "{said}");
        assert!(lacks["why"].as_str().is_some_and(|why| why.contains("no kind `read`")));
        let score = json["subjects"][subject]["score"].as_object().expect("a score");
        assert_eq!(score.values().filter_map(Value::as_u64).sum::<u64>(), 4);
    }
    assert_eq!(json["subjects"][1]["score"]["broken"], 1);
    let read = |name: &str| std::fs::read_to_string(dir.path().join(name)).expect(name);
    let kept: Value = serde_json::from_str(&read("run/audit.json")).expect("JSON");
    assert_eq!(kept["subjects"], json["subjects"]);
    assert!(read("run/badge.svg").contains("LOST in 1 of"));
    let page = read("run/report.html");
    assert!(page.len() < 500_000 && page.contains("both hold"), "{}", page.len());
    assert!(read("run/report.md").contains("locklab replay run/"));
    // Of a search without time the whole plan is left, as a file that convicts.
    let small = &broken["smallest"];
    assert_eq!((&small["violates"], &small["done"]), (&"contract".into(), &false.into()));
    let file = format!("run/{}", small["file"].as_str().unwrap_or_default());
    assert_eq!(read(&file), small["text"].as_str().unwrap_or_default());
    assert!(page.contains("The smallest scenario found that violates contract"));
    assert!(page.contains("<dt>Servers</dt><dd>redis "), "{page}");
    let again = run(dir.path(), &["chaos", &file, "--out", "again"]);
    assert_eq!(support::code(&again), 1, "{}", stderr(&again));
    let junit = read("audit.xml");
    assert!(junit.contains("failures=\"1\"") && junit.contains("<skipped"), "{junit}");
    for args in [&["report", "run", "-v"][..], &["report", "run", "-o", "again.html"]] {
        assert_eq!(support::code(&run(dir.path(), args)), 0, "{args:?}");
    }
    assert_eq!(read("again.html"), page);
    against(dir.path());
}

/// What was kept before and is broken now is named; what was broken before is not.
fn against(dir: &Path) {
    let path = dir.join("run/audit.json");
    let mut base: Value =
        serde_json::from_str(&std::fs::read_to_string(&path).expect("the audit")).expect("JSON");
    let args = ["--scenario", "late-releases", "--against", "base.json"];
    for (outcome, named) in [("broken", 0), ("kept", 1)] {
        base["subjects"][1]["scenarios"][0]["outcome"] = outcome.into();
        std::fs::write(dir.join("base.json"), base.to_string()).expect("the base");
        let (code, json, said) = audit(dir, &["broken:release-without-owner-check"], &args);
        assert_eq!(code, 1, "{said}");
        let lost = json["regressions"].as_array().map_or(0, Vec::len);
        assert_eq!(lost, named, "{said}");
        assert_eq!(said.contains("kept before and broken now: late-releases"), named == 1);
    }
}

/// What a lock does with a message that is lost, late or the last is tried without a scenario for it.
#[test]
fn faults_drawn_on_messages_convict_a_broken_lock_and_say_how_much_was_tried() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    scenario(dir.path(), "calm", "2s");
    // A recipe without a look at the time left would grant what has run out, where a late answer is drawn.
    let subjects = ["broken:error-is-granted", "lock-core:plain"];
    let more = ["--scenario", "calm.toml", "--draw", "12s", "--out", "run"];
    let (code, json, said) = audit(dir.path(), &subjects, &more);
    assert_eq!(code, 1, "{said}");
    for (number, is_sound) in [(0, false), (1, true)] {
        let subject = &json["subjects"][number];
        let rows = subject["scenarios"].as_array().expect("scenarios");
        let drawn: Vec<&Value> = rows.iter().filter(|one| one["name"] != "calm").collect();
        // Of what was drawn only a conviction is a row.
        assert_eq!(drawn.is_empty(), is_sound, "{drawn:#?}");
        assert!(drawn.iter().all(|one| one["outcome"] == "broken"));
        let share = &subject["drawn"];
        let of = |field: &str| share[field].as_u64().unwrap_or_default();
        let untried = share["untried"].as_array().map_or(0, Vec::len) as u64;
        assert!(of("tried") >= 3 && of("tried") + untried == of("points"), "{share}");
        let words = format!("faults drawn at {} of {} points", of("tried"), of("points"));
        let page = std::fs::read_to_string(dir.path().join("run/report.md")).expect("a page");
        assert!(page.contains(&words), "{page}");
    }
    let convicted = json["subjects"][0]["scenarios"].as_array().expect("rows");
    let convicted: Vec<&Value> = convicted.iter().filter(|one| one["name"] != "calm").collect();
    // One of them is made smaller, and still convicts.
    let smaller: Vec<&Value> =
        convicted.iter().map(|one| &one["smallest"]).filter(|one| !one.is_null()).collect();
    assert_eq!(smaller.len(), 1, "{convicted:#?}");
    let file = format!("run/{}", smaller[0]["file"].as_str().unwrap_or_default());
    let small = std::fs::read_to_string(dir.path().join(&file)).expect("the smallest scenario");
    assert_eq!(small, smaller[0]["text"].as_str().unwrap_or_default());
    let kept = convicted[0]["runs"][0]["dir"].as_str().unwrap_or_default();
    let again = run(dir.path(), &["replay", &format!("run/{kept}")]);
    assert_eq!(support::code(&again), 1, "{}", stderr(&again));
}

#[test]
fn an_interrupted_audit_draws_no_further_faults() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    scenario(dir.path(), "calm", "2s");
    let mut child = support::locklab(dir.path())
        .args([
            "audit",
            "broken:steal",
            "--no-bench",
            "--scenario",
            "calm.toml",
            "--draw",
            "1h",
            "--out",
            "run",
        ])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("locklab");
    let drawn = || {
        let runs = std::fs::read_dir(dir.path().join("run")).into_iter().flatten().flatten();
        runs.filter(|run| run.file_name().to_string_lossy().contains("-drawn-")).count()
    };
    support::until("faults are drawn", || drawn() > 0);
    support::signal(&child, Signal::SIGINT);
    support::until("the audit has ended, long before the time for drawn faults is over", || {
        child.try_wait().expect("a child").is_some()
    });
    assert_eq!(child.wait().expect("a child").code(), Some(130));
    let card = std::fs::read_to_string(dir.path().join("run/audit.json")).expect("a scorecard");
    assert!(card.contains("calm"), "what was tried is kept: {card}");
}

#[test]
fn a_driver_that_dies_or_does_not_answer_costs_its_own_scenario_only() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    for (name, lease) in [("dies", "777ms"), ("deaf", "888ms"), ("calm", "2s")] {
        scenario(dir.path(), name, lease);
    }
    let files = ["--scenario", "dies.toml,deaf.toml,calm.toml"];
    let (code, json, said) = audit(dir.path(), &[&driver("moody")], &files);
    assert_eq!(code, 2, "{said}");
    for name in ["dies", "deaf"] {
        let lost = of(&json, 0, name);
        assert_eq!(lost["outcome"], "unknown", "{said}");
        assert_ne!(lost["why"], "", "{said}");
    }
    assert_eq!(of(&json, 0, "calm")["outcome"], "kept", "{said}");
    assert_eq!(json["subjects"][0]["conform"]["conforms"], true, "{said}");
    assert_eq!(json["subjects"][0]["library"], "set-nx-px 1.0 (python)");
}

#[test]
fn what_is_said_of_a_grant_beside_its_answer_is_no_hole_in_the_history() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    scenario(dir.path(), "calm", "2s");
    let subject = driver("eager");
    // The driver says that it holds before it is answered, which is not what is tried here.
    let args = ["--json", "chaos", "calm.toml", "--subject", &subject];
    let more = ["--expect-file", "--out", "run"];
    let output = run(dir.path(), &[&args[..], &more].concat());
    let said = format!("{}{}", stdout(&output), stderr(&output));
    assert_eq!(code(&output), 0, "{said}");
    // One that it never gave, by each of two clients.
    assert_eq!(said.matches("are about grants that it never gave").count(), 2, "{said}");
    let history = std::fs::read_to_string(dir.path().join("run/history.jsonl"));
    let history = history.expect("a history");
    let lines = history.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let (mut known, mut late, mut extends) = (std::collections::BTreeMap::new(), 0, 0);
    for line in lines {
        let grant = line["grant"].as_str().unwrap_or_default().to_owned();
        match (line["end"].as_str(), line["op"].as_str()) {
            (Some("ok"), _) if !grant.is_empty() => drop(known.insert(grant, false)),
            (_, Some("release")) => drop(known.insert(grant, true)),
            (_, Some("extend")) => {
                extends += 1;
                late += u32::from(known[&grant]);
            }
            _ => {}
        }
    }
    assert!(known.len() > 10, "{}", known.len());
    let grants = known.len() as u32;
    assert!(extends + 8 >= 4 * grants && late + 8 >= grants, "{extends} {late} {grants}");
}

#[test]
fn a_driver_that_does_not_conform_is_tried_all_the_same_but_not_without_a_hello() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    scenario(dir.path(), "calm", "2s");
    let bad = driver("ends-badly");
    let (code, json, said) = audit(dir.path(), &[&bad, "exec:false"], &["--scenario", "calm.toml"]);
    assert_eq!(code, 2, "{said}");
    let findings = json["subjects"][0]["conform"]["findings"].as_array();
    assert_eq!(findings.and_then(|all| all[0]["name"].as_str()), Some("bye"), "{said}");
    assert_eq!(of(&json, 0, "calm")["outcome"], "kept", "{said}");
    assert_eq!(of(&json, 1, "calm")["outcome"], "unknown", "{said}");
}

/// Every scenario is kept: what `conform` finds decides.
#[test]
fn a_promise_that_is_broken_step_by_step_counts_and_what_else_does_not_conform_is_a_doubt() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    scenario(dir.path(), "calm", "2s");
    let defects = concat!(env!("CARGO_MANIFEST_DIR"), "/../drivers/controls/defects.py");
    let lock = |name: &str| format!("exec:python3 {defects} {name}");
    let tries = [
        (lock("sound"), 0, None, "kept by"),
        (lock("release-says-ok"), 1, Some(("late release", true)), "BROKEN by"),
        (driver("ends-badly"), 2, Some(("bye", false)), "does not conform"),
    ];
    for (lock, expected, finding, words) in tries {
        let more = ["--scenario", "calm.toml", "--out", "run", "--junit", "audit.xml"];
        let (code, json, said) = audit(dir.path(), &[&lock], &more);
        assert_eq!(code, expected, "{lock}: {said}");
        assert_eq!(of(&json, 0, "calm")["outcome"], "kept", "{said}");
        let found = json["subjects"][0]["conform"]["findings"].as_array().and_then(|all| all.first());
        let found = found.map(|one| (one["name"].as_str().unwrap_or(""), one["is_promise"] == true));
        assert_eq!(found, finding, "{said}");
        let read = |name: &str| std::fs::read_to_string(dir.path().join(name)).expect("it was written");
        let page = read("run/report.md");
        assert!(page.contains(words), "{page}");
        let (junit, badge) = (read("audit.xml"), read("run/badge.svg"));
        assert_eq!(junit.contains("<failure"), expected == 1, "{junit}");
        assert_eq!(badge.contains("kept in all"), expected == 0, "{badge}");
        std::fs::remove_dir_all(dir.path().join("run")).expect("it was there");
    }
}

#[test]
fn a_lock_on_several_masters_is_met_there() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let subjects = ["lock-core:redlock"];
    let more = ["--scenario", "masters-minority,never-released"];
    let (code, json, said) = audit(dir.path(), &subjects, &more);
    assert_eq!(code, 0, "{said}");
    assert_eq!(of(&json, 0, "masters-minority")["outcome"], "kept", "{said}");
    let lacks = of(&json, 0, "never-released");
    assert_eq!(lacks["outcome"], "not-applicable", "{said}");
}

#[test]
fn a_driver_that_says_only_failed_where_it_does_not_work_is_judged_where_it_does() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    for topology in ["single", "sentinel", "cluster", "masters"] {
        let kind = if topology == "masters" { "redlock" } else { "plain" };
        let text = format!(
            "name = \"on-{topology}\"\n[topology]\nkind = \"{topology}\"\n[lock]\nkind = \"{kind}\"\n\
             [load]\nclients = 2\nduration = \"500ms\"\n[expect]\ncontract = \"clean\"\n"
        );
        let file = dir.path().join(format!("on-{topology}.toml"));
        std::fs::write(file, text).expect("the folder can be written");
    }
    let files = ["--scenario", "on-single.toml,on-sentinel.toml,on-cluster.toml,on-masters.toml"];
    for (mode, works) in [("cluster-terse", "on-cluster"), ("masters-terse", "on-masters")] {
        let (code, json, said) = audit(dir.path(), &[&driver(mode)], &files);
        assert_eq!(code, 0, "{said}");
        for name in ["on-single", "on-sentinel", "on-cluster", "on-masters"] {
            let outcome = if name == works { "kept" } else { "not-applicable" };
            assert_eq!(of(&json, 0, name)["outcome"], outcome, "{mode}: {said}");
        }
    }
}

#[test]
fn what_cannot_be_audited_is_said_before_anything_starts() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    std::fs::write(dir.path().join("no.json"), "{}").expect("a file");
    for (wanted, args) in [
        (64, &["audit", "no-such:lock"][..]),
        (64, &["audit"]),
        (64, &["audit", "baseline:set-nx-px", "--suite", "tiny"]),
        (64, &["audit", "baseline:set-nx-px", "--repeat", "0"]),
        (65, &["audit", "baseline:set-nx-px", "--scenario", "no-such"]),
        (65, &["audit", "baseline:set-nx-px", "--against", "no.json"]),
        // Nothing was tried, and nothing may pass.
        (65, &["audit", "baseline:set-nx-px", "--scenario", "read-write", "--no-bench"]),
    ] {
        let output = run(dir.path(), args);
        assert_eq!(code(&output), wanted, "{args:?}: {}", stderr(&output));
    }
}

/// Without `--no-bench` each lock has rows, too.
#[test]
fn an_audit_measures_what_it_has_tried() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    scenario(dir.path(), "short", "2s");
    let args = ["--json", "audit", "lock-core:plain", "baseline:set-nx-px"];
    let more = ["--scenario", "short.toml", "--out", "run"];
    let output = run(dir.path(), &[&args[..], &more[..]].concat());
    assert_eq!(code(&output), 0, "{}{}", stdout(&output), stderr(&output));
    let kept = std::fs::read_to_string(dir.path().join("run/run.json")).expect("it is kept");
    let kept: Value = serde_json::from_str(&kept).expect("it is JSON");
    let rows = kept["rows"].as_array().expect("rows");
    let of = |row: &Value| row["subject"].as_str().map(str::to_owned);
    let measured: Vec<_> = rows.iter().filter_map(of).collect();
    for subject in &args[2..] {
        assert!(measured.iter().any(|of| of == subject), "{measured:?}");
    }
    let counted = |row: &Value| row["cycles_per_s"]["median"].as_f64() > Some(0.0);
    assert!(rows.iter().all(counted), "{rows:?}");
}
