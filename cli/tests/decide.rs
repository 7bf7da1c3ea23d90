//! `gate`, `compare`, `merge`, `list`, `completions` and `man` as a script sees them: exit codes, messages,
//! and what is in the JSON.
#![allow(missing_docs)]

mod support;

use std::path::Path;

use serde_json::Value;
use support::{code, run, stderr, stdout};

/// A run with one row and one scenario.
fn keep(dir: &Path, name: &str, cycles: f64, seed: u64) {
    let json = serde_json::json!({
        "schema": 1, "run": format!("runs/{name}"), "command": "quickstart",
        "meta": {"started_at": format!("2026-11-2{}T10:00:00Z", seed % 10), "command_line": ["locklab", "quickstart"], "seed": seed,
            "version": "0.1.0", "commit": "abc", "environment": {"host": name, "cpu": "x", "cores": 2, "memory_bytes": 1,
            "kernel": "k", "rustc": "r", "servers": {}, "load_average": [0.0, 0.0], "steal": 0.0}},
        "rows": [{"subject": "lock-core:plain", "topology": "single", "workload": "uncontended", "tasks": 16, "locks": 16,
            "rounds": 6, "cycles_per_s": {"median": cycles, "low": cycles * 0.99, "high": cycles * 1.01},
            "acquire_ns": {"p50": 1_000_000, "p90": 2_000_000, "p99": 3_000_000, "p999": null, "max": 9_000_000, "n": 5000},
            "release_ns": {"p50": null, "p90": null, "p99": null, "p999": null, "max": null, "n": 0},
            "handoff_ns": null, "commands_per_cycle": 2.0, "server_calls_per_cycle": null, "server_cpu_us_per_cycle": 10.0,
            "client_cpu_us_per_cycle": null, "jain": 1.0, "censored": 0, "safety": {"state": "clean"}, "valid": true,
            "why_invalid": []}],
        "scenarios": [{"name": "failover", "topology": "sentinel", "subject": "lock-core:plain", "kind": "plain", "seed": seed,
            "faults": [], "operations": {}, "verdicts": {
                "belief": {"state": "clean", "count": 0, "worst_ns": 0}, "contract": {"state": "clean", "count": 0, "worst_ns": 0},
                "confirmed": {"state": "clean", "count": 0, "worst_ns": 0}, "effect": {"state": "clean", "count": 0, "worst_ns": 0},
                "liveness": {"state": "unknown", "count": 0, "worst_ns": 0}},
            "recovery": {"first_grant_after_fault_ns": null}, "expected": {"contract": "clean"}, "as_expected": true,
            "exit_code": 0, "dir": "01-failover"}],
        "as_expected": true,
    });
    let path = dir.join("runs").join(name);
    std::fs::create_dir_all(path.join("01-failover")).unwrap();
    std::fs::write(path.join("run.json"), json.to_string()).unwrap();
    std::fs::write(path.join("01-failover/history.jsonl"), "{}\n").unwrap();
    std::fs::write(path.join("01-failover/plan.json"), "{\"schema\":1}").unwrap();
}

fn two_runs() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    keep(dir.path(), "before", 1000.0, 1);
    keep(dir.path(), "after", 960.0, 1);
    dir
}

#[test]
fn a_gate_is_passed_failed_or_unknown_by_its_exit_code() {
    let dir = two_runs();
    let gate = |args: &[&str]| {
        let mut all = vec!["gate"];
        all.extend(args);
        let output = run(dir.path(), &all);
        (code(&output), format!("{}{}", stdout(&output), stderr(&output)))
    };
    assert_eq!(gate(&["after", "p99(acquire) < 5ms", "contract == clean"]).0, 0);
    assert_eq!(gate(&["after", "p99(acquire) < 2ms"]).0, 1);
    assert_eq!(gate(&["after", "liveness == clean"]).0, 2);
    // What is certainly missed outweighs what is unknown.
    assert_eq!(gate(&["after", "liveness == clean", "cycles > 1e9"]).0, 1);
    assert_eq!(gate(&["after", "cycles >= 0.95 * base", "--base", "before"]).0, 0);
    assert_eq!(gate(&["before", "after", "cycles >= 0.97 * base"]).0, 1);
    let (code, words) = gate(&["after", "cycles >= 0.95 * base"]);
    assert_eq!(code, 64);
    assert!(words.contains("--base RUN"), "{words}");
    let (code, words) = gate(&["after", "p99(aquire) < 5ms"]);
    assert_eq!(code, 64);
    assert!(words.contains("column 5") && words.contains("did you mean `acquire`?"), "{words}");
    assert_eq!(gate(&["after"]).0, 64);
    assert_eq!(gate(&["nowhere", "cycles > 1"]).0, 65);
}

#[test]
fn a_budget_file_is_obeyed_and_its_errors_have_places() {
    let dir = two_runs();
    let budget = dir.path().join("budget");
    std::fs::write(&budget, "# what CI allows\np99(acquire) < 5ms\ncontract == clean\n").unwrap();
    let output = run(dir.path(), &["gate", "after", "--budget", "budget", "--json"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let json: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(json["schema"], 1);
    assert_eq!(json["passed"], true);
    assert_eq!(json["conditions"].as_array().unwrap().len(), 2);
    std::fs::write(&budget, "speed > 1\ncycles > 5\ncycles\n").unwrap();
    let output = run(dir.path(), &["gate", "after", "--budget", "budget"]);
    assert_eq!(code(&output), 65);
    let words = stderr(&output);
    assert!(words.contains("budget:1:1:") && words.contains("budget:3:7:"), "{words}");
}

#[test]
fn runs_are_compared_and_grouped() {
    let dir = two_runs();
    let output = run(dir.path(), &["compare", "before", "after", "--json"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let json: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(json["base"], "runs/before");
    assert_eq!(json["comparisons"][0]["verdict"], "worse");
    let text = stdout(&run(dir.path(), &["compare", "before", "after"]));
    let (settings, figures) = (text.find("environment.host"), text.find("cycles_per_s"));
    assert!(settings.unwrap() < figures.unwrap(), "{text}");
    let output = run(dir.path(), &["compare", "before", "--rows", "topology", "--cols", "subject"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(stdout(&output).contains("lock-core:plain"), "{}", stdout(&output));
    let output = run(dir.path(), &["compare", "before", "after", "--rows", "topolgy"]);
    assert_eq!(code(&output), 64);
    assert!(stderr(&output).contains("did you mean `topology`?"));
    assert_eq!(code(&run(dir.path(), &["compare", "before"])), 64);
}

#[test]
fn a_picture_of_a_run_without_a_chart_is_refused_with_the_forms_that_fit() {
    let dir = two_runs();
    let path = dir.path().join("runs/before/run.json");
    let text = std::fs::read_to_string(&path).unwrap();
    let mut kept: Value = serde_json::from_str(&text).unwrap();
    kept["rows"] = serde_json::json!([]);
    std::fs::write(&path, kept.to_string()).unwrap();
    let report = |name| run(dir.path(), &["report", name, "--format", "svg"]);
    assert_eq!(code(&report("after")), 0);
    let output = report("before");
    assert_eq!(code(&output), 65, "{}", stderr(&output));
    let said = stderr(&output);
    assert!(said.contains("nothing that a chart shows"), "{said}");
    assert!(said.contains("html, markdown, junit, annotations, csv, json, text"), "{said}");
}

#[test]
fn runs_of_one_plan_are_joined_and_others_refused() {
    let dir = two_runs();
    let output = run(dir.path(), &["merge", "before", "after", "--out", "both"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let kept = std::fs::read_to_string(dir.path().join("both/run.json")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&kept).unwrap();
    assert_eq!(json["rows"][1]["origin"], "after");
    let history = json["scenarios"][1]["dir"].as_str().unwrap();
    assert!(dir.path().join("both").join(history).join("history.jsonl").is_file());

    keep(dir.path(), "other", 1000.0, 2);
    let output = run(dir.path(), &["merge", "before", "other", "--out", "none"]);
    assert_eq!(code(&output), 65);
    assert!(stderr(&output).contains("seed 2"), "{}", stderr(&output));
    assert!(!dir.path().join("none").exists(), "nothing half-written");
    let output = run(dir.path(), &["merge", "before", "other", "--out", "forced", "--force"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));

    std::fs::write(dir.path().join("runs/after/01-failover/plan.json"), "{\"schema\":1,\"seed\":3}").unwrap();
    let output = run(dir.path(), &["merge", "before", "after", "--out", "none"]);
    assert_eq!(code(&output), 65, "an edited plan under the same name");
    assert_eq!(code(&run(dir.path(), &["merge", "before", "./runs/before"])), 64);
}

#[test]
fn runs_of_one_scenario_bring_their_histories_along() {
    let dir = two_runs();
    for name in ["before", "after"] {
        let path = dir.path().join("runs").join(name);
        let kept = std::fs::read_to_string(path.join("run.json")).unwrap();
        let flat = kept.replace("\"01-failover\"", "\"\"");
        std::fs::write(path.join("run.json"), flat).unwrap();
        for file in ["history.jsonl", "plan.json"] {
            std::fs::rename(path.join("01-failover").join(file), path.join(file)).unwrap();
        }
    }
    let output = run(dir.path(), &["merge", "before", "after", "--out", "both"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let both = dir.path().join("both");
    let kept = std::fs::read_to_string(both.join("run.json")).unwrap();
    let json: Value = serde_json::from_str(&kept).unwrap();
    for (scenario, place) in ["01-before", "02-after"].into_iter().enumerate() {
        assert_eq!(json["scenarios"][scenario]["dir"], place);
        assert!(both.join(place).join("history.jsonl").is_file());
        assert!(!both.join(place).join("run.json").exists());
    }
}

#[test]
fn lists_can_be_filtered() {
    let dir = two_runs();
    keep(dir.path(), "other", 1000.0, 2);
    let names = |args: &[&str]| {
        let mut all = vec!["list", "runs", "--json"];
        all.extend(args);
        let output = run(dir.path(), &all);
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        let json: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
        let items = json["items"].as_array().unwrap();
        let mut names: Vec<String> =
            items.iter().map(|item| item["name"].as_str().unwrap().to_owned()).collect();
        names.sort();
        names
    };
    assert_eq!(names(&[]), ["after", "before", "other"]);
    assert_eq!(names(&["*e*o*e"]), ["before"]);
    assert_eq!(names(&["--subject", "lock-core:*"]), ["after", "before", "other"]);
    for nobody in [["--subject", "peer:*"], ["--topology", "masters"]] {
        assert!(names(&nobody).is_empty(), "{nobody:?}");
    }
    let output = run(dir.path(), &["list", "faults", "kill"]);
    assert!(stdout(&output).lines().all(|line| line.contains("kill")), "{}", stdout(&output));
}

#[test]
fn completions_and_manual_pages_come_from_the_command_line_itself() {
    let dir = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = run(dir.path(), &["completions", shell]);
        assert_eq!(code(&output), 0, "{shell}");
        assert!(stdout(&output).contains("quickstart"), "{shell}");
    }
    assert_eq!(code(&run(dir.path(), &["completions", "dos"])), 64);
    for (args, field, word) in [
        (&["completions", "bash", "--json"][..], "script", "_locklab()"),
        (&["man", "gate", "--json"], "page", "budget"),
    ] {
        let document: Value = serde_json::from_str(&stdout(&run(dir.path(), args))).expect("JSON");
        let text = document[field].as_str().expect("text");
        assert!(text.contains(word), "{text}");
    }
    let page = stdout(&run(dir.path(), &["man"]));
    assert!(page.contains(".TH locklab 1"), "{page}");
    assert!(stdout(&run(dir.path(), &["man", "gate"])).contains("budget"));
    assert_eq!(code(&run(dir.path(), &["man", "gaet"])), 64);
    let output = run(dir.path(), &["man", "--out", "man"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(dir.path().join("man/locklab-quickstart.1").is_file());
    assert!(!dir.path().join("man/locklab-driver.1").exists(), "hidden");
}
