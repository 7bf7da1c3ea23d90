//! Runs as the parts of one plan.

use std::collections::BTreeMap;

use results::parts::{WholeOutcome, whole};
use results::run::{Meta, PlanPart, Run, ScenarioResult, ScenarioShare};

use crate::samples::says;

/// Part `index` of two: `a` belongs to the first, `b` to the second.
fn part(index: u32, exit_code: Option<u8>) -> Run {
    let share = |name: &str, part| ScenarioShare {
        name: name.to_owned(),
        seed: 7,
        part,
        digest: BTreeMap::from([("subject".to_owned(), "\"a:lock\"".to_owned())]),
    };
    let mut run = Run::new(format!("runs/{index}"), "chaos", Meta::default());
    run.part = Some(PlanPart { index, of: 2, plan: vec![share("a", 0), share("b", 1)], exit_code });
    run.scenarios.push(ScenarioResult {
        name: ["a", "b"][index as usize].to_owned(),
        seed: 7,
        ..ScenarioResult::default()
    });
    run
}

#[test]
fn all_parts_of_a_plan_are_whole() {
    let found = whole(&[part(1, Some(0)), part(0, Some(1))]).expect("one plan");
    assert_eq!(found, Some(WholeOutcome { exit_codes: vec![0, 1], missing: Vec::new() }));
    assert_eq!(whole(&[Run::default()]), Ok(None));
}

#[test]
fn a_part_that_is_missing_or_did_not_end_is_named_with_what_it_had_to_run() {
    let parts = |runs: &[Run]| whole(runs).expect("one plan").expect("parts");
    assert_eq!(parts(&[part(0, Some(0))]).missing, ["part 1 of 2 is missing: without b (seed 7)"]);
    let mut killed = part(1, None);
    killed.scenarios.clear();
    let found = parts(&[part(0, Some(0)), killed]);
    assert_eq!(found.missing, ["part 1 of 2 did not end: without b (seed 7)"]);
    assert_eq!(found.exit_codes, [0]);
}

#[test]
fn parts_of_different_plans_are_refused() {
    fn part_of(run: &mut Run) -> &mut PlanPart {
        run.part.as_mut().expect("a part")
    }
    type Change = (fn(&mut Run), &'static str);
    fn subject_of_b(run: &mut Run) -> &mut String {
        let digest = &mut part_of(run).plan[1].digest;
        digest.get_mut("subject").expect("a subject")
    }
    let changes: [Change; 7] = [
        (|run| run.meta.seed = 8, "seed: 0 and 8"),
        (|run| run.meta.version = "9".to_owned(), "version"),
        (|run| part_of(run).of = 3, "number of parts"),
        (|run| part_of(run).plan.clear(), "plans"),
        (|run| *subject_of_b(run) = "\"b:lock\"".to_owned(), "b (seed 7): subject \"a:lock\" and \"b:lock\""),
        (|run| part_of(run).index = 0, "already"),
        (|run| run.part = None, "no part"),
    ];
    for (change, word) in changes {
        let mut other = part(1, Some(0));
        change(&mut other);
        let error = whole(&[part(0, Some(0)), other]).expect_err("another plan");
        says(&error.to_string(), &[word]);
    }
    let mut older = part(1, Some(0));
    for share in &mut part_of(&mut older).plan {
        share.digest.clear();
    }
    whole(&[part(0, Some(0)), older]).expect("a build that said less");
}
