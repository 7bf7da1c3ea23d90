//! Charts by themselves, where a report shows too little of them.
use results::run::Estimate;
use results::svg::{PricePoint, SweepCurve, price, sweep};

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
