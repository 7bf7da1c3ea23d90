//! A decision as text: each condition, and which part failed or is unknown and why.

use super::TextOptions;
use super::text_layout::{GREEN, RED, YELLOW, finish, paint};
use crate::gate::{ConditionPart, Decision, Outcome};
use crate::report::cells::printable;
use crate::wording::units::enclosed;

/// The decision, for a terminal.
pub fn decision(decision: &Decision, options: TextOptions) -> String {
    let mut out = String::new();
    for judged in &decision.conditions {
        let kept = |part: &&ConditionPart| part.outcome == Outcome::Passed;
        let (kept, all) = (judged.parts.iter().filter(kept).count(), judged.parts.len());
        let why = match judged.why.as_str() {
            "" => format!("{kept} of {all} keep it"),
            why => why.to_owned(),
        };
        out += &format!("{}  ({why})\n", mark(judged.outcome, &judged.condition));
        let listed = |part: &&ConditionPart| part.outcome != Outcome::Passed || !part.why.is_empty();
        for part in judged.parts.iter().filter(listed) {
            let (place, found, bound) = (&part.r#where, &part.found, &part.bound);
            let why = enclosed("; ", &part.why, "");
            out += &format!("    {}\n", mark(part.outcome, &format!("{place}: {found}, bound {bound}{why}")));
        }
    }
    let against = enclosed(" against ", decision.base.as_deref().unwrap_or_default(), "");
    let (outcome, run) = (decision.outcome.word(), &decision.run);
    out += &(mark(decision.outcome, &format!("gate {outcome}: {run}{against}")) + "\n");
    finish(&out, options.color)
}

fn mark(outcome: Outcome, text: &str) -> String {
    let color = match outcome {
        Outcome::Passed => GREEN,
        Outcome::Unknown => YELLOW,
        Outcome::Failed => RED,
    };
    let glyph = paint(color, &outcome.glyph().to_string());
    format!("{glyph} {}", printable(text))
}
