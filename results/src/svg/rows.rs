//! Charts of level rows with a name at their left: bars, dots of quantiles, and bars made of pieces.

use super::axis::Axis;
use super::canvas::{self, CHARACTER, Canvas};
use super::lines::color;
use super::{Chart, WIDTH};
use crate::run::{Estimate, Quantiles};
use crate::units;

/// One row.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Row<T> {
    /// What it is, e.g. the subject.
    pub label: String,
    /// Where it was measured, in smaller letters.
    pub detail: String,
    /// What is drawn; `None`: there is no figure, and `note` says why.
    pub of: Option<T>,
    /// What stands in the place of a figure, or behind the pieces of a whole.
    pub note: String,
}

/// The parts of a whole, from the left: name and size.
pub type Pieces = Vec<(String, f64)>;

/// Where rows begin: left of it are their names.
const LEFT: f64 = 250.0;
/// The height of a row.
const ROW: f64 = 38.0;

/// Draws each row below `top`, by `draw` at its own top, which also says it in words; `note` is where a row without a figure says why. All
/// of them in a sentence, for those who cannot see the chart.
fn each<T>(
    canvas: &mut Canvas,
    top: f64,
    note: f64,
    rows: &[Row<T>],
    mut draw: impl FnMut(&mut Canvas, f64, &Row<T>, &T) -> String,
) -> String {
    let mut said = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        let y = top + ROW * index as f64;
        let names = [
            ("c-end", 14.0, &row.label),
            ("c-muted c-end", 29.0, &row.detail),
        ];
        for (class, below, text) in names {
            let text = canvas::fit(text, LEFT - 16.0);
            canvas.text(class, (LEFT - 12.0, y + below), &text);
        }
        let words = match &row.of {
            Some(of) => draw(canvas, y, row, of),
            None => {
                canvas.text("c-bad", (note, y + 21.0), &row.note);
                row.note.clone()
            }
        };
        said.push(format!("{} {}: {words}", row.label, row.detail));
    }
    said.join("; ")
}

/// Bars that begin at zero, with `unit` below their axis.
pub fn bars(title: &str, unit: &str, rows: &[Row<Estimate>]) -> Chart {
    const RIGHT: f64 = 110.0;
    let bottom = 8.0 + ROW * rows.len() as f64;
    let known = rows.iter().filter_map(|row| row.of);
    let ends = known.flat_map(|bar| [Some(bar.median), bar.high]).flatten();
    let axis = Axis::from_zero(ends, (LEFT, WIDTH - RIGHT));
    let mut canvas = Canvas::default();
    axis.draw_below(&mut canvas, 4.0, bottom, units::figure);
    axis.name_below(&mut canvas, bottom, unit);
    let said = each(&mut canvas, 8.0, LEFT + 8.0, rows, |canvas, y, row, bar| {
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

/// Dots for p50, p90 and p99 on one logarithmic axis of time: the median, and how far the slow ones are from it.
pub fn dots(title: &str, rows: &[Row<Quantiles>]) -> Chart {
    const TOP: f64 = 30.0;
    const RIGHT: f64 = 40.0;
    let bottom = TOP + 4.0 + ROW * rows.len() as f64;
    let known = rows.iter().filter_map(|row| row.of);
    let values = known.flat_map(|row| [row.p50, row.p90, row.p99]).flatten();
    let axis = Axis::log(values.map(|ns| ns as f64), (LEFT + 10.0, WIDTH - RIGHT));
    let mut canvas = Canvas::default();
    for (name, x) in [("p50", 16.0), ("p90", 76.0), ("p99", 136.0)] {
        dot(&mut canvas, name, (LEFT + x, 10.0), name);
        canvas.text("c-muted", (LEFT + x + 12.0, 14.0), name);
    }
    axis.draw_below(&mut canvas, TOP, bottom, |ns| {
        units::duration(ns.round() as u64)
    });
    let said = each(
        &mut canvas,
        TOP + 4.0,
        LEFT + 18.0,
        rows,
        |canvas, y, row, of| {
            let at = |ns: u64| (axis.at(ns as f64), y + 17.0);
            if let Some((from, to)) = of.p50.zip(of.p99.or(of.p90)) {
                canvas.line("c-range", at(from), at(to));
            }
            for (name, ns) in [("p99", of.p99), ("p90", of.p90), ("p50", of.p50)] {
                if let Some(ns) = ns {
                    let (label, detail) = (&row.label, &row.detail);
                    let tip = format!("{label} {detail}: {name} {}", units::duration(ns));
                    dot(canvas, name, at(ns), &tip);
                }
            }
            let time = |ns: Option<u64>| ns.map_or("not known".to_owned(), units::duration);
            format!("p50 {}, p99 {}", time(of.p50), time(of.p99))
        },
    );
    let described = format!("Logarithmic axis. {said}.");
    Chart::new(title, described, bottom + 26.0, canvas)
}

fn dot(canvas: &mut Canvas, name: &str, at: (f64, f64), tip: &str) {
    match name {
        "p50" => canvas.circle("c-1", at, 5.5, tip),
        "p90" => canvas.circle("c-hollow", at, 4.0, tip),
        _ => canvas.diamond("c-2", at, 5.0, tip),
    }
}

/// Bars made of pieces, with `unit` below their axis. With `whole` every bar is as long as the axis, and its pieces are shares; the names of
/// pieces then differ from bar to bar and show on pointing, else they stand in a legend. `None` without a bar that has a piece.
pub fn stacked(title: &str, unit: &str, whole: bool, mut rows: Vec<Row<Pieces>>) -> Option<Chart> {
    const RIGHT: f64 = 190.0;
    let good = |size: f64| size.is_finite() && size > 0.0;
    let sum = |pieces: &Pieces| -> f64 {
        let sizes = pieces.iter().map(|(_, size)| *size);
        sizes.filter(|size| good(*size)).sum()
    };
    rows.retain(|row| row.of.as_ref().is_some_and(|pieces| sum(pieces) > 0.0));
    // The names of the longest bar's pieces: all bars have the same, in the same order.
    let pieces = || rows.iter().flat_map(|row| &row.of);
    let names = pieces().max_by_key(|pieces| pieces.len())?;
    let top = if whole { 8.0 } else { 32.0 };
    let bottom = top + ROW * rows.len() as f64;
    let pixels = (LEFT, WIDTH - RIGHT);
    let axis = match whole {
        true => Axis::exact(0.0, 100.0, pixels),
        false => Axis::from_zero(pieces().map(sum), pixels),
    };
    let mut canvas = Canvas::default();
    axis.draw_below(&mut canvas, top - 4.0, bottom, units::figure);
    axis.name_below(&mut canvas, bottom, unit);
    let mut x = LEFT;
    for (index, (name, _)) in names.iter().enumerate().filter(|_| !whole) {
        canvas.rect(&format!("c-{}", color(index)), (x, 4.0), (12.0, 12.0), "");
        canvas.text("c-muted", (x + 18.0, 14.0), name);
        x += 34.0 + name.chars().count() as f64 * CHARACTER;
    }
    let said = each(
        &mut canvas,
        top,
        LEFT + 8.0,
        &rows,
        |canvas, y, row, pieces| {
            let scale = if whole { 100.0 / sum(pieces) } else { 1.0 };
            let mut done = 0.0;
            for (index, (name, size)) in pieces.iter().enumerate() {
                if !good(*size) {
                    continue;
                }
                let (from, to) = (axis.at(done), axis.at(done + size * scale));
                done += size * scale;
                let (figure, label) = (units::figure(*size), &row.label);
                let tip = match whole {
                    true => format!("{name}: {figure} ({} %)", units::figure(size * scale)),
                    false => format!("{label}: {name} {figure} {unit}"),
                };
                // A hair of paper between neighbours, so that equal colours stay apart.
                let gap = if to - from > 3.0 { 1.0 } else { 0.0 };
                let class = format!("c-{}", color(index));
                canvas.rect(&class, (from, y + 8.0), (to - from - gap, 18.0), &tip);
            }
            let note = canvas::fit(&row.note, RIGHT - 10.0);
            canvas.text("c-strong", (axis.at(done) + 8.0, y + 21.0), &note);
            let words = pieces.iter();
            let words = words.map(|(name, size)| format!("{name} {}", units::figure(*size)));
            format!("{}, {}", words.collect::<Vec<_>>().join(", "), row.note)
        },
    );
    let described = format!("{unit}. {said}.");
    Some(Chart::new(title, described, bottom + 44.0, canvas))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(pieces: [(&str, f64); 2]) -> Vec<Row<Pieces>> {
        let pieces = pieces.map(|(name, size)| (name.to_owned(), size));
        vec![Row {
            of: Some(pieces.to_vec()),
            ..Row::default()
        }]
    }

    #[test]
    fn pieces_of_nothing_are_no_bar() {
        let empty = row([("a", 0.0), ("b", f64::NAN)]);
        assert_eq!(stacked("t", "u", true, empty), None);
    }

    #[test]
    fn shares_fill_the_whole_axis() {
        let chart = stacked("t", "u", true, row([("a", 1.0), ("b", 3.0)]));
        let text = chart.expect("a bar").document();
        assert!(text.contains("b: 3 (75 %)"), "{text}");
    }
}
