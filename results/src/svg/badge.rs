//! The badge of an audit: what came out, in the size of a word, for a README.

use super::canvas::escape;
use crate::audit::{Audit, AuditOutcome};

/// The height of a badge in pixels, as others have it.
const HEIGHT: u32 = 20;

/// What came out, as a file of its own. Of several locks the counts of all.
pub fn badge(audit: &Audit) -> String {
    let score = audit.score();
    let (colour, outcome) = match score.worst() {
        Some(AuditOutcome::Broken) => ("#ad2418", AuditOutcome::Broken),
        None | Some(AuditOutcome::Unknown) => ("#775400", AuditOutcome::Unknown),
        Some(_) => ("#00674e", AuditOutcome::Kept),
    };
    let label = "locklab audit";
    let (kept, many) = (score.kept, score.of(outcome));
    let words = match outcome {
        AuditOutcome::Kept => format!("{kept} kept, 0 broken"),
        _ => format!("{kept} kept, {many} {}", outcome.word()),
    };
    // No font can be asked: a letter is about so wide, and the text is fitted to its box.
    let width = |text: &str| 7 * u32::try_from(text.chars().count()).unwrap_or(0) + 10;
    let (left, right) = (width(label), width(&words));
    let text = |text: &str, from: u32, width: u32| {
        format!(
            "<text x=\"{}\" y=\"14\" text-anchor=\"middle\" textLength=\"{}\">{}</text>",
            from + width / 2,
            width - 10,
            escape(text)
        )
    };
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{all}\" height=\"{HEIGHT}\" role=\"img\" aria-label=\"{title}\"><title>{title}</title>\
         <rect width=\"{all}\" height=\"{HEIGHT}\" rx=\"3\" fill=\"#2b343e\"/><path d=\"M{left} 0h{body}a3 3 0 0 1 3 3v14a3 3 0 0 1 -3 3h-{body}z\" fill=\"{colour}\"/>\
         <g fill=\"#ffffff\" font-family=\"Verdana, 'DejaVu Sans', sans-serif\" font-size=\"11\">{}{}</g></svg>\n",
        text(label, 0, left),
        text(&words, left, right),
        all = left + right,
        body = right - 3,
        title = escape(&format!("{label}: {words}")),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::{AuditedScenario, AuditedSubject};

    #[test]
    fn a_badge_says_the_worst_and_never_passes_what_is_unknown() {
        let of = |outcomes: &[AuditOutcome]| {
            let scenarios = outcomes.iter().map(|outcome| AuditedScenario {
                outcome: *outcome,
                ..AuditedScenario::default()
            });
            let subject = AuditedSubject {
                scenarios: scenarios.collect(),
                ..AuditedSubject::default()
            };
            badge(&Audit {
                subjects: vec![subject],
                ..Audit::default()
            })
        };
        use AuditOutcome::{Broken, Inherent, Kept, Unknown};
        assert!(of(&[Kept, Inherent]).contains("1 kept, 0 broken"));
        assert!(of(&[Kept, Unknown]).contains("1 kept, 1 unknown"));
        assert!(of(&[Kept, Unknown, Broken]).contains("1 kept, 1 broken"));
        assert!(of(&[]).contains("0 kept, 0 unknown"));
    }
}
