//! Runs with values that no measurement gives: whatever is read as a run is rendered in every format and
//! compared, without a panic.

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use results::compare::compare;
use results::report::FORMATS;
use results::store;
use serde_json::{Value, json};

fn fixture() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/quickstart.run.json");
    let text = fs::read_to_string(path).expect("the fixture");
    let mut run: Value = serde_json::from_str(&text).expect("JSON");
    // What the fixture is too old to have.
    let histogram = "HISTEwAAAAIAAAAAAAAAAQAAAAAAAAABAAAAAAAAAAs/8AAAAAAAAAkE";
    let intervals = json!({"interval_ns": 1_000_000_000_u64, "histograms": [histogram, "", histogram]});
    run["rows"][0]["measures"] = json!({"raw": {"cycles_per_s": [100.0, 90.5], "cycles_per_part": [[1, 2], [3, 4]], "acquire_ns": [[5, 6]],
        "handoff_ns": [], "acquire_over_time": intervals}});
    run["scenarios"][0]["over_time"] =
        json!({"part_ns": 20_000_000, "grants": [1, 0, 5], "owners": {"c1/t0": 6}, "acquire": intervals});
    let waits = json!({"calls": 100, "without_grant": 2, "p99": {"ns": 7, "more": true}, "longest": {"ns": 9, "more": false}});
    run["scenarios"][0]["open_loop"] = json!({"asked_per_s": 200.0, "granted_per_s": 190.5, "fault_ns": 5, "recovered_ns": 6, "before": waits,
        "during": waits, "after": waits});
    run
}

/// All values that are no list and no object, in order.
fn leaves<'a>(value: &'a mut Value, out: &mut Vec<&'a mut Value>) {
    match value {
        Value::Array(list) => list.iter_mut().for_each(|value| leaves(value, out)),
        Value::Object(object) => object.values_mut().for_each(|value| leaves(value, out)),
        leaf => out.push(leaf),
    }
}

/// Renders and compares if it is a run at all; says whether it was.
fn all_ways(text: &[u8]) -> bool {
    let Ok(run) = store::parse(Path::new("run.json"), text) else {
        return false;
    };
    for format in FORMATS {
        let _ = format.render(&run);
    }
    let _ = compare(&[run.clone(), run], true);
    true
}

#[test]
fn what_is_tried_here_is_a_run() {
    assert!(all_ways(fixture().to_string().as_bytes()));
}

#[test]
fn what_ends_before_it_begins_has_no_length() {
    for stretch in ["/timeline", "/timeline/overlaps/0"] {
        let mut run = fixture();
        let scenarios = run["scenarios"].as_array_mut().expect("some");
        let stretches = scenarios.iter_mut();
        let found = stretches.filter_map(|scenario| scenario.pointer_mut(stretch));
        let turned = found.map(|stretch| {
            let object = stretch.as_object_mut().expect("an object");
            let (from, to) = (object["from_ns"].clone(), object["to_ns"].clone());
            object.extend([("from_ns".to_owned(), to), ("to_ns".to_owned(), from)]);
        });
        assert!(turned.count() > 0, "{stretch}");
        assert!(all_ways(run.to_string().as_bytes()), "{stretch}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn no_value_of_a_run_makes_a_report_panic(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), 0_usize..11), 1..4)
    ) {
        let mut run = fixture();
        for (index, what) in changes {
            let mut all = Vec::new();
            leaves(&mut run, &mut all);
            let at = index.index(all.len());
            *all[at] = [
                json!(0), json!(1), json!(u64::MAX), json!(i64::MAX), json!(u32::MAX), json!(-1), json!(1e308), json!(5e-324), Value::Null,
                json!(""), json!("<script>\u{0}\u{202e}&\"'"),
            ][what].clone();
        }
        all_ways(run.to_string().as_bytes());
    }
}
