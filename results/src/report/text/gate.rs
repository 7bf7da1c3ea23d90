//! A decision as text: each condition, and which part failed or is unknown and why.

use super::TextOptions;
use super::paper::{GREEN, RED, YELLOW, finish, paint};
use crate::gate::{Decision, Outcome};
use crate::report::cells::printable;

/// The decision, for a terminal.
pub fn decision(decision: &Decision, options: TextOptions) -> String {
    let mut out = String::new();
    for judged in &decision.conditions {
        out.push_str(&mark(judged.outcome, &judged.condition));
        if judged.why.is_empty() {
            let kept = judged
                .parts
                .iter()
                .filter(|part| part.outcome == Outcome::Passed);
            out.push_str(&format!(
                "  ({} of {} keep it)",
                kept.count(),
                judged.parts.len()
            ));
        } else {
            out.push_str(&format!("  ({})", judged.why));
        }
        out.push('\n');
        for part in &judged.parts {
            if part.outcome == Outcome::Passed && part.why.is_empty() {
                continue;
            }
            let why = if part.why.is_empty() {
                String::new()
            } else {
                format!("; {}", part.why)
            };
            let line = format!(
                "{}: {}, bound {}{why}",
                part.r#where, part.found, part.bound
            );
            out.push_str(&format!("    {}\n", mark(part.outcome, &line)));
        }
    }
    let base = decision.base.as_ref();
    let against = base.map_or(String::new(), |base| format!(" against {base}"));
    let line = format!(
        "gate {}: {}{against}",
        decision.outcome.word(),
        decision.run
    );
    out.push_str(&mark(decision.outcome, &line));
    out.push('\n');
    finish(&out, options.color)
}

fn mark(outcome: Outcome, text: &str) -> String {
    let color = match outcome {
        Outcome::Passed => GREEN,
        Outcome::Unknown => YELLOW,
        Outcome::Failed => RED,
    };
    format!(
        "{} {}",
        paint(color, &outcome.glyph().to_string()),
        printable(text)
    )
}
