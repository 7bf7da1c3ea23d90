//! Rows of dots on one logarithmic axis, of quantiles: the median, and how far the slow ones are from it.

use super::axis::Axis;
use super::canvas::Canvas;
use super::rows::{LEFT, ROW, name, sentence};
use super::{Chart, WIDTH};
use crate::run::Quantiles;
use crate::units;

/// One row.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DotRow {
    /// What it is, e.g. the subject.
    pub label: String,
    /// Where it was measured, in smaller letters.
    pub detail: String,
    /// The quantiles; `None`: they are void, and `note` says why.
    pub quantiles: Option<Quantiles>,
    /// What stands in the place of a figure.
    pub note: String,
}

const RIGHT: f64 = 40.0;
const TOP: f64 = 30.0;

/// A chart of p50, p90 and p99 per row, in time.
pub fn dots(title: &str, rows: &[DotRow]) -> Chart {
    let bottom = TOP + 4.0 + ROW * rows.len() as f64;
    let values = rows
        .iter()
        .filter_map(|row| row.quantiles.as_ref())
        .flat_map(|quantiles| [quantiles.p50, quantiles.p90, quantiles.p99])
        .flatten()
        .map(|ns| ns as f64);
    let axis = Axis::log(values, (LEFT + 10.0, WIDTH - RIGHT));
    let mut canvas = Canvas::default();
    legend(&mut canvas);
    axis.draw_below(&mut canvas, TOP, bottom, |ns| {
        units::duration(ns.round() as u64)
    });
    for (index, row) in rows.iter().enumerate() {
        let y = TOP + 4.0 + ROW * index as f64;
        name(&mut canvas, y, &row.label, &row.detail);
        let Some(quantiles) = &row.quantiles else {
            canvas.text("c-bad", (LEFT + 18.0, y + 21.0), &row.note);
            continue;
        };
        let middle = y + 17.0;
        let at = |value: Option<u64>| value.map(|ns| (axis.at(ns as f64), middle));
        if let (Some(from), Some(to)) = (at(quantiles.p50), at(quantiles.p99).or(at(quantiles.p90)))
        {
            canvas.line("c-range", from, to);
        }
        let tip = |name: &str, ns: Option<u64>| {
            format!(
                "{} {}: {name} {}",
                row.label,
                row.detail,
                units::duration(ns.unwrap_or_default())
            )
        };
        if let Some(place) = at(quantiles.p99) {
            canvas.diamond("c-2", place, 5.0, &tip("p99", quantiles.p99));
        }
        if let Some(place) = at(quantiles.p90) {
            canvas.circle("c-hollow", place, 4.0, &tip("p90", quantiles.p90));
        }
        if let Some(place) = at(quantiles.p50) {
            canvas.circle("c-1", place, 5.5, &tip("p50", quantiles.p50));
        }
    }
    let time = |ns: Option<u64>| ns.map_or("not known".to_owned(), units::duration);
    let words = rows.iter().map(|row| {
        let words = row
            .quantiles
            .as_ref()
            .map_or(row.note.clone(), |quantiles| {
                format!("p50 {}, p99 {}", time(quantiles.p50), time(quantiles.p99))
            });
        format!("{} {}: {words}", row.label, row.detail)
    });
    let described = format!("Logarithmic axis. {}.", sentence(words));
    Chart::new(title, described, bottom + 26.0, canvas)
}

fn legend(canvas: &mut Canvas) {
    canvas.circle("c-1", (LEFT + 16.0, 10.0), 5.5, "p50");
    canvas.text("c-muted", (LEFT + 28.0, 14.0), "p50");
    canvas.circle("c-hollow", (LEFT + 76.0, 10.0), 4.0, "p90");
    canvas.text("c-muted", (LEFT + 88.0, 14.0), "p90");
    canvas.diamond("c-2", (LEFT + 136.0, 10.0), 5.0, "p99");
    canvas.text("c-muted", (LEFT + 148.0, 14.0), "p99");
}
