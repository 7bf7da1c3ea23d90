//! Percentile curves: counted latencies over the share of calls that were faster, spread so that the slow
//! ones have room: 50 %, 90 %, 99 %, 99.9 % lie equally far apart (the axis is logarithmic in 1/(1−p)).

use itertools::Itertools;

use super::axis::{Axis, draw_ticks};
use super::canvas::{self, CHARACTER, COLORS, Canvas, color};
use super::{Chart, WIDTH};
use crate::wording::units;

/// One curve: values in nanoseconds and how often each was seen.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PercentileCurve {
    /// What it is.
    pub label: String,
    /// Value in nanoseconds, and count.
    pub counts: Vec<(u64, u64)>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Point {
    /// 1/(1−p).
    nines: f64,
    ns: f64,
    low_ns: f64,
    high_ns: f64,
}

/// So many calls must be slower than the last point of a curve: a tail of fewer is an anecdote.
const SLOWER_AT_LEAST: f64 = 10.0;
const PER_DECADE: u32 = 12;

const LEFT: f64 = 74.0;
const TOP: f64 = 26.0;
const BOTTOM: f64 = 330.0;

/// The chart; `None` if no curve has calls enough for a point beyond the median.
///
/// The ribbon around a curve is the 95 % interval of each quantile by ranks (n·p ± 1.96·√(n·p·(1−p))). It
/// takes calls as independent; where they come in bursts, the truth is wider.
pub fn percentiles(title: &str, curves: &[PercentileCurve]) -> Option<Chart> {
    let drawn = curves.iter().map(|curve| (curve, points(&curve.counts)));
    let drawn = drawn.filter(|(_, points)| points.last().is_some_and(|last| last.nines > 2.0));
    let drawn: Vec<(&PercentileCurve, Vec<Point>)> = drawn.collect();
    if drawn.is_empty() {
        return None;
    }
    let all = || drawn.iter().flat_map(|(_, points)| points);
    let most = all().map(|point| point.nines).fold(100.0, f64::max);
    let right = WIDTH - label_room(drawn.iter().map(|(curve, _)| curve.label.as_str()));
    let across = Axis::log_exact(1.0, most, (LEFT, right));
    let up = Axis::log(all().flat_map(|point| [point.low_ns, point.high_ns]), (BOTTOM, TOP));
    let mut canvas = Canvas::default();
    canvas.text("c-muted", (0.0, 14.0), "time (logarithmic)");
    up.draw_left(&mut canvas, LEFT, right, |ns| units::duration(ns.round() as u64));
    let ticks = TICKS.iter().filter(|(nines, _)| *nines <= most * 1.001);
    let ticks = ticks.map(|(nines, label)| (across.at(*nines), (*label).to_owned()));
    draw_ticks(&mut canvas, TOP, BOTTOM, ticks.collect());
    canvas.line("c-axis", (LEFT, BOTTOM), (right, BOTTOM));
    across.name_below(
        &mut canvas,
        BOTTOM,
        "share of calls that took no longer; ribbon: 95 % interval by ranks",
    );
    for (index, (_, points)) in drawn.iter().enumerate() {
        let above = points.iter().map(|point| (point.nines, point.high_ns));
        let below = points.iter().map(|point| (point.nines, point.low_ns));
        let ring: Vec<_> = above.chain(below.rev()).map(|(x, y)| (across.at(x), up.at(y))).collect();
        canvas.area(&format!("c-area c-{}", color(index)), &ring);
    }
    let mut ends = Vec::new();
    for (index, (curve, points)) in drawn.iter().enumerate() {
        let line = points.iter().map(|point| (across.at(point.nines), up.at(point.ns)));
        let line: Vec<(f64, f64)> = line.collect();
        canvas.polyline(&line_class(index), &line, &curve.label);
        ends.extend(line.last().map(|(_, y)| (index, *y, curve.label.as_str())));
    }
    end_labels(&mut canvas, right, TOP, &ends);
    let curves = drawn.iter().map(|(curve, points)| words(curve, points));
    let described = format!("Percentile curves. {}.", curves.format("; "));
    Some(Chart::new(title, described, (TOP + 15.0 * ends.len() as f64).max(BOTTOM + 44.0), canvas))
}

const TICKS: [(f64, &str); 8] = [
    (1.0, "0 %"),
    (2.0, "50 %"),
    (10.0, "90 %"),
    (100.0, "99 %"),
    (1e3, "99.9 %"),
    (1e4, "99.99 %"),
    (1e5, "99.999 %"),
    (1e6, "99.9999 %"),
];

fn words(curve: &PercentileCurve, points: &[Point]) -> String {
    let at = |nines: f64| {
        let found = points.iter().rfind(|point| point.nines <= nines * 1.001);
        found.map_or("not known".to_owned(), |point: &Point| units::duration(point.ns.round() as u64))
    };
    let p99 = match points.last() {
        Some(last) if last.nines >= 99.0 => format!(", p99 {}", at(100.0)),
        _ => String::new(),
    };
    format!("{}: p50 {}, p90 {}{p99}", curve.label, at(2.0), at(10.0))
}

fn points(counts: &[(u64, u64)]) -> Vec<Point> {
    let counts = counts.iter().filter(|(_, count)| *count > 0);
    let mut total = 0_u64;
    let cumulated = counts.sorted_unstable().map(|(ns, count)| {
        total = total.saturating_add(*count);
        (*ns, total)
    });
    let cumulated: Vec<(u64, u64)> = cumulated.collect();
    let n = total as f64;
    // The value of a rank from 1, held within what there is.
    let ranked = |rank: f64| {
        let rank = rank.ceil().clamp(1.0, n.max(1.0)) as u64;
        cumulated.get(cumulated.partition_point(|(_, up_to)| *up_to < rank)).map_or(0.0, |(ns, _)| *ns as f64)
    };
    let mut points = Vec::new();
    for step in 0.. {
        let nines = 10_f64.powf(f64::from(step) / f64::from(PER_DECADE));
        if n / nines < SLOWER_AT_LEAST {
            break;
        }
        let p = 1.0 - 1.0 / nines;
        let half = 1.96 * (n * p * (1.0 - p)).sqrt();
        points.push(Point {
            nines,
            ns: ranked(n * p),
            low_ns: ranked(n * p - half),
            high_ns: ranked(n * p + half),
        });
    }
    points
}

/// Two labels nearer than this would touch.
const LINE: f64 = 15.0;

/// The class of a curve: its colour, and dashes that tell it from the others without colour.
fn line_class(index: usize) -> String {
    let dash = match (index + index / COLORS) % 3 {
        1 => " c-dash",
        2 => " c-dot",
        _ => "",
    };
    format!("c-line c-line-{}{dash}", color(index))
}

/// Puts each label at its height, or below the one above it with a thin line.
fn end_labels(canvas: &mut Canvas, x: f64, top: f64, ends: &[(usize, f64, &str)]) {
    let mut sorted: Vec<&(usize, f64, &str)> = ends.iter().collect();
    sorted.sort_by(|a, b| a.1.total_cmp(&b.1).then_with(|| a.0.cmp(&b.0)));
    let mut lowest = top - LINE;
    for (index, y, label) in sorted {
        let at = y.max(lowest + LINE);
        lowest = at;
        if at - y > 2.0 {
            canvas.line("c-leader", (x - 10.0, *y), (x - 1.0, at));
        }
        canvas.circle(&format!("c-{}", color(*index)), (x + 5.0, at), 4.0, label);
        canvas.text("", (x + 13.0, at + 4.0), &canvas::fit(label, WIDTH - x - 13.0));
    }
}

/// How wide the widest label is, within reason.
fn label_room<'a>(labels: impl Iterator<Item = &'a str>) -> f64 {
    let longest = labels.map(|label| label.chars().count()).max().unwrap_or(0);
    (longest as f64 * CHARACTER + 26.0).clamp(90.0, 270.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_ends_where_fewer_than_ten_are_slower() {
        let counts: Vec<(u64, u64)> = (1..=1_000).map(|ns| (ns * 1_000, 1)).collect();
        let points = points(&counts);
        let last = points.last().expect("points");
        assert!((last.nines - 100.0).abs() < 1e-6, "{last:?}");
        assert_eq!(last.ns, 990_000.0);
        assert!(last.low_ns < last.ns && last.ns < last.high_ns);
        for point in &points {
            let exact = 1e6 * (1.0 - 1.0 / point.nines);
            assert!((point.ns - exact).abs() <= 1_000.0, "{point:?}");
        }
    }
}
