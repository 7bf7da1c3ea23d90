//! Recovery, fault by fault: how soon the lock worked again and what happened until then.

use super::cells::printable;
use crate::run::{FaultSpan, Run};
use crate::units;

/// The columns, in order.
pub(super) const HEADER: [&str; 9] = [
    "FAULT",
    "last grant before",
    "first after",
    "window",
    "errors",
    "hangs",
    "holder knew",
    "herd",
    "stuck",
];

/// The cells of one fault after its name, in the order of [`HEADER`]; `None` where no history was judged.
pub(super) fn cells(fault: &FaultSpan) -> Option<[String; 8]> {
    let row = fault.recovery.as_ref()?;
    let time = |ns: Option<u64>| ns.map_or("–".to_owned(), units::duration);
    let share = |share: Option<f64>| {
        share.map_or("–".to_owned(), |share| {
            format!("{} %", units::figure(100.0 * share))
        })
    };
    Some([
        time(row.last_grant_before_ns),
        fault
            .first_grant_after_ns
            .map_or("never".to_owned(), units::duration),
        units::duration(row.window_ns),
        share(row.error_share),
        share(row.hang_share),
        time(row.holder_knew_ns),
        units::count(row.herd),
        units::count(row.stuck_locks),
    ])
}

/// The same as one sentence; empty where no history was judged.
pub(crate) fn words(fault: &FaultSpan) -> String {
    let Some([before, after, window, errors, hangs, knew, herd, stuck]) = cells(fault) else {
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
            let mut name = printable(&fault.label());
            if several {
                name = format!("{}\n{name}", printable(&scenario.name));
            }
            let cells = cells(fault)?;
            Some(
                std::iter::once(name)
                    .chain(cells.map(|cell| cell.replace(' ', "\u{a0}")))
                    .collect(),
            )
        })
    });
    rows.collect()
}
