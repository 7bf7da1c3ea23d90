//! One line for a figure and its bound: the goal, what was measured, reached or not.

use std::fmt;

/// What a figure may be.
#[derive(Clone, Copy)]
pub(crate) enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

/// The ratio of two sides that were measured in turns.
#[derive(Clone, Copy)]
pub(crate) struct Ratio {
    pub(crate) median: f64,
    /// The lowest and the highest round. Of seven rounds these hold the true median with 98 %.
    low: f64,
    high: f64,
}

impl Ratio {
    /// From the ratio of each round; there must be one.
    pub(crate) fn of(mut rounds: Vec<f64>) -> Self {
        rounds.sort_by(f64::total_cmp);
        Ratio { median: rounds[rounds.len() / 2], low: rounds[0], high: rounds[rounds.len() - 1] }
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ratio { median, low, high } = self;
        write!(f, "{median:.3} (rounds {low:.3} to {high:.3})")
    }
}

/// Says whether a ratio is what it should be. A bound between the rounds is neither reached nor missed.
pub(crate) fn ratio(name: &str, ratio: Ratio, bound: Bound) {
    let Ratio { median, low, high } = ratio;
    let verdict = match bound {
        _ if inside(median, bound) => "reached",
        Bound::AtLeast(bound) if high >= bound => "not shown to be missed",
        Bound::AtMost(bound) if low <= bound => "not shown to be missed",
        _ => "NOT reached",
    };
    println!("goal: {name}: {ratio}, {}: {verdict}", text(bound));
}

/// Says whether a figure is what it should be.
pub(crate) fn figure(name: &str, measured: f64, unit: &str, bound: Bound) {
    let verdict = match inside(measured, bound) {
        true => "reached",
        false => "NOT reached",
    };
    println!("goal: {name}: {measured:.3} {unit}, {}: {verdict}", text(bound));
}

fn inside(measured: f64, bound: Bound) -> bool {
    match bound {
        Bound::AtLeast(bound) => measured >= bound,
        Bound::AtMost(bound) => measured <= bound,
    }
}

fn text(bound: Bound) -> String {
    match bound {
        Bound::AtLeast(bound) => format!("at least {bound}"),
        Bound::AtMost(bound) => format!("at most {bound}"),
    }
}
