//! A watch on one screen: the answer first and last, the busiest locks, the gravest findings.

use super::text_layout::{GREY, columns, finish, paint, tone_color, warning, wrap};
use super::{TextOptions, headline};
use crate::record::run::Run;
use crate::record::watch::{Certainty, WatchFinding, WatchReport};
use crate::report::cells::printable;
use crate::report::sections::watch::{COLUMNS, frequency, left, maker, tone, watched};

/// So many locks, holders and findings are shown; of the others the number is said.
const LOCKS_MAX: usize = 8;
const FINDINGS_MAX: usize = 5;
/// So many columns of the locks fit.
const COLUMNS_MAX: usize = 10;
/// Lines of an example.
const LINES_MAX: usize = 3;

pub(super) fn screen(run: &Run, watch: &WatchReport, options: TextOptions, page: &str) -> String {
    let width = usize::from(options.width.max(40));
    let mut lines = vec![headline(run, true).trim_end().to_owned()];
    lines.extend(run.warnings.iter().take(3).map(|text| warning(text).trim_end().to_owned()));
    lines.extend(watched(watch).iter().map(|line| paint(GREY, &printable(line))));
    let further = |count: usize, max: usize, what: &str| {
        (count > max).then(|| format!("{} more {what} on the page", count - max))
    };
    if !watch.locks.is_empty() {
        lines.push(String::new());
        let columns_shown = &COLUMNS[..COLUMNS_MAX];
        let mut rows = vec![columns_shown.iter().map(|(head, _)| (*head).to_owned()).collect()];
        rows.extend(watch.locks.iter().take(LOCKS_MAX).map(|lock| {
            let mut cells: Vec<String> = columns_shown.iter().map(|(_, cell)| cell(lock)).collect();
            // The widest columns are words.
            for cell in &mut cells[..2] {
                if cell.chars().count() > 26 {
                    *cell = cell.chars().take(25).chain(['…']).collect();
                }
                *cell = printable(cell);
            }
            cells
        }));
        lines.extend(columns(&rows, 2..COLUMNS_MAX - 1));
        lines.extend(further(watch.locks.len(), LOCKS_MAX, "patterns"));
    }
    if !watch.holders.is_empty() {
        lines.push(String::new());
        let mut rows = vec![["held", "owner", "left", "by"].map(str::to_owned).to_vec()];
        rows.extend(watch.holders.iter().take(2 * LOCKS_MAX).map(|one| {
            let made = maker(&one.library, &one.recipe).to_owned();
            vec![printable(&one.place()), printable(&one.owner), left(one), made]
        }));
        lines.extend(columns(&rows, 0..0));
        lines.extend(further(watch.holders.len(), 2 * LOCKS_MAX, "holders"));
    }
    for finding in watch.findings.iter().take(FINDINGS_MAX) {
        lines.push(String::new());
        lines.extend(of_finding(finding));
    }
    lines.extend(further(watch.findings.len(), FINDINGS_MAX, "findings"));
    if !watch.perhaps.is_empty() {
        let names = watch.perhaps.iter().take(3).map(|one| printable(&one.pattern));
        let names = names.collect::<Vec<_>>().join(", ");
        lines.push(String::new());
        lines.push(format!(
            "perhaps locks, on the page: {} ({names}{})",
            watch.perhaps.len(),
            if watch.perhaps.len() > 3 { ", …" } else { "" }
        ));
    }
    lines.push(String::new());
    lines.extend((!page.is_empty()).then(|| format!("page: {page}")));
    lines.push(headline(run, true).trim_end().to_owned());
    let wrapped = lines.iter().map(|line| match line.starts_with("page: ") {
        true => line.clone(),
        false => wrap(line, width, 8),
    });
    finish(&(wrapped.collect::<Vec<_>>().join("\n") + "\n"), options.color)
}

fn of_finding(finding: &WatchFinding) -> Vec<String> {
    let mark = match finding.certainty {
        Certainty::Violated => "✗✗",
        Certainty::Sure => "✗",
        Certainty::Likely => "?",
    };
    let head = format!("{mark} {} {}", finding.kind, finding.certainty.word());
    let head = paint(tone_color(tone(finding.certainty)), &head);
    let mut lines = vec![format!("{head}  {}  {}", printable(&finding.pattern), frequency(finding))];
    let shown = finding.first.len().saturating_sub(LINES_MAX);
    lines.extend(finding.first[shown..].iter().map(|line| paint(GREY, &format!("    {}", printable(line)))));
    lines.push(format!("    {}", finding.remedy));
    lines
}
