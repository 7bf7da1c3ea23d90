//! The table at the end: the rows that ran, each beside the first lock of the same topology and number of tasks.

use std::fmt::Write as _;

/// A figure with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Interval {
    pub(crate) point: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

/// A row that was measured.
pub(crate) struct Measured {
    pub(crate) subject: &'static str,
    pub(crate) topology: &'static str,
    pub(crate) tasks: u32,
    pub(crate) cycles_per_s: Interval,
    /// What its ratio is to.
    pub(crate) base: &'static str,
}

/// The ratio of two figures that were measured by themselves, with an interval out of theirs: on the logarithms the distances to the
/// bounds add up as squares (the method of variance estimates recovery).
pub(crate) fn ratio(of: Interval, base: Interval) -> Interval {
    let [below, above] = [(of.low, base.high), (of.high, base.low)].map(|(own, other)| {
        let (own, other) = ((own / of.point).ln(), (other / base.point).ln());
        own.hypot(other)
    });
    let point = of.point / base.point;
    Interval {
        point,
        low: point * (-below).exp(),
        high: point * above.exp(),
    }
}

/// With the words that say how to read it.
pub(crate) fn table(rows: &[Measured]) -> String {
    let width = rows.iter().map(|row| row.subject.len()).max().unwrap_or(0);
    let mut text = format!(
        "{:<width$}  topology  tasks  cycles/s  95 % interval  ratio  95 % interval\n",
        "subject"
    );
    for row in rows {
        let of = row.cycles_per_s;
        let pace = format!("{:.0}–{:.0}", of.low, of.high);
        let base = rows.iter().find(|base| {
            (base.subject, base.topology, base.tasks) == (row.base, row.topology, row.tasks)
        });
        let ratio = match base {
            Some(base) if base.subject == row.subject => "1".to_owned(),
            Some(base) => beside(ratio(of, base.cycles_per_s)),
            // It did not run.
            None => String::new(),
        };
        let line = format!(
            "{:<width$}  {:<8}  {:>5}  {:>8.0}  {pace:<13}  {ratio}",
            row.subject, row.topology, row.tasks, of.point
        );
        writeln!(text, "{}", line.trim_end()).expect("a string takes all");
    }
    text + "ratio: of the cycles to those of the row above it that has 1, of the same topology and tasks; not shown: its interval holds 1.\n\
            Rows run one after another, and no interval holds how the machine's pace drifts between two; `locklab bench` takes turns.\n"
}

/// Judged by the digits that are printed.
fn beside(ratio: Interval) -> String {
    let rounded = |figure: f64| (figure * 1000.0).round() / 1000.0;
    let (low, high) = (rounded(ratio.low), rounded(ratio.high));
    let shown = if (low..=high).contains(&1.0) {
        "  not shown"
    } else {
        ""
    };
    format!("{:.3}  {low:.3}–{high:.3}{shown}", ratio.point)
}
