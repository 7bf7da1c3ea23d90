//! A chart of lines: series over time or over a rising level, with spans shaded behind them.

use super::axis::Axis;
use super::canvas::{self, CHARACTER, Canvas};
use super::series::{color, end_labels, label_room, line_class};
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
    let points = || {
        data.series
            .iter()
            .flat_map(|series| series.stretches.iter().flatten().copied())
    };
    let finite = |value: &f64| value.is_finite();
    let xs = || points().map(|(x, _)| x).filter(finite);
    let (min, max) = range(xs());
    if min > max {
        return None;
    }
    let several = data.series.len() > 1;
    let right = if several {
        WIDTH - label_room(data.series.iter().map(|series| series.label.as_str()))
    } else {
        WIDTH - 24.0
    };
    let top = if data.shades.is_empty() {
        26.0
    } else {
        26.0 + SHADE_LINE * SHADE_LINES as f64
    };
    let bottom = top + HEIGHT;
    let across = if data.logarithmic {
        Axis::log_exact(min, if max > min { max } else { min * 2.0 }, (LEFT, right))
    } else {
        Axis::exact(min.min(0.0), max, (LEFT, right))
    };
    let highs = data
        .series
        .iter()
        .flat_map(|series| series.intervals.iter().map(|(_, _, high)| *high));
    let up = Axis::from_zero(points().map(|(_, y)| y).chain(highs), (bottom, top));
    let mut canvas = Canvas::default();
    canvas.text("c-muted", (0.0, 14.0), &data.upright);
    for shade in &data.shades {
        let from = across.at(shade.from.max(min.min(0.0)));
        let to = shade.to.map_or(right, |to| across.at(to));
        canvas.rect(
            "c-fault",
            (from, top),
            ((to - from).max(2.0), HEIGHT),
            &shade.label,
        );
    }
    up.draw_left(&mut canvas, LEFT, right, units::figure);
    if data.logarithmic {
        // Levels are what was measured, not round numbers: they are the ticks.
        let mut levels: Vec<f64> = xs().collect();
        levels.sort_by(f64::total_cmp);
        levels.dedup();
        let mut free = f64::MIN;
        for level in levels {
            let x = across.at(level);
            canvas.line("c-grid", (x, top), (x, bottom));
            let label = units::figure(level);
            if x >= free {
                canvas.text("c-muted c-mid", (x, bottom + 16.0), &label);
                free = x + (label.chars().count() as f64 + 2.0) * CHARACTER;
            }
        }
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
            let line: Vec<(f64, f64)> = stretch
                .iter()
                .filter(|(x, y)| x.is_finite() && y.is_finite())
                .map(|(x, y)| (across.at(*x), up.at(*y)))
                .collect();
            canvas.polyline(&line_class(index), &line, &series.label);
            if series.marks {
                for ((x, y), at) in stretch.iter().zip(&line) {
                    let tip = format!(
                        "{}: {} at {}",
                        series.label,
                        units::figure(*y),
                        units::figure(*x)
                    );
                    canvas.circle(&format!("c-{}", color(index)), *at, 4.0, &tip);
                }
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
        let Some(line) = free
            .iter()
            .position(|free| *free <= x && x + width <= right + 20.0)
        else {
            continue;
        };
        canvas.text("c-muted", (x, 32.0 + SHADE_LINE * line as f64), &label);
        free[line] = x + width + 10.0;
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
        format!(
            "{}: from {} to {}",
            series.label,
            units::figure(least),
            units::figure(most)
        )
    });
    let of_series = of_series.collect::<Vec<_>>().join("; ");
    let shades: Vec<&str> = data.shades.iter().map(|one| one.label.as_str()).collect();
    let shades = shades.join("; ");
    let shaded = if shades.is_empty() {
        String::new()
    } else {
        format!(" Shaded: {shades}.")
    };
    format!(
        "{} over {}. {of_series}.{shaded}",
        data.upright, data.across
    )
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
