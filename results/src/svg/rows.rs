//! Level rows with a name at their left, as charts of bars and of dots have them.

use super::canvas::{self, Canvas};

/// Where rows begin: left of it are their names.
pub(super) const LEFT: f64 = 250.0;
/// The height of a row.
pub(super) const ROW: f64 = 38.0;

/// What a row is and, in smaller letters, where it was measured; `y` is its top.
pub(super) fn name(canvas: &mut Canvas, y: f64, label: &str, detail: &str) {
    for (class, below, text) in [("c-end", 14.0, label), ("c-muted c-end", 29.0, detail)] {
        canvas.text(
            class,
            (LEFT - 12.0, y + below),
            &canvas::fit(text, LEFT - 16.0),
        );
    }
}

/// What every row says, in one sentence for those who cannot see the chart.
pub(super) fn sentence(rows: impl Iterator<Item = String>) -> String {
    rows.collect::<Vec<_>>().join("; ")
}
