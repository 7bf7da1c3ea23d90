//! What a benchmark row says beyond its figures, and what follows from a sweep, in sentences.

use results::measures::{KneeAt, Sweep, UnknownRate};
use results::run::{BenchRow, Meta, Run};
use results::verdict::State;

use crate::render;
use crate::samples::says;

fn row() -> BenchRow {
    let mut row = BenchRow::default();
    row.measures.load.mode = "closed".into();
    row.measures.load.durability = "none".into();
    row.measures.load.clients = 1;
    row
}

/// The lines of the lists that a run has in Markdown.
fn listed(run: &Run) -> Vec<String> {
    let text = render("markdown", run);
    text.lines().filter_map(|line| line.strip_prefix("- ")).map(str::to_owned).collect()
}

fn lines(row: &BenchRow) -> Vec<String> {
    listed(&Run { rows: vec![row.clone()], ..Run::new("r", "bench", Meta::default()) })
}

#[test]
fn a_proxy_is_always_said() {
    let mut row = row();
    assert!(lines(&row)[0].contains("direct"));
    row.measures.load.added_rtt_ns = Some(5_000_000);
    says(&lines(&row)[0], &["through a proxy that was to add 5"]);
    row.measures.load.round_trip_ns = Some(6_250_000);
    row.measures.load.direct_round_trip_ns = Some(250_000);
    says(&lines(&row)[0], &["to the round trip and added 6"]);
}

#[test]
fn a_search_that_ended_without_an_answer_says_where_and_why() {
    let knee = KneeAt {
        good_per_s: Some(10.0),
        unknown: Some(UnknownRate { rate_per_s: 20.0, why: "3 calls ended in an error".to_owned() }),
        ..KneeAt::default()
    };
    let sweep = Sweep { knee: Some(knee), ..Sweep::default() };
    let run = Run { sweeps: vec![sweep], ..Run::new("r", "bench", Meta::default()) };
    says(&listed(&run)[0], &["up to 10/s", "from none that was tried", "at 20/s", "3 calls"]);
}

#[test]
fn a_row_of_an_unsafe_lock_says_nothing_more() {
    let mut row = row();
    row.safety.state = State::Violated;
    assert!(lines(&row).is_empty());
}

#[test]
fn what_does_not_apply_is_not_there() {
    let said = lines(&row()).join("\n");
    for absent in ["hand-off", "renewal", "recovery", "schedule", "gave up"] {
        assert!(!said.contains(absent), "{said}");
    }
}
