//! Level bars that begin at zero: figures with intervals.

use super::axis::Axis;
use super::canvas::Canvas;
use super::rows::{self, LEFT, ROW};
use super::{Chart, WIDTH};
use crate::units;

/// One bar.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Bar {
    /// What it is, e.g. the subject.
    pub label: String,
    /// Where it was measured, in smaller letters.
    pub detail: String,
    /// Its length; `None`: there is no figure, and `note` says why.
    pub value: Option<f64>,
    /// Its interval.
    pub interval: Option<(f64, f64)>,
    /// What stands in the place of a figure.
    pub note: String,
}

const RIGHT: f64 = 110.0;

/// A chart of bars with `unit` below its axis.
pub fn bars(title: &str, unit: &str, bars: &[Bar]) -> Chart {
    let bottom = 8.0 + ROW * bars.len() as f64;
    let highs = bars
        .iter()
        .flat_map(|bar| bar.interval.map(|(_, high)| high));
    let ends = bars.iter().filter_map(|bar| bar.value).chain(highs);
    let axis = Axis::from_zero(ends, (LEFT, WIDTH - RIGHT));
    let mut canvas = Canvas::default();
    axis.draw_below(&mut canvas, 4.0, bottom, units::figure);
    axis.name_below(&mut canvas, bottom, unit);
    for (index, bar) in bars.iter().enumerate() {
        let y = 8.0 + ROW * index as f64;
        rows::name(&mut canvas, y, &bar.label, &bar.detail);
        let Some(value) = bar.value.filter(|value| value.is_finite()) else {
            canvas.text("c-bad", (LEFT + 8.0, y + 21.0), &bar.note);
            continue;
        };
        let tip = format!(
            "{} {}: {} {unit}",
            bar.label,
            bar.detail,
            units::figure(value)
        );
        canvas.rect("c-1", (LEFT, y + 8.0), (axis.at(value) - LEFT, 18.0), &tip);
        let mut end = axis.at(value);
        if let Some((low, high)) = bar.interval {
            let (x1, x2, middle) = (axis.at(low), axis.at(high), y + 17.0);
            canvas.line("c-whisker", (x1, middle), (x2, middle));
            for x in [x1, x2] {
                canvas.line("c-whisker", (x, middle - 4.0), (x, middle + 4.0));
            }
            end = end.max(x2);
        }
        canvas.text("c-strong", (end + 8.0, y + 21.0), &units::figure(value));
    }
    let words = bars.iter().map(|bar| {
        let words = bar.value.map_or(bar.note.clone(), units::figure);
        format!("{} {}: {words}", bar.label, bar.detail)
    });
    let described = format!("{unit}. {}.", rows::sentence(words));
    Chart::new(title, described, bottom + 44.0, canvas)
}
