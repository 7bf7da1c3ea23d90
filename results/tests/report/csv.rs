//! Figures as comma-separated values: each line by itself, and no key given twice.

use std::collections::BTreeSet;

use results::merge;
use results::run::{BenchRow, Meta, Run, ScenarioResult};

use crate::render;

fn run(rows: Vec<BenchRow>, scenarios: Vec<ScenarioResult>) -> Run {
    Run { rows, scenarios, ..Run::new("runs/x", "bench", Meta::default()) }
}

#[test]
fn fields_with_commas_quotes_and_formulas_are_kept_apart() {
    for (subject, written) in
        [("exec:a, \"b\"", "\"exec:a, \"\"b\"\"\""), ("=1+1", "'=1+1"), ("-1.5", "-1.5"), ("plain", "plain")]
    {
        let row = BenchRow { subject: subject.to_owned(), ..BenchRow::default() };
        let text = render("csv", &run(vec![row], Vec::new()));
        assert!(text.contains(&format!("\nbench,{written},,,0,safety,")), "{text}");
    }
}

#[test]
fn every_line_has_the_columns_of_the_head() {
    let text = render("csv", &run(vec![BenchRow::default()], vec![ScenarioResult::default()]));
    assert!(text.lines().count() > 20);
    assert!(text.lines().all(|line| line.split(',').count() == 13), "{text}");
}

#[test]
fn no_figure_has_the_key_of_another() {
    let mut with_rtt = BenchRow::default();
    with_rtt.measures.load.added_rtt_ns = Some(3_000_000);
    let mut of_kind = BenchRow::default();
    of_kind.measures.load.kind = Some("fair".to_owned());
    let rows = vec![BenchRow::default(), with_rtt, of_kind, BenchRow::default()];
    let run = run(rows, vec![ScenarioResult::default(); 2]);
    let other = Run { run: "runs/y".to_owned(), ..run.clone() };
    let text = render("csv", &merge::merge(vec![run, other.clone(), other], "all").expect("runs"));
    let mut keys = BTreeSet::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.split(',').collect();
        assert!(keys.insert([&fields[..6], &fields[9..]].concat()), "{line} in {text}");
    }
    assert!(text.lines().any(|line| line.ends_with(",,,x,1")), "{text}");
    assert!(text.contains(",,3000000,y,2\n") && text.contains(",fair,,x,1\n"), "{text}");
}
