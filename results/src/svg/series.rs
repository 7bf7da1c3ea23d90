//! What charts of curves share: a colour and a pattern of dashes for each, and labels at their right ends that do not touch.

use super::canvas::{self, CHARACTER, Canvas};

/// So many curves can be distinguished by colour.
pub(crate) const COLORS: usize = 6;
/// Two labels nearer than this would touch.
const LINE: f64 = 15.0;

/// The number of a curve's colour. Beyond the sixth the dashes differ.
pub(crate) fn color(index: usize) -> usize {
    index % COLORS + 1
}

/// The class of a curve: its colour, and dashes that tell it from the others without colour.
pub(crate) fn line_class(index: usize) -> String {
    let dash = match (index + index / COLORS) % 3 {
        1 => " c-dash",
        2 => " c-dot",
        _ => "",
    };
    format!("c-line c-line-{}{dash}", color(index))
}

/// Puts each label at its height, or below the one above it, between `top` and `bottom`, with a thin line where it had to move.
pub(crate) fn end_labels(canvas: &mut Canvas, x: f64, top: f64, ends: &[(usize, f64, &str)]) {
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
            &canvas::fit(label, super::WIDTH - x - 13.0),
        );
    }
}

/// How wide the widest label is, within reason.
pub(crate) fn label_room<'a>(labels: impl Iterator<Item = &'a str>) -> f64 {
    let longest = labels.map(|label| label.chars().count()).max().unwrap_or(0);
    (longest as f64 * CHARACTER + 26.0).clamp(90.0, 270.0)
}
