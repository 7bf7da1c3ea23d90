//! The proof of a verdict convicts by itself: the same anomaly, in a valid history, of which nothing can be
//! left out.

use std::fs;
use std::path::Path;

use chaos::checkers::{CheckOptions, CheckReport, check};
use chaos::proof;
use results::history::History;
use results::verdict::{CLASSES, State, Verdicts};

fn bare() -> CheckOptions<'static> {
    CheckOptions { floors: None, ..CheckOptions::default() }
}

fn judged(text: &str) -> (History, CheckReport) {
    let history = History::parse(text).expect("a valid history");
    let mut report = check(&history, &bare());
    proof::attach(&mut report, &history, &bare());
    (history, report)
}

/// The slice of one class, as text.
fn slice<'a>(verdicts: &'a Verdicts, class: &str) -> &'a [String] {
    let verdict = verdicts.get(class).expect("a class");
    &verdict.proof.as_ref().expect("a proof").slice
}

fn state(text: &str, class: &str) -> State {
    let history = History::parse(text).expect("a slice is a valid history");
    let report = check(&history, &bare());
    report.verdicts.get(class).expect("a class").state
}

#[test]
fn every_violation_in_the_collection_is_proven_by_a_slice_that_convicts_again() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/histories");
    let mut proven = 0;
    for file in fs::read_dir(dir).expect("the collection") {
        let path = file.expect("a file").path();
        let text = fs::read_to_string(&path).expect("it is read");
        let (history, report) = judged(&text);
        for class in CLASSES {
            let verdict = report.verdicts.get(class).expect("a class");
            let name = format!("{} {class}", path.display());
            if verdict.state != State::Violated {
                assert_eq!(verdict.proof, None, "{name}");
                continue;
            }
            proven += 1;
            let proof = verdict.proof.as_ref().expect("a proof");
            assert!(proof.shortest && !proof.slice.is_empty(), "{name}");
            assert!(proof.slice.len() <= history.lines.len(), "{name}");
            assert_eq!(state(&proof.history(), class), State::Violated, "{name}");
            let whole: Vec<String> = history.lines.iter().map(|line| line.to_json()).collect();
            assert!(proof.slice.iter().all(|line| whole.contains(line)), "{name}: a slice invents nothing");
        }
    }
    assert!(proven > 25, "{proven}");
}

/// Two holders at once in the midst of 2,000 innocent cycles, one of which belongs to a culprit.
#[test]
fn a_needle_in_a_haystack_is_four_operations() {
    let mut text = String::new();
    let cycle = |at_ms: u64, id: u64, client: &str, hold_ms: u64| {
        let ns = |ms: u64| ms * 1_000_000;
        (
            (
                ns(at_ms),
                format!(
                    r#"{{"t_ns":{},"id":{id},"client":"{client}","owner":"t0","op":"acquire","lock":"a","kind":"plain","lease_ms":3000,"wait_ms":500}}"#,
                    ns(at_ms)
                ),
            ),
            (ns(at_ms + 1), format!(r#"{{"t_ns":{},"id":{id},"end":"ok","grant":"g{id}"}}"#, ns(at_ms + 1))),
            (
                ns(at_ms + 1 + hold_ms),
                format!(
                    r#"{{"t_ns":{},"id":{},"op":"release","grant":"g{id}"}}"#,
                    ns(at_ms + 1 + hold_ms),
                    id + 100_000
                ),
            ),
            (
                ns(at_ms + 2 + hold_ms),
                format!(r#"{{"t_ns":{},"id":{},"end":"ok"}}"#, ns(at_ms + 2 + hold_ms), id + 100_000),
            ),
        )
    };
    let mut lines = Vec::new();
    for n in 0..2_000_u64 {
        let (a, b, c, d) = cycle(10 * n, n, if n % 2 == 0 { "c1" } else { "c2" }, 5);
        lines.extend([a, b, c, d]);
    }
    // Cycle 1,000 holds from 10,001 to 10,006 ms; this one from 10,004 to 10,008.
    let (a, b, c, d) = cycle(10_003, 50_000, "c3", 4);
    lines.extend([a, b, c, d]);
    lines.sort();
    for (_, line) in &lines {
        text.push_str(line);
        text.push('\n');
    }
    let (_, report) = judged(&text);
    for class in ["belief", "contract"] {
        let slice = slice(&report.verdicts, class);
        // The acquires with their answers, and the release that ends the overlap: what else would be missed?
        assert_eq!(slice.len(), 5, "{class}: {slice:#?}");
        assert_eq!(state(&slice.join("\n"), class), State::Violated);
        for left_out in 0..slice.len() {
            let rest: Vec<&str> = slice
                .iter()
                .enumerate()
                .filter(|(n, _)| *n != left_out)
                .map(|(_, line)| line.as_str())
                .collect();
            // What is left is no history, or convicts of nothing, or of something longer than what happened.
            let Ok(history) = History::parse(&rest.join("\n")) else {
                continue;
            };
            let verdicts = check(&history, &bare()).verdicts;
            let verdict = verdicts.get(class).expect("a class");
            assert!(
                verdict.state != State::Violated || verdict.worst_ns != 2_000_000,
                "{class}: line {left_out} is one too many"
            );
        }
    }
    // Both releases must have worked for the servers to have confirmed both.
    assert_eq!(slice(&report.verdicts, "confirmed").len(), 8);
    let verdict = &report.verdicts.belief;
    assert_eq!((verdict.count, verdict.worst_ns, verdict.median_ns), (1, 2_000_000, 2_000_000));
    let minutes = 20.0 / 60.0;
    let per_minute = verdict.per_minute.expect("a history has a length");
    assert!((per_minute - 1.0 / minutes).abs() < 0.01, "{per_minute}");
    assert_eq!(verdict.per_fault, None, "there was no fault");
}

#[test]
fn a_proof_is_written_as_a_slice_a_drawing_and_a_picture() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/histories/contract-second-grant-inside-the-lease.jsonl");
    let (_, report) = judged(&fs::read_to_string(path).expect("it is read"));
    let dir = tempfile::tempdir().expect("a temporary directory");
    proof::write(&report.verdicts, dir.path()).expect("it is written");
    let read = |name: &str| fs::read_to_string(dir.path().join(name)).expect(name);
    assert_eq!(state(&read("contract.jsonl"), "contract"), State::Violated);
    let text = read("contract.txt");
    for part in ["c1/t0", "c2/t0", "████", "violated", "what convicts: "] {
        assert!(text.contains(part), "`{part}` is not in\n{text}");
    }
    assert!(read("contract.svg").starts_with("<svg"));
    assert!(!dir.path().join("effect.txt").exists(), "effect is clean");
}
