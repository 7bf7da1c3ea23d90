//! A chart of lines: series over time or over a rising level, with spans shaded behind them; and what all charts of curves share, a colour and
//! a pattern of dashes for each, and labels at their right ends that do not touch.

use itertools::Itertools;

use super::axis::{Axis, draw_ticks};
use super::canvas::{self, CHARACTER, Canvas};
use super::{Chart, WIDTH};
use crate::units;

/// One line.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Series {
    /// What it is.
    pub label: String,
    /// Stretches of points (x, y) that are joined; between stretches nothing was measured.
    pub stretches: Vec<Vec<(f64, f64)>>,
    /// Points (x, low, high) with an interval.
    pub intervals: Vec<(f64, f64, f64)>,
    /// Whether each point has a mark: it was measured by itself.
    pub marks: bool,
}

/// A span along x that is shaded.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Shade {
    /// What it is.
    pub label: String,
    /// Where it begins.
    pub from: f64,
    /// Where it ends; `None`: not in the chart.
    pub to: Option<f64>,
}

/// What a chart of lines is to show.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Lines {
    /// Its title.
    pub title: String,
    /// What is below its level axis.
    pub across: String,
    /// What is above its upright axis, which begins at zero.
    pub upright: String,
    /// Whether the level axis is logarithmic; its values must then be greater than zero.
    pub logarithmic: bool,
    /// The lines.
    pub series: Vec<Series>,
    /// What is shaded.
    pub shades: Vec<Shade>,
}

const LEFT: f64 = 74.0;
const BOTTOM_MARGIN: f64 = 44.0;
const HEIGHT: f64 = 240.0;
const SHADE_LINE: f64 = 14.0;
/// Names of spans are put on so many lines at most; the others show on pointing.
const SHADE_LINES: usize = 3;

/// The chart; `None` without a point.
pub fn lines(data: &Lines) -> Option<Chart> {
    let stretches = || data.series.iter().flat_map(|series| &series.stretches);
    let points = || stretches().flatten().copied();
    let finite = |value: &f64| value.is_finite();
    let xs = || points().map(|(x, _)| x).filter(finite);
    let (min, max) = range(xs());
    if min > max {
        return None;
    }
    let several = data.series.len() > 1;
    let right = match several {
        true => WIDTH - label_room(data.series.iter().map(|series| series.label.as_str())),
        false => WIDTH - 24.0,
    };
    let shade_lines = if data.shades.is_empty() {
        0
    } else {
        SHADE_LINES
    };
    let top = 26.0 + SHADE_LINE * shade_lines as f64;
    let bottom = top + HEIGHT;
    let across = match data.logarithmic {
        true => Axis::log_exact(min, if max > min { max } else { min * 2.0 }, (LEFT, right)),
        false => Axis::exact(min.min(0.0), max, (LEFT, right)),
    };
    let intervals = data.series.iter().flat_map(|series| &series.intervals);
    let highs = intervals.map(|(_, _, high)| *high);
    let up = Axis::from_zero(points().map(|(_, y)| y).chain(highs), (bottom, top));
    let mut canvas = Canvas::default();
    canvas.text("c-muted", (0.0, 14.0), &data.upright);
    for shade in &data.shades {
        let from = across.at(shade.from.max(min.min(0.0)));
        let to = shade.to.map_or(right, |to| across.at(to));
        let size = ((to - from).max(2.0), HEIGHT);
        canvas.rect("c-fault", (from, top), size, &shade.label);
    }
    up.draw_left(&mut canvas, LEFT, right, units::figure);
    if data.logarithmic {
        // Levels are what was measured, not round numbers: they are the ticks.
        let mut free = f64::MIN;
        let levels = xs().sorted_by(f64::total_cmp).dedup().map(|level| {
            let (x, mut label) = (across.at(level), units::figure(level));
            match x >= free {
                true => free = x + (label.chars().count() as f64 + 2.0) * CHARACTER,
                false => label.clear(),
            }
            (x, label)
        });
        draw_ticks(&mut canvas, top, bottom, levels.collect());
        canvas.line("c-axis", (LEFT, bottom), (right, bottom));
    } else {
        across.draw_below(&mut canvas, top, bottom, units::figure);
    }
    across.name_below(&mut canvas, bottom, &data.across);
    shade_names(&mut canvas, data, right, |x| across.at(x));
    let mut ends = Vec::new();
    for (index, series) in data.series.iter().enumerate() {
        for (x, low, high) in &series.intervals {
            let x = across.at(*x);
            canvas.line("c-whisker", (x, up.at(*low)), (x, up.at(*high)));
        }
        let mut last = None;
        for stretch in &series.stretches {
            let line = stretch.iter();
            let line = line.filter(|(x, y)| x.is_finite() && y.is_finite());
            let line = line.map(|(x, y)| (across.at(*x), up.at(*y)));
            let line: Vec<(f64, f64)> = line.collect();
            canvas.polyline(&line_class(index), &line, &series.label);
            for ((x, y), at) in stretch.iter().zip(&line).filter(|_| series.marks) {
                let [x, y] = [*x, *y].map(units::figure);
                let tip = format!("{}: {y} at {x}", series.label);
                canvas.circle(&format!("c-{}", color(index)), *at, 4.0, &tip);
            }
            last = line.last().map(|(_, y)| *y).or(last);
        }
        ends.extend(last.map(|y| (index, y, series.label.as_str())));
    }
    if several {
        end_labels(&mut canvas, right, top, &ends);
    }
    let height = (bottom + BOTTOM_MARGIN).max(top + 15.0 * ends.len() as f64);
    Some(Chart::new(&data.title, described(data), height, canvas))
}

/// Names of spans above the chart, on a few lines, as far as they do not run into each other.
fn shade_names(canvas: &mut Canvas, data: &Lines, right: f64, at: impl Fn(f64) -> f64) {
    let mut free = [LEFT; SHADE_LINES];
    for shade in &data.shades {
        let x = at(shade.from).max(LEFT);
        let label = canvas::fit(&shade.label, 240.0);
        let width = label.chars().count() as f64 * CHARACTER;
        let fits = |free: &f64| *free <= x && x + width <= right + 20.0;
        if let Some(line) = free.iter().position(fits) {
            canvas.text("c-muted", (x, 32.0 + SHADE_LINE * line as f64), &label);
            free[line] = x + width + 10.0;
        }
    }
}

/// The least and the most.
fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::MAX, f64::MIN), |(least, most), value| {
        (least.min(value), most.max(value))
    })
}

fn described(data: &Lines) -> String {
    let of_series = data.series.iter().map(|series| {
        let ys = series.stretches.iter().flatten().map(|(_, y)| *y);
        let (least, most) = range(ys);
        let [least, most] = [least, most].map(units::figure);
        format!("{}: from {least} to {most}", series.label)
    });
    let of_series = of_series.format("; ");
    let shades = data.shades.iter().map(|one| &one.label).join("; ");
    let shaded = units::enclosed(" Shaded: ", &shades, ".");
    let (upright, across) = (&data.upright, &data.across);
    format!("{upright} over {across}. {of_series}.{shaded}")
}

/// So many curves can be distinguished by colour.
pub(super) const COLORS: usize = 6;
/// Two labels nearer than this would touch.
const LINE: f64 = 15.0;

/// The number of a curve's colour. Beyond the sixth the dashes differ.
pub(super) fn color(index: usize) -> usize {
    index % COLORS + 1
}

/// The class of a curve: its colour, and dashes that tell it from the others without colour.
pub(super) fn line_class(index: usize) -> String {
    let dash = match (index + index / COLORS) % 3 {
        1 => " c-dash",
        2 => " c-dot",
        _ => "",
    };
    format!("c-line c-line-{}{dash}", color(index))
}

/// Puts each label at its height, or below the one above it, between `top` and `bottom`, with a thin line where it had to move.
pub(super) fn end_labels(canvas: &mut Canvas, x: f64, top: f64, ends: &[(usize, f64, &str)]) {
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
        canvas.text(
            "",
            (x + 13.0, at + 4.0),
            &canvas::fit(label, WIDTH - x - 13.0),
        );
    }
}

/// How wide the widest label is, within reason.
pub(super) fn label_room<'a>(labels: impl Iterator<Item = &'a str>) -> f64 {
    let longest = labels.map(|label| label.chars().count()).max().unwrap_or(0);
    (longest as f64 * CHARACTER + 26.0).clamp(90.0, 270.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_measured_is_no_chart() {
        assert_eq!(lines(&Lines::default()), None);
    }

    #[test]
    fn one_point_and_figures_that_are_none_are_drawn() {
        let chart = lines(&Lines {
            logarithmic: true,
            series: vec![Series {
                label: "a".to_owned(),
                stretches: vec![vec![(4.0, 1.0), (8.0, f64::NAN)]],
                marks: true,
                ..Series::default()
            }],
            shades: vec![Shade {
                label: "kill n1".to_owned(),
                from: 0.0,
                to: None,
            }],
            ..Lines::default()
        })
        .expect("a point");
        assert!(!chart.document().contains("NaN"));
        assert!(chart.document().contains("kill n1"));
    }
}
