//! Rows of several runs in tables.

use results::compare::pivot::{GroupError, Grouping, Pivot, pivot};
use results::run::Run;

use crate::comparisons::point;
use crate::samples::row;

fn run(name: &str, rows: &[(&str, &str, f64)]) -> Run {
    let rows = rows.iter().map(|(subject, topology, cycles)| row(subject, topology, point(*cycles)));
    crate::samples::run(name, rows.collect(), Vec::new())
}

fn by(rows: &[&str], cols: &[&str], runs: &[Run]) -> Pivot {
    pivot(runs, &Grouping::new(rows, cols).expect("known fields")).expect("rows")
}

const PLAIN: (&str, &str, f64) = ("plain", "single", 100.0);
const FAIR: (&str, &str, f64) = ("fair", "single", 50.0);

#[test]
fn subjects_stand_beside_each_other_and_topologies_below() {
    let cluster = [("plain", "cluster", 80.0), ("fair", "cluster", 20.0)];
    let pivot = by(&["topology"], &["subject"], &[run("a", &[PLAIN, FAIR, cluster[0], cluster[1]])]);
    let table = &pivot.tables[0];
    assert_eq!(table.metric, "cycles_per_s");
    assert_eq!(table.columns, ["plain", "fair"]);
    let names: Vec<&str> = table.lines.iter().map(|line| line.name.as_str()).collect();
    assert_eq!(names, ["single", "cluster"]);
    let ratio =
        |line: usize| table.lines[line].cells[1].as_ref().expect("a cell").ratio.expect("a ratio").point;
    assert_eq!((ratio(0), ratio(1)), (0.5, 0.25));
    let mean = table.geomean[1].expect("two ratios");
    assert!((mean - 0.125_f64.sqrt()).abs() < 1e-12);
    assert_eq!(table.geomean[0], None);
    let first = &pivot.comparisons[0].comparison;
    assert_eq!([&first.a, &first.b, &first.r#where], ["plain", "fair", "single"]);
}

#[test]
fn runs_that_are_in_neither_get_tables_of_their_own() {
    let runs = ["a", "b"].map(|name| run(name, &[PLAIN, FAIR]));
    let tables = by(&["topology"], &["subject"], &runs).tables;
    let commons: Vec<&str> = tables.iter().map(|table| table.common.as_str()).collect();
    assert_eq!(commons, ["run a", "run b"]);
}

#[test]
fn what_follows_from_the_columns_is_said_and_splits_nothing() {
    let mut one = run("a", &[PLAIN, FAIR]);
    one.rows[1].measures.load.hold_ns = 1_000_000;
    let pivot = by(&["topology"], &["subject"], &[one]);
    assert_eq!(pivot.tables[0].columns, ["plain", "fair"]);
    assert_eq!(pivot.also_differs, ["hold"]);
}

#[test]
fn columns_alone_leave_everything_else_to_the_lines() {
    let pivot = by(&[], &[], &[run("a", &[PLAIN, ("plain", "cluster", 80.0)]), run("b", &[PLAIN])]);
    let table = &pivot.tables[0];
    assert_eq!(table.columns, ["a", "b"]);
    assert_eq!(table.lines.len(), 2);
    assert!(table.lines[1].cells[1].is_none(), "b measured no cluster");
}

#[test]
fn an_unknown_field_is_named_with_its_neighbour() {
    let message = Grouping::new(&["topolgy"], &[]).expect_err("misspelt").to_string();
    assert!(message.contains("did you mean `topology`?"), "{message}");
    assert_eq!(Grouping::new(&["run"], &["run"]).expect_err("twice"), GroupError::InBoth { name: "run" });
}
