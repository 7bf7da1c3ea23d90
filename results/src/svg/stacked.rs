//! Level bars made of pieces, the parts of a whole: shares of grants, or what a cycle costs and where.

use super::axis::Axis;
use super::canvas::{self, CHARACTER, Canvas};
use super::rows::{self, LEFT, ROW};
use super::{Chart, WIDTH};
use crate::units;

/// One bar.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Stack {
    /// What it is, e.g. the subject.
    pub label: String,
    /// Where it was measured, in smaller letters.
    pub detail: String,
    /// Its pieces, from the left: name and size.
    pub pieces: Vec<(String, f64)>,
    /// What stands behind its end.
    pub note: String,
}

const RIGHT: f64 = 190.0;

/// A chart of bars with `unit` below its axis. With `whole` every bar is as long as the axis, and its pieces are shares; the names of
/// pieces then differ from bar to bar and show on pointing, else they stand in a legend. `None` without a bar that has a piece.
pub fn stacked(title: &str, unit: &str, whole: bool, stacks: &[Stack]) -> Option<Chart> {
    let sum = |stack: &Stack| -> f64 {
        let sizes = stack.pieces.iter().map(|(_, size)| *size);
        sizes.filter(|size| size.is_finite() && *size > 0.0).sum()
    };
    let stacks: Vec<&Stack> = stacks.iter().filter(|stack| sum(stack) > 0.0).collect();
    let longest = stacks.iter().map(|stack| sum(stack)).fold(0.0, f64::max);
    if stacks.is_empty() {
        return None;
    }
    let top = if whole { 8.0 } else { 32.0 };
    let bottom = top + ROW * stacks.len() as f64;
    let pixels = (LEFT, WIDTH - RIGHT);
    let axis = if whole {
        Axis::exact(0.0, 100.0, pixels)
    } else {
        Axis::from_zero([longest].into_iter(), pixels)
    };
    let mut canvas = Canvas::default();
    axis.draw_below(&mut canvas, top - 4.0, bottom, units::figure);
    axis.name_below(&mut canvas, bottom, unit);
    if !whole {
        legend(&mut canvas, &stacks);
    }
    for (row, stack) in stacks.iter().enumerate() {
        let y = top + ROW * row as f64;
        rows::name(&mut canvas, y, &stack.label, &stack.detail);
        let scale = if whole { 100.0 / sum(stack) } else { 1.0 };
        let mut done = 0.0;
        for (index, (name, size)) in stack.pieces.iter().enumerate() {
            if !size.is_finite() || *size <= 0.0 {
                continue;
            }
            let (from, to) = (axis.at(done), axis.at(done + size * scale));
            done += size * scale;
            let tip = if whole {
                format!(
                    "{name}: {} ({} %)",
                    units::figure(*size),
                    units::figure(size * scale)
                )
            } else {
                format!("{}: {name} {} {unit}", stack.label, units::figure(*size))
            };
            // A hair of paper between neighbours, so that equal colours stay apart.
            let gap = if to - from > 3.0 { 1.0 } else { 0.0 };
            canvas.rect(
                &format!("c-{}", index % 6 + 1),
                (from, y + 8.0),
                (to - from - gap, 18.0),
                &tip,
            );
        }
        canvas.text(
            "c-strong",
            (axis.at(done) + 8.0, y + 21.0),
            &canvas::fit(&stack.note, RIGHT - 10.0),
        );
    }
    let words = stacks.iter().map(|stack| {
        let pieces = stack.pieces.iter();
        let pieces = pieces.map(|(name, size)| format!("{name} {}", units::figure(*size)));
        let pieces: Vec<String> = pieces.collect();
        format!(
            "{} {}: {}, {}",
            stack.label,
            stack.detail,
            pieces.join(", "),
            stack.note
        )
    });
    let described = format!("{unit}. {}.", rows::sentence(words));
    Some(Chart::new(title, described, bottom + 44.0, canvas))
}

/// The names of the longest bar's pieces: all bars have the same, in the same order.
fn legend(canvas: &mut Canvas, stacks: &[&Stack]) {
    let Some(stack) = stacks.iter().max_by_key(|stack| stack.pieces.len()) else {
        return;
    };
    let mut x = LEFT;
    for (index, (name, _)) in stack.pieces.iter().enumerate() {
        canvas.rect(&format!("c-{}", index % 6 + 1), (x, 4.0), (12.0, 12.0), "");
        canvas.text("c-muted", (x + 18.0, 14.0), name);
        x += 34.0 + name.chars().count() as f64 * CHARACTER;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_nothing_are_no_bar() {
        let empty = Stack {
            pieces: vec![("a".to_owned(), 0.0), ("b".to_owned(), f64::NAN)],
            ..Stack::default()
        };
        assert_eq!(stacked("t", "u", true, &[empty]), None);
    }

    #[test]
    fn shares_fill_the_whole_axis() {
        let stack = Stack {
            pieces: vec![("a".to_owned(), 1.0), ("b".to_owned(), 3.0)],
            ..Stack::default()
        };
        let text = stacked("t", "u", true, &[stack]).expect("a bar").document();
        assert!(text.contains("b: 3 (75 %)"), "{text}");
    }
}
