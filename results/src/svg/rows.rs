//! Charts of level rows with a name at their left: bars, and dots of quantiles.

use super::axis::Axis;
use super::canvas::{self, Canvas};
use super::{Chart, WIDTH};
use crate::record::run::{Estimate, Quantiles};
use crate::wording::units;

/// One row.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Row<T> {
    /// What it is, e.g. the subject.
    pub label: String,
    /// Where it was measured, in smaller letters.
    pub detail: String,
    /// What is drawn.
    pub of: T,
}

/// Where rows begin: left of it are their names.
const LEFT: f64 = 250.0;
const ROW: f64 = 38.0;

/// Draws each row below `top` by `draw`, which also says it in words for those who cannot see the chart.
fn each<T>(
    canvas: &mut Canvas,
    top: f64,
    rows: &[Row<T>],
    mut draw: impl FnMut(&mut Canvas, f64, &Row<T>) -> String,
) -> String {
    let mut said = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        let y = top + ROW * index as f64;
        for (class, below, text) in [("c-end", 14.0, &row.label), ("c-muted c-end", 29.0, &row.detail)] {
            canvas.text(class, (LEFT - 12.0, y + below), &canvas::fit(text, LEFT - 16.0));
        }
        let words = draw(canvas, y, row);
        said.push(format!("{} {}: {words}", row.label, row.detail));
    }
    said.join("; ")
}

/// Bars that begin at zero, with `unit` below their axis.
pub fn bars(title: &str, unit: &str, rows: &[Row<Estimate>]) -> Chart {
    const RIGHT: f64 = 110.0;
    let bottom = 8.0 + ROW * rows.len() as f64;
    let ends = rows.iter().map(|row| &row.of).flat_map(|bar| [Some(bar.median), bar.high]).flatten();
    let axis = Axis::from_zero(ends, (LEFT, WIDTH - RIGHT));
    let mut canvas = Canvas::default();
    axis.draw_below(&mut canvas, 4.0, bottom, units::figure);
    axis.name_below(&mut canvas, bottom, unit);
    let said = each(&mut canvas, 8.0, rows, |canvas, y, row| {
        let bar = &row.of;
        let words = units::figure(bar.median);
        let tip = format!("{} {}: {words} {unit}", row.label, row.detail);
        let mut end = axis.at(bar.median);
        canvas.rect("c-1", (LEFT, y + 8.0), (end - LEFT, 18.0), &tip);
        if let Some((low, high)) = bar.low.zip(bar.high) {
            let (x1, x2, middle) = (axis.at(low), axis.at(high), y + 17.0);
            canvas.line("c-whisker", (x1, middle), (x2, middle));
            for x in [x1, x2] {
                canvas.line("c-whisker", (x, middle - 4.0), (x, middle + 4.0));
            }
            end = end.max(x2);
        }
        canvas.text("c-strong", (end + 8.0, y + 21.0), &words);
        words
    });
    Chart::new(title, format!("{unit}. {said}."), bottom + 44.0, canvas)
}

/// Dots for p50, p90 and p99 on one logarithmic axis of time: the median, and how far off the slow ones are.
pub fn dots(title: &str, rows: &[Row<Quantiles>]) -> Chart {
    const TOP: f64 = 30.0;
    const RIGHT: f64 = 40.0;
    let bottom = TOP + 4.0 + ROW * rows.len() as f64;
    let values = rows.iter().map(|row| &row.of).flat_map(|row| [row.p50, row.p90, row.p99]).flatten();
    let axis = Axis::log(values.map(|ns| ns as f64), (LEFT + 10.0, WIDTH - RIGHT));
    let mut canvas = Canvas::default();
    for (name, x) in [("p50", 16.0), ("p90", 76.0), ("p99", 136.0)] {
        dot(&mut canvas, name, (LEFT + x, 10.0), name);
        canvas.text("c-muted", (LEFT + x + 12.0, 14.0), name);
    }
    axis.draw_below(&mut canvas, TOP, bottom, |ns| units::duration(ns.round() as u64));
    let said = each(&mut canvas, TOP + 4.0, rows, |canvas, y, row| {
        let of = &row.of;
        let at = |ns: u64| (axis.at(ns as f64), y + 17.0);
        if let Some((from, to)) = of.p50.zip(of.p99.or(of.p90)) {
            canvas.line("c-range", at(from), at(to));
        }
        for (name, ns) in [("p99", of.p99), ("p90", of.p90), ("p50", of.p50)] {
            if let Some(ns) = ns {
                let (label, detail) = (&row.label, &row.detail);
                dot(canvas, name, at(ns), &format!("{label} {detail}: {name} {}", units::duration(ns)));
            }
        }
        let time = |ns: Option<u64>| ns.map_or("not known".to_owned(), units::duration);
        format!("p50 {}, p99 {}", time(of.p50), time(of.p99))
    });
    Chart::new(title, format!("Logarithmic axis. {said}."), bottom + 26.0, canvas)
}

fn dot(canvas: &mut Canvas, name: &str, at: (f64, f64), tip: &str) {
    match name {
        "p50" => canvas.circle("c-1", at, 5.5, tip),
        "p90" => canvas.circle("c-hollow", at, 4.0, tip),
        _ => canvas.diamond("c-2", at, 5.0, tip),
    }
}
