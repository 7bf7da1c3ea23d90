//! Runs that become one.

use results::merge::{MergeError, merge, same_plan};
use results::run::{BenchRow, Run, ScenarioResult};

use crate::samples::{self, says};

fn part(name: &str, as_expected: Option<bool>) -> Run {
    let scenario = ScenarioResult { dir: "s".to_owned(), ..ScenarioResult::default() };
    let mut run = samples::run(name, vec![BenchRow::default()], vec![scenario]);
    run.warnings.push("w".to_owned());
    run.as_expected = as_expected;
    run
}

#[test]
fn parts_keep_their_order_and_say_where_they_are_from() {
    let whole = merge(vec![part("a", Some(true)), part("b", None)], "both").expect("two runs");
    assert_eq!(whole.run, "both");
    assert_eq!(whole.rows.len(), 2);
    let dirs: Vec<&str> = whole.scenarios.iter().map(|one| one.dir.as_str()).collect();
    assert_eq!(dirs, ["a/s", "b/s"]);
    assert_eq!(whole.warnings, ["a: w", "b: w"]);
    assert_eq!(whole.as_expected, Some(true));
}

#[test]
fn one_failed_or_partial_part_makes_the_whole_so() {
    let mut broken = part("b", Some(false));
    broken.partial = true;
    let whole = merge(vec![part("a", Some(true)), broken], "both").expect("two runs");
    assert_eq!(whole.as_expected, Some(false));
    assert!(whole.partial);
}

#[test]
fn another_machine_is_named() {
    let mut other = part("b", None);
    other.meta.environment.cores = 64;
    let whole = merge(vec![part("a", None), other], "both").expect("two runs");
    let mut warnings = whole.warnings.iter();
    assert!(warnings.any(|warning| warning.starts_with("b was made on another machine")));
}

#[test]
fn one_run_alone_stays_as_it_is() {
    let alone = part("a", None);
    assert_eq!(merge(vec![alone.clone()], "a"), Ok(alone));
    assert_eq!(merge(vec![], "a"), Err(MergeError::Nothing));
}

#[test]
fn parts_say_which_machine_they_are_from() {
    let on = |name: &str, host: &str| {
        let mut run = part(name, None);
        run.meta.environment.host = host.to_owned();
        run
    };
    let origins = |runs| {
        merge(runs, "both").expect("two runs").rows.into_iter().map(|row| row.origin).collect::<Vec<_>>()
    };
    assert_eq!(origins(vec![on("runs/a", "red"), on("runs/b", "blue")]), ["red", "blue"]);
    assert_eq!(
        origins(vec![on("runs/a", "vm"), on("runs/b", "vm")]),
        ["a", "b"],
        "one name for two machines tells nothing apart"
    );
}

#[test]
fn another_plan_is_refused_with_what_differs() {
    let seeded = |name: &str, seed| {
        let mut run = part(name, None);
        run.scenarios[0].name = "failover".to_owned();
        run.scenarios[0].seed = seed;
        run
    };
    assert_eq!(same_plan(&[seeded("a", 7), seeded("b", 7)]), Ok(()));
    let error = same_plan(&[seeded("a", 7), seeded("b", 8)]).expect_err("other seeds");
    says(&error.to_string(), &["only in a: failover", "seed 8"]);
    let mut twice = seeded("b", 7);
    twice.scenarios.push(twice.scenarios[0].clone());
    assert!(same_plan(&[seeded("a", 7), twice]).is_err());
    let mut tasks = part("b", None);
    tasks.rows[0].tasks = 9;
    assert!(same_plan(&[part("a", None), tasks]).is_err());
}
