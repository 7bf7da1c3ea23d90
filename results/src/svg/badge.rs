//! The badge of an audit: what came out, in the size of a word, for a README.

use super::canvas::escape;
use crate::audit::{Audit, AuditOutcome, AuditedSubject};

const HEIGHT: u32 = 20;

/// What became of the lock, as a file of its own. Of several locks the counts of all.
pub fn badge(audit: &Audit) -> String {
    let score = audit.score();
    let lost: usize = audit.subjects.iter().map(AuditedSubject::lost).sum();
    let (kept, could) = (score.kept, score.kept + score.broken);
    let (colour, words) = match audit.worst() {
        Some(AuditOutcome::Broken) if lost > 0 => ("#ad2418", format!("LOST in {lost} of {could}")),
        Some(AuditOutcome::Broken) if score.broken == 0 => ("#ad2418", "broken in conform".to_owned()),
        Some(AuditOutcome::Broken) => ("#ad2418", format!("{} of {could} broken", score.broken)),
        Some(AuditOutcome::Kept | AuditOutcome::Inherent) => ("#00674e", format!("kept in all of {kept}")),
        _ => ("#775400", format!("{kept} kept, {} unknown", score.unknown)),
    };
    let label = "locklab audit";
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
