//! Recovery, fault by fault: how soon the lock worked again and what happened until then.

use super::cells::printable;
use crate::figure::{GRANT_AFTER, OF_FAULTS};
use crate::run::{FaultSpan, Run, ScenarioResult};

/// The headings: the fault, and its figures.
pub(super) fn heads() -> Vec<&'static str> {
    let figures = OF_FAULTS.iter().map(|figure| figure.head);
    std::iter::once("FAULT").chain(figures).collect()
}

/// The figures of one fault, in order; `None` where no history was judged.
fn cells(scenario: &ScenarioResult, fault: &FaultSpan) -> Option<Vec<String>> {
    fault.recovery?;
    let words = OF_FAULTS.iter().map(|figure| match figure.words(fault) {
        // Not a dash: that there was no grant is known.
        words if words == "–" && figure.name == GRANT_AFTER.name => scenario.unrecovered(),
        words => words,
    });
    Some(words.collect())
}

/// The same as one sentence; empty where no history was judged.
pub(crate) fn words(scenario: &ScenarioResult, fault: &FaultSpan) -> String {
    let cells = cells(scenario, fault).unwrap_or_default();
    let [before, after, window, errors, hangs, knew, herd, stuck] = cells.as_slice() else {
        return String::new();
    };
    format!(
        "last grant {before} before it, first {after} after; in {window}: {errors} errors, {hangs} hangs; holder knew after {knew}; \
         herd {herd}; stuck locks {stuck}"
    )
}

/// A row per fault of every scenario, the fault with its scenario's name where there are several.
pub(super) fn rows(run: &Run) -> Vec<Vec<String>> {
    let several = run.scenarios.len() > 1;
    let rows = run.scenarios.iter().flat_map(|scenario| {
        scenario.faults.iter().filter_map(move |fault| {
            let mut row = vec![printable(&fault.label())];
            if several {
                row[0] = format!("{}\n{}", printable(&scenario.name), row[0]);
            }
            row.extend(
                cells(scenario, fault)?
                    .iter()
                    .map(|cell| cell.replace(' ', "\u{a0}")),
            );
            Some(row)
        })
    });
    rows.collect()
}
