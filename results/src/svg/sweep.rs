//! The curve of a sweep: a figure with intervals over a rising level, and from where it was not kept.

use itertools::Itertools;

use super::axis::{Axis, draw_ticks};
use super::canvas::{CHARACTER, Canvas};
use super::{Chart, WIDTH};
use crate::record::run::Estimate;
use crate::wording::units;

/// What a sweep measured.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SweepCurve {
    /// The chart's title.
    pub title: String,
    /// What was raised.
    pub over: String,
    /// Levels, greater than zero, with cycles per second.
    pub points: Vec<(f64, Estimate)>,
    /// The level from which on the condition was not kept.
    pub knee: Option<f64>,
}

const LEFT: f64 = 74.0;
const RIGHT: f64 = WIDTH - 24.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = TOP + 240.0;

/// The chart, whose level axis is logarithmic; `None` without a point.
pub fn sweep(data: &SweepCurve) -> Option<Chart> {
    let good = |(x, rate): &&(f64, Estimate)| x.is_finite() && *x > 0.0 && rate.median.is_finite();
    let points = data.points.iter().filter(good).collect_vec();
    let levels = points.iter().map(|(x, _)| *x).sorted_by(f64::total_cmp).dedup().collect_vec();
    let (min, max) = (*levels.first()?, *levels.last()?);
    let across = Axis::log_exact(min, if max > min { max } else { min * 2.0 }, (LEFT, RIGHT));
    let highs = points.iter().flat_map(|(_, rate)| [Some(rate.median), rate.high]);
    let up = Axis::from_zero(highs.flatten(), (BOTTOM, TOP));
    let mut canvas = Canvas::default();
    canvas.text("c-muted", (0.0, 14.0), "cycles per second");
    if let Some(knee) = data.knee {
        let (x, said) = (across.at(knee), "not kept from here on");
        canvas.rect("c-fault", (x, TOP), ((RIGHT - x).max(2.0), BOTTOM - TOP), said);
        canvas.text("c-muted c-end", (RIGHT, TOP - 8.0), said);
    }
    up.draw_left(&mut canvas, LEFT, RIGHT, units::figure);
    // Levels are what was measured, not round numbers: they are the ticks.
    let mut free = f64::MIN;
    let ticks = levels.iter().map(|level| {
        let (x, mut label) = (across.at(*level), units::figure(*level));
        match x >= free {
            true => free = x + (label.chars().count() as f64 + 2.0) * CHARACTER,
            false => label.clear(),
        }
        (x, label)
    });
    draw_ticks(&mut canvas, TOP, BOTTOM, ticks.collect());
    canvas.line("c-axis", (LEFT, BOTTOM), (RIGHT, BOTTOM));
    across.name_below(&mut canvas, BOTTOM, &format!("{} (logarithmic)", data.over));
    let line = points.iter().map(|(x, rate)| (across.at(*x), up.at(rate.median))).collect_vec();
    canvas.polyline("c-line c-line-1", &line, "cycles per second");
    for ((level, rate), at) in points.iter().zip(&line) {
        if let Some((low, high)) = rate.low.zip(rate.high) {
            canvas.line("c-whisker", (at.0, up.at(low)), (at.0, up.at(high)));
        }
        let tip = format!("{} at {}", units::figure(rate.median), units::figure(*level));
        canvas.circle("c-1", *at, 4.0, &tip);
    }
    let rates = points.iter().map(|(_, rate)| units::figure(rate.median));
    let described = format!("Cycles per second over {}: {}.", data.over, rates.format(", "));
    Some(Chart::new(&data.title, described, BOTTOM + 44.0, canvas))
}
