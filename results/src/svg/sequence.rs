//! A conviction as a sequence diagram: a column per participant, time downwards, a row per step.

use super::canvas::{self, CHARACTER, Canvas};
use super::{Chart, WIDTH};
use crate::sequence::{Sequence, StepKind};
use crate::units;

const LEFT: f64 = 76.0;
const TOP: f64 = 34.0;
const ROW: f64 = 32.0;

/// The diagram. Rows are in order of time and equally apart: the time of each stands at its left.
pub fn sequence(data: &Sequence) -> Chart {
    let share = (WIDTH - LEFT) / data.columns.len().max(1) as f64;
    let x = |column: usize| LEFT + share * (column as f64 + 0.5);
    let bottom = TOP + ROW * data.steps.len() as f64 + 14.0;
    let mut canvas = Canvas::default();
    for (index, column) in data.columns.iter().enumerate() {
        let name = canvas::fit(column, share);
        canvas.text("c-strong c-mid", (x(index), 16.0), &name);
        canvas.line("c-axis", (x(index), 24.0), (x(index), bottom));
    }
    let mut described = Vec::new();
    for (index, step) in data.steps.iter().enumerate() {
        let y = TOP + ROW * (index as f64 + 1.0) - 8.0;
        let time = units::instant(step.t_ns);
        canvas.text("c-muted c-end", (LEFT - 8.0, y), &time);
        let (from, to) = (x(step.between.0), x(step.between.1));
        match step.kind {
            StepKind::Command | StepKind::Answer => {
                let class = match step.kind {
                    StepKind::Command => "c-whisker",
                    _ => "c-whisker c-dash",
                };
                canvas.line(class, (from, y), (to, y));
                let back = if to > from { -8.0 } else { 8.0 };
                canvas.area(
                    "c-head",
                    &[(to, y), (to + back, y - 4.0), (to + back, y + 4.0)],
                );
                words(&mut canvas, "c-halo", from.min(to), y - 5.0, &step.words);
            }
            StepKind::Note | StepKind::Violation => {
                let class = match step.kind {
                    StepKind::Note => "c-note",
                    _ => "c-over",
                };
                let width = (from - to).abs() + 16.0;
                canvas.rect(
                    class,
                    (from.min(to) - 8.0, y - 17.0),
                    (width, 22.0),
                    &step.words,
                );
                words(
                    &mut canvas,
                    "c-halo c-strong",
                    from.min(to) - 6.0,
                    y,
                    &step.words,
                );
            }
        }
        described.push(format!("{time} {}", step.words));
    }
    if data.omitted > 0 {
        let words = format!("{} further steps are not drawn", data.omitted);
        canvas.text("c-muted", (LEFT, bottom + 14.0), &words);
    }
    Chart::new(&data.title, described.join("; "), bottom + 22.0, canvas)
}

/// Words that begin at a column, or end at the right edge where they would go beyond it.
fn words(canvas: &mut Canvas, class: &str, x: f64, y: f64, words: &str) {
    let words = canvas::fit(words, WIDTH - LEFT);
    let width = words.chars().count() as f64 * CHARACTER;
    let x = (x + 8.0).min(WIDTH - width).max(LEFT);
    canvas.text(class, (x, y), &words);
}
