//! `conform` tells drivers that keep to the protocol from those that do not quite, and says what to fix.

mod support;

use std::path::PathBuf;
use std::sync::Mutex;

use serde_json::Value;
use support::{Server, code, run, stderr, stdout};

fn driver(mode: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/drivers/driver.py");
    format!("python3 {} {mode}", path.display())
}

/// Runs `conform`; the exit code, and the names of the broken steps.
fn conform(driver: &str, more: &[&str]) -> (i32, Vec<String>, Value) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut args = vec!["--json", "conform", driver];
    args.extend(more);
    let output = run(dir.path(), &args);
    let report: Value = serde_json::from_str(&stdout(&output))
        .unwrap_or_else(|error| panic!("{error}: {}{}", stdout(&output), stderr(&output)));
    let steps = report["steps"].as_array().expect("steps").clone();
    let broken = steps.iter().filter(|step| step["outcome"] == "broken");
    let names = broken.map(|step| step["name"].as_str().expect("a name").to_owned()).collect();
    (code(&output), names, report)
}

#[test]
fn a_driver_that_keeps_to_the_protocol_conforms() {
    let keeps = |mode: &str| {
        let (code, broken, report) = conform(&driver(mode), &[]);
        assert_eq!((code, broken.len()), (0, 0), "{mode}: {report:#}");
        assert_eq!(report["conforms"], true);
        assert_paragraphs(&report);
        assert!(report["pipe_ns"]["p50"].as_u64().is_some_and(|ns| ns > 0), "{mode}: {report:#}");
    };
    // `blind` cannot tell what a release found, and `fenced` is that without being re-entrant.
    std::thread::scope(|scope| {
        for mode in ["right", "child", "blind", "fenced", "multi", "notices", "stamped"] {
            scope.spawn(move || keeps(mode));
        }
    });
}

#[test]
fn a_kind_of_a_later_version_is_named_and_no_fault() {
    let (code, _, report) = conform(&driver("later"), &[]);
    assert_eq!(code, 0, "{report:#}");
    let found = found(&report, "hello");
    assert!(found.ends_with("no kind that is known here: braid"), "{found}");
}

/// What a step found.
fn found(report: &Value, step: &str) -> String {
    let steps = report["steps"].as_array().expect("steps");
    let step = steps.iter().find(|one| one["name"] == step);
    step.expect("the step")["found"].as_str().expect("words").to_owned()
}

/// Servers of one that it lists are started for it, and nobody is blamed for others.
#[test]
fn a_driver_is_tried_where_it_works_and_nowhere_else() {
    for mode in ["cluster-only", "cluster-refused", "cluster-terse"] {
        let (code, broken, report) = conform(&driver(mode), &[]);
        assert_eq!((code, broken.len()), (0, 0), "{report:#}");
        assert!(found(&report, "hello").ends_with(" on cluster"), "{report:#}");
    }
    let server = Server::start();
    let dir = tempfile::tempdir().expect("a temporary directory");
    for (mode, why) in [
        ("cluster-only", "does not work on `single`; its hello lists cluster"),
        ("cluster-refused", "it needs a cluster"),
    ] {
        let output = run(dir.path(), &["conform", &driver(mode), "--target", &server.url()]);
        let (code, said) = (code(&output), stderr(&output));
        assert!(code == 65 && said.contains(why), "{code}: {said}");
    }
}

/// A semaphore without a lease is asked for nothing that concerns one; all else is.
#[test]
fn permits_without_a_lease_are_not_asked_about_one() {
    let semaphore = format!("{} driver lock-core:semaphore", env!("CARGO_BIN_EXE_locklab"));
    let (code, broken, report) = conform(&semaphore, &[]);
    assert_eq!((code, broken.len()), (0, 0), "{report:#}");
    for step in ["extend", "expiry", "kill"] {
        let why = "hello says that the kind semaphore has no lease";
        assert_eq!(found(&report, step), why, "{report:#}");
    }
}

/// Every step names a heading that the protocol's page has.
fn assert_paragraphs(report: &Value) {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
    for step in report["steps"].as_array().expect("steps") {
        let paragraph = step["paragraph"].as_str().expect("a paragraph");
        let (page, heading) = paragraph.split_once('#').expect("a heading");
        let page = std::fs::read_to_string(root.join(page)).expect(paragraph);
        let mut headings = page.lines().filter(|line| line.starts_with('#'));
        let is_it =
            |line: &str| line.trim_start_matches(['#', ' ']).to_lowercase().replace(' ', "-") == heading;
        assert!(headings.any(is_it), "{paragraph}");
    }
}

#[test]
fn our_own_drivers_conform() {
    let locklab = env!("CARGO_BIN_EXE_locklab");
    for subject in ["lock-core:reentrant", "lock-core:read", "baseline:set-nx-px"] {
        let (code, broken, report) = conform(&format!("{locklab} driver {subject}"), &[]);
        assert_eq!((code, broken.len()), (0, 0), "{subject}: {report:#}");
    }
}

/// Each of the subtly wrong ones, and the steps that must not pass it. They wait more than they work, so a
/// few are tried side by side: more would start so late on a busy machine that their hello is missed.
#[test]
fn each_way_of_being_wrong_is_found_where_it_is() {
    let find = |mode: &str, steps: &[&str]| {
        let (code, mut broken, report) = conform(&driver(mode), &["--patience", "2s"]);
        assert_eq!(code, 1, "{mode}: {report:#}");
        // Whatever is wrong may show there, too.
        broken.retain(|step| step != "drawn calls");
        assert_eq!(broken, steps, "{mode}: {report:#}");
        let all = report["steps"].as_array().expect("steps");
        let step = all.iter().find(|step| step["outcome"] == "broken");
        assert_ne!(step.expect("a broken step")["remedy"], "", "{mode}");
    };
    // These go wrong in so many steps that it is enough to find the first one.
    let find_first = |mode: &str, step: &str| {
        let (code, broken, report) = conform(&driver(mode), &["--patience", "2s"]);
        let first = broken.first().map(String::as_str);
        assert_eq!((code, first), (1, Some(step)), "{mode}: {report:#}");
    };
    let modes = [
        ("banner", &["hello"][..]),
        ("renew-unchecked", &["late extend"]),
        ("delete-unchecked", &["late release", "lost key"]),
        ("blind-silent", &["release", "late release", "lost key"]),
        ("fenced-reentrant", &["owners"]),
        ("twice", &["lines"]),
        ("one-by-one", &["concurrency"]),
        ("any-version", &["version"]),
        ("unblocked", &["block"]),
        ("ends-badly", &["bye"]),
        ("fenced-falling", &["tokens"]),
        ("fenced-bare", &["tokens"]),
        ("multi-first", &["several names"]),
        ("load-claimed", &["load"]),
        ("notices-never", &["notice"]),
        ("notices-at-once", &["lease after a wait", "notice"]),
        ("stamped-ahead", &["acquire"]),
        ("nowhere", &["hello"]),
        ("ring", &["hello"]),
    ];
    let first = [("wrong-id", "acquire"), ("deaf", "held")];
    let (modes, first) = (Mutex::new(modes.iter()), Mutex::new(first.iter()));
    let next = |(mode, steps): &(&str, &[&str])| find(mode, steps);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some(one) = { modes.lock().unwrap().next() } {
                    next(one)
                }
            });
        }
        scope.spawn(|| {
            while let Some((mode, step)) = { first.lock().unwrap().next() } {
                find_first(mode, step)
            }
        });
    });
}

/// Each lock has the defect of a public report and no other, so that one step is broken. Drawn calls may find
/// it too, and another step with a waiter may meet the release that is missed by chance.
#[test]
fn the_defects_that_steps_were_made_after_are_found_by_them() {
    let tries = [
        ("waits-for-one-lease", "plain", "endless wait"),
        ("masters-lease-of-the-wait", "redlock", "endless wait"),
        ("counts-from-the-first-try", "plain", "lease after a wait"),
        ("begins-with-the-last-lease", "plain", "renewal"),
        ("expired-stays-locked-within", "reentrant", "late release"),
        ("read-release-ends-the-write", "write", "reading in writing"),
        ("misses-the-release", "plain", "hand-off"),
        ("inner-release-shortens", "reentrant", "owners"),
        ("extends-by-adding", "plain", "extend"),
        ("lease-is-the-wait", "plain", "wait"),
        ("release-ends-with-the-wait", "plain", "wait"),
        ("reentry-leaves-a-renewal", "reentrant", "renewal"),
        ("wakes-one-reader", "write", "readers"),
        ("inner-release-believes-its-count", "reentrant", "lost key"),
        ("cleared-place-is-not-renewed", "fair", "stopped waiter"),
        ("masters-asked-once-more", "redlock", "master away"),
        ("reentry-overwrites", "reentrant", "late entry"),
        ("release-ends-the-next-renewal", "reentrant", "renewed in turn"),
        ("extends-to-nothing", "plain", "drawn calls"),
        ("release-tries-again", "plain", "drawn calls"),
    ];
    let defects = concat!(env!("CARGO_MANIFEST_DIR"), "/../drivers/controls/defects.py");
    std::thread::scope(|scope| {
        for some in tries.chunks(3) {
            scope.spawn(move || {
                for (defect, kind, step) in some {
                    let lock = format!("python3 {defects} {defect}");
                    let (mut code, mut broken, mut report) = conform(&lock, &["--kind", kind]);
                    // Answers overtake each other by chance.
                    if code == 0 && ["late entry", "renewed in turn"].contains(step) {
                        (code, broken, report) = conform(&lock, &["--kind", kind]);
                    }
                    broken.retain(|other| match other.as_str() {
                        "drawn calls" | "stopped waiter" => other == step,
                        "concurrency" => *defect != "misses-the-release",
                        _ => true,
                    });
                    assert_eq!((code, broken), (1, vec![(*step).to_owned()]), "{defect}: {report:#}");
                }
            });
        }
    });
}

/// A lock that was refused in the wrong words was not free.
#[test]
fn a_lock_is_called_free_only_where_it_was_granted() {
    let (_, broken, report) = conform(&driver("busy-failed"), &["--patience", "2s"]);
    let late = "late release".to_owned();
    assert!(broken.contains(&late), "{report:#}");
    for step in &broken {
        let found = found(&report, step);
        assert!(found.contains("`failed`") && !found.contains("free"), "{step}: {found}");
    }
}

#[test]
fn a_program_that_is_no_driver_is_told_so_at_hello() {
    for program in ["false", "echo hello"] {
        let (code, broken, report) = conform(program, &[]);
        assert_eq!((code, broken), (1, vec!["hello".to_owned()]), "{program}: {report:#}");
    }
}

#[test]
fn the_line_that_was_answered_is_shown_and_a_log_that_is_gone_is_not_named() {
    let said = || {
        let (code, broken, report) = conform("sh -c 'echo sorry >&2; cat'", &[]);
        assert_eq!((code, broken), (1, vec!["hello".to_owned()]), "{report:#}");
        let found = report["steps"][0]["found"].as_str().expect("words");
        assert!(found.contains("\"op\":\"hello\""), "{found}");
        assert!(!found.contains("driver.log"), "{found}");
        found.contains("sorry")
    };
    // Standard error is copied by a thread, which may come after the answer on a busy machine.
    assert!((0..10).any(|_| said()));
}

#[test]
fn the_report_is_written_as_junit() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let driver = driver("ends-badly");
    let output = run(dir.path(), &["conform", &driver, "--junit", "c.xml"]);
    assert_eq!(code(&output), 1, "{}", stderr(&output));
    assert!(stdout(&output).contains("remedy  "), "{}", stdout(&output));
    let junit = std::fs::read_to_string(dir.path().join("c.xml")).expect("c.xml");
    assert!(junit.contains("failures=\"1\"") && junit.contains("name=\"bye\""), "{junit}");
}

#[test]
fn a_target_elsewhere_and_a_bad_line_are_wrong_usage() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    for args in [
        &["conform", "true", "--target", "redis://192.0.2.1:6379"][..],
        &["conform", "true", "--target", "nonsense"],
        &["conform", "'open"],
        &["conform", ""],
    ] {
        let output = run(dir.path(), args);
        assert_eq!(code(&output), 64, "{args:?}: {}", stderr(&output));
    }
}

#[test]
fn a_kind_that_the_driver_does_not_list_is_a_wrong_flag() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let output = run(dir.path(), &["conform", &driver("right"), "--kind", "nosuch"]);
    let (code, said) = (code(&output), stderr(&output));
    let why = "lists no kind `nosuch`, but plain";
    assert!(code == 64 && said.contains(why), "{code}: {said}");
}

#[test]
fn the_example_driver_conforms() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../examples/driver.py");
    let (code, broken, report) = conform(&format!("python3 {}", path.display()), &[]);
    assert_eq!((code, broken.len()), (0, 0), "{report:#}");
}
