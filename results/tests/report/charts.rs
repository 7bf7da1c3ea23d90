//! Charts by themselves, where a report shows too little of them, and which of them a run has.
use results::run::{BenchRow, Estimate, Meta, Run, ScenarioResult};
use results::svg::{PercentileCurve, PricePoint, SweepCurve, percentiles, price, sweep};
use results::verdict::State;

use crate::{between, render};

#[test]
fn one_point_is_drawn_and_nothing_measured_is_no_chart() {
    let figure = |median| Estimate { median, ..Estimate::default() };
    let mut curve = SweepCurve {
        points: vec![(4.0, figure(1.0)), (8.0, figure(f64::NAN))],
        knee: Some(4.0),
        ..SweepCurve::default()
    };
    let chart = sweep(&curve).expect("a point").document();
    assert!(!chart.contains("NaN") && chart.contains("not kept"));
    curve.points.clear();
    assert_eq!(sweep(&curve), None);
}

#[test]
fn where_no_lock_was_lost_labels_are_whole() {
    let label = "failover-wait-all-cluster · cluster · wait:all, 3.67 s without a grant";
    let point = PricePoint { label: label.to_owned(), throughput: 4467.0, violations_per_min: 0.0 };
    let drawn = price(&[point], "cycles/s").document();
    assert!(drawn.contains(&format!(">{label}</text>")), "{drawn}");
    assert!(!drawn.contains("logarithmic"), "{drawn}");
}

fn used(subject: &str, hold: &str) -> ScenarioResult {
    let mut result =
        ScenarioResult { subject: subject.to_owned(), grants_per_s: 10.0, ..ScenarioResult::default() };
    result.verdicts.contract.state = State::Clean;
    if !hold.is_empty() {
        result.load.insert("hold".to_owned(), hold.to_owned());
    }
    result
}

/// The points of the price of safety, by what says them to those who cannot see it; none without the chart.
fn priced(run: &Run) -> Vec<String> {
    let page = render("html", run);
    let described = between(&page, "Throughput against contract violations. ", "</desc>");
    described.iter().flat_map(|said| said.split("; ")).map(str::to_owned).collect()
}

/// Whether the price of safety is drawn, and why not.
fn of(scenarios: Vec<ScenarioResult>) -> (bool, Option<String>) {
    let run = Run { scenarios, ..Run::new("r", "chaos", Meta::default()) };
    let page = render("html", &run);
    let unlike = between(&page, "Not drawn: ", ", so their throughputs cannot be compared.");
    (!priced(&run).is_empty(), unlike.first().map(|why| (*why).to_owned()))
}

#[test]
fn what_was_measured_under_one_load_has_its_price_however_scenarios_used_it() {
    let mut run = Run::new("r", "quickstart", Meta::default());
    let mut synced = used("b", "15 s");
    let settings = [("appendfsync", "always"), ("appendonly", "yes")];
    synced.server_config.extend(settings.map(|(key, value)| (key.to_owned(), value.to_owned())));
    run.scenarios = vec![used("a", "20 ms"), used("b", "20 ms"), synced];
    let row = |subject| crate::samples::row(subject, "", crate::samples::around(100.0, 0.05));
    run.rows = vec![row("a"), row("b")];
    run.rows[1].measures.load.durability = "fsync".to_owned();
    // The lock `b` was measured where its servers sync each write, and nowhere else.
    assert_eq!(priced(&run).len(), 2);
    run.rows.truncate(1);
    assert!(priced(&run).is_empty());
}

#[test]
fn the_price_of_safety_compares_like_with_like_or_says_why_not() {
    let [a, b, slow] = [used("a", "20 ms"), used("b", "20 ms"), used("c", "15 s")];
    assert_eq!(of(vec![a.clone(), b.clone()]), (true, None));
    assert_eq!(of(vec![a.clone()]), (false, None), "one is no comparison");
    assert_eq!(
        of(vec![a.clone(), b.clone(), slow.clone()]),
        (false, Some("configurations were used differently (hold)".to_owned()))
    );
    let old = used("d", "");
    let unsaid = "this run does not say how its locks were used";
    assert_eq!(of(vec![a.clone(), old]), (false, Some(unsaid.to_owned())));
    // A control, and what is not known, have no place there and disturb nobody.
    let control = ScenarioResult { subject: "broken:steal".to_owned(), ..slow.clone() };
    let mut unknown = slow;
    unknown.verdicts.contract.state = State::Unknown;
    assert_eq!(of(vec![a, b, control, unknown]), (true, None));
}

#[test]
fn a_contended_bar_has_a_chart_without_an_uncontended_one() {
    let row =
        |workload: &str, tasks| BenchRow { workload: workload.to_owned(), tasks, ..BenchRow::default() };
    let titles = |rows: Vec<BenchRow>| {
        let drawn = render("svg", &Run { rows, ..Run::new("r", "bench", Meta::default()) });
        let titles = between(&drawn, "<text class=\"c-title\" x=\"0\" y=\"20\">", "</text>").into_iter();
        let throughput = titles.filter(|title| title.starts_with("Cycles per second"));
        throughput.map(str::to_owned).collect::<Vec<_>>()
    };
    let loads = ["contended, 16 tasks", "uncontended, 16 tasks"];
    assert_eq!(
        titles(vec![row("contended", 16), row("uncontended", 16), row("contended", 16)]),
        loads.map(|load| format!("Cycles per second: {load}"))
    );
    let sweep = (1..=20).map(|tasks| row("contended", tasks)).collect();
    assert_eq!(titles(sweep).len(), 1, "a sweep is one chart");
}

#[test]
fn nothing_is_drawn_of_a_handful() {
    let curve = PercentileCurve { label: "few".to_owned(), counts: vec![(1_000, 15)] };
    assert_eq!(percentiles("latency", &[curve]), None);
    assert_eq!(percentiles("latency", &[]), None);
}

proptest::proptest! {
    #[test]
    fn any_counts_are_drawn_inside_the_chart(counts in proptest::collection::vec((0..u64::MAX, 0..10_000_u64), 0..50)) {
        if let Some(chart) = percentiles("latency", &[PercentileCurve { label: "x".to_owned(), counts }]) {
            proptest::prop_assert!(!chart.document().contains("NaN"));
        }
    }
}
