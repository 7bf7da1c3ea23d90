//! The table that `cargo bench` ends with, out of figures that are known.

#[path = "../benches/cycle/table.rs"]
mod table;

use results::run::Ratio;
use table::{Interval, Measured, table};

fn row(subject: &'static str, ratio: Option<[f64; 3]>) -> Measured {
    Measured {
        subject,
        topology: "single",
        tasks: 16,
        cycles_per_s: Interval { point: 1000.0, low: 990.0, high: 1010.0 },
        ratio: ratio.map(|[low, point, high]| Ratio { point, low: Some(low), high: Some(high) }),
    }
}

/// What is printed of a row with that ratio.
fn line(ratio: Option<[f64; 3]>) -> String {
    let text = table(&[row("lock-core:plain", ratio)]);
    text.lines().nth(1).expect("a row below the head").to_owned()
}

#[test]
fn a_ratio_is_shown_only_where_its_interval_lies_beside_one() {
    assert!(line(None).ends_with("1000  990–1010       1"));
    assert!(line(Some([0.887, 0.9, 0.914])).ends_with("0.900  0.887–0.914"));
    assert!(line(Some([1.085, 1.1, 1.115])).ends_with("1.100  1.085–1.115"));
    assert!(line(Some([0.996, 1.01, 1.024])).ends_with("1.010  0.996–1.024  not shown"));
}

#[test]
fn bounds_that_round_to_one_show_nothing() {
    assert!(line(Some([1.0003, 1.0004, 1.0005])).ends_with("not shown"));
    assert!(line(Some([0.98, 0.99, 0.9996])).ends_with("not shown"));
}
