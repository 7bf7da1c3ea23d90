//! A conviction as a sequence diagram: a column per participant, time downwards, a row per step.

use super::canvas::{self, CHARACTER, Canvas};
use super::{Chart, WIDTH};
use crate::record::sequence::{Sequence, StepKind};
use crate::wording::units;

const LEFT: f64 = 76.0;
const TOP: f64 = 34.0;
const ROW: f64 = 32.0;

/// The diagram. Rows are in order of time and equally apart: the time of each stands at its left.
pub fn sequence(data: &Sequence) -> Chart {
    let share = (WIDTH - LEFT) / data.columns.len().max(1) as f64;
    let x = |column: usize| LEFT + share * (column as f64 + 0.5);
    let bottom = TOP + ROW * data.steps.len() as f64 + 14.0;
    let mut canvas = Canvas::default();
    let columns = data.columns.iter().enumerate();
    let names = columns.map(|(index, column)| ((x(index), 16.0), canvas::fit(column, share)));
    canvas.texts("c-strong c-mid", &names.collect::<Vec<_>>());
    let lines = (0..data.columns.len()).map(|index| [(x(index), 24.0), (x(index), bottom)]);
    canvas.lines("c-axis", &lines.collect::<Vec<_>>());
    let (mut described, mut times) = (Vec::new(), Vec::new());
    for (index, step) in data.steps.iter().enumerate() {
        let y = TOP + ROW * (index as f64 + 1.0) - 8.0;
        let time = units::instant(step.t_ns);
        let (from, to) = (x(step.between.0), x(step.between.1));
        match step.kind {
            StepKind::Command | StepKind::Answer => {
                let class = match step.kind {
                    StepKind::Command => "c-whisker",
                    _ => "c-whisker c-dash",
                };
                canvas.arrow(class, (from, y), (to, y));
                let (shown, begin, _) = placed(from.min(to), &step.words);
                canvas.text("c-halo", (begin, y - 5.0), &shown);
            }
            StepKind::Note | StepKind::Violation => {
                let class = match step.kind {
                    StepKind::Note => "c-note",
                    _ => "c-over",
                };
                let (shown, begin, width) = placed(from.min(to) - 8.0, &step.words);
                let (left, right) = (from.min(to).min(begin), from.max(to).max(begin + width));
                let size = (right - left + 16.0, 22.0);
                let tip = if shown == step.words { "" } else { &step.words };
                canvas.rect(class, (left - 8.0, y - 16.0), size, tip);
                canvas.text("", (begin, y - 1.0), &shown);
            }
        }
        described.push(format!("{time} {}", step.words));
        times.push(((LEFT - 8.0, y), time));
    }
    canvas.texts("c-muted c-end", &times);
    if data.omitted > 0 {
        let words = format!("{} further steps are not drawn", data.omitted);
        canvas.text("c-muted", (LEFT, bottom + 14.0), &words);
    }
    Chart::new(&data.title, described.join("; "), bottom + 22.0, canvas)
}

/// Words as they fit, where they begin so as to end before the right edge, and how wide they are.
fn placed(x: f64, words: &str) -> (String, f64, f64) {
    let shown = canvas::fit(words, WIDTH - LEFT - 24.0);
    let width = shown.chars().count() as f64 * CHARACTER;
    (shown, (x + 8.0).min(WIDTH - 10.0 - width).max(LEFT + 8.0), width)
}
