//! Turns figures with intervals into level bars that begin at zero.

use super::axis::Axis;
use super::canvas::{self, Canvas};
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

const LEFT: f64 = 250.0;
const RIGHT: f64 = 110.0;
const ROW: f64 = 38.0;

/// A chart of bars with `unit` below its axis.
pub fn bars(title: &str, unit: &str, bars: &[Bar]) -> Chart {
    let bottom = 8.0 + ROW * bars.len() as f64;
    let axis = Axis::from_zero(
        bars.iter().flat_map(|bar| {
            bar.value
                .into_iter()
                .chain(bar.interval.map(|(_, high)| high))
        }),
        (LEFT, WIDTH - RIGHT),
    );
    let mut canvas = Canvas::default();
    axis.draw_below(&mut canvas, 4.0, bottom, units::figure);
    canvas.text(
        "c-muted c-mid",
        ((LEFT + WIDTH - RIGHT) / 2.0, bottom + 36.0),
        unit,
    );
    for (index, bar) in bars.iter().enumerate() {
        let y = 8.0 + ROW * index as f64;
        canvas.text(
            "c-end",
            (LEFT - 12.0, y + 14.0),
            &canvas::fit(&bar.label, LEFT - 16.0),
        );
        canvas.text(
            "c-muted c-end",
            (LEFT - 12.0, y + 29.0),
            &canvas::fit(&bar.detail, LEFT - 16.0),
        );
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
            canvas.line("c-whisker", (x1, middle - 4.0), (x1, middle + 4.0));
            canvas.line("c-whisker", (x2, middle - 4.0), (x2, middle + 4.0));
            end = end.max(x2);
        }
        canvas.text("c-strong", (end + 8.0, y + 21.0), &units::figure(value));
    }
    let described: Vec<String> = bars
        .iter()
        .map(|bar| match bar.value {
            Some(value) => format!("{} {}: {}", bar.label, bar.detail, units::figure(value)),
            None => format!("{} {}: {}", bar.label, bar.detail, bar.note),
        })
        .collect();
    Chart {
        width: WIDTH,
        height: bottom + 44.0,
        title: title.to_owned(),
        description: format!("{unit}. {}.", described.join("; ")),
        body: canvas.finish(),
    }
}
