//! The table that `cargo bench` ends with, out of figures that are known.

#[path = "../benches/cycle/table.rs"]
mod table;

use table::{Interval, Measured, ratio, table};

const BASE: &str = "lock-core:reentrant";

fn row(subject: &'static str, topology: &'static str, low: f64, point: f64, high: f64) -> Measured {
    Measured {
        subject,
        topology,
        tasks: 16,
        cycles_per_s: Interval { point, low, high },
        base: BASE,
    }
}

fn line<'a>(text: &'a str, of: &str) -> &'a str {
    let line = text.lines().find(|line| line.starts_with(of));
    line.expect("a line of that subject")
}

#[test]
fn a_ratio_is_shown_only_where_its_interval_lies_beside_one() {
    let text = table(&[
        row(BASE, "single", 990.0, 1000.0, 1010.0),
        row("slower", "single", 890.0, 900.0, 910.0),
        row("faster", "single", 1090.0, 1100.0, 1110.0),
        row("alike", "single", 1000.0, 1010.0, 1020.0),
    ]);
    assert!(
        line(&text, BASE).ends_with("1000  990–1010       1"),
        "{text}"
    );
    assert!(
        line(&text, "slower").ends_with("0.900  0.887–0.914"),
        "{text}"
    );
    assert!(
        line(&text, "faster").ends_with("1.100  1.085–1.115"),
        "{text}"
    );
    assert!(
        line(&text, "alike").ends_with("1.010  0.996–1.024  not shown"),
        "{text}"
    );
}

#[test]
fn a_row_whose_base_did_not_run_has_no_ratio() {
    let text = table(&[
        row(BASE, "single", 990.0, 1000.0, 1010.0),
        row("slower", "sentinel", 890.0, 900.0, 910.0),
    ]);
    assert!(line(&text, "slower").ends_with("890–910"), "{text}");
}

#[test]
fn bounds_that_round_to_one_show_nothing() {
    let text = table(&[
        row(BASE, "single", 999.9, 1000.0, 1000.1),
        row("hardly", "single", 1000.3, 1000.4, 1000.5),
    ]);
    assert!(line(&text, "hardly").ends_with("not shown"), "{text}");
}

#[test]
fn a_wide_base_makes_the_ratio_wide() {
    let exact = Interval {
        point: 10.0,
        low: 10.0,
        high: 10.0,
    };
    let wide = Interval {
        point: 10.0,
        low: 8.0,
        high: 12.5,
    };
    let of = ratio(exact, wide);
    assert!(
        (of.low - 0.8).abs() < 1e-9 && (of.high - 1.25).abs() < 1e-9,
        "{of:?}"
    );
    // Both wide: more than either, less than the product of the two.
    let of = ratio(wide, wide);
    assert!(of.low < 0.8 && of.low > 0.64 && of.high > 1.25, "{of:?}");
}
