//! The table at the end: the rows that ran, each beside the first lock of its topology.

use std::fmt::Write as _;

use results::run::Ratio;

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
    /// To the first lock, measured in turns; `None` of the first itself.
    pub(crate) ratio: Option<Ratio>,
}

/// With the words that say how to read it.
pub(crate) fn table(rows: &[Measured]) -> String {
    let width = rows.iter().map(|row| row.subject.len()).max().unwrap_or(0);
    let mut text =
        format!("{:<width$}  topology  tasks  cycles/s  95 % interval  ratio  95 % interval\n", "subject");
    for row in rows {
        let of = row.cycles_per_s;
        let pace = format!("{:.0}–{:.0}", of.low, of.high);
        let ratio = row.ratio.map_or("1".to_owned(), beside);
        let line = format!(
            "{:<width$}  {:<8}  {:>5}  {:>8.0}  {pace:<13}  {ratio}",
            row.subject, row.topology, row.tasks, of.point
        );
        writeln!(text, "{}", line.trim_end()).expect("a string takes all");
    }
    if rows.iter().any(|row| row.ratio.is_some()) {
        text += "ratio: to the first lock of the topology with as many tasks, which took turns with each sample; not shown: its interval holds 1.\n";
    }
    text
}

/// Judged by the digits that are printed.
fn beside(ratio: Ratio) -> String {
    let rounded = |figure: f64| (figure * 1000.0).round() / 1000.0;
    let (Some(low), Some(high)) = (ratio.low.map(rounded), ratio.high.map(rounded)) else {
        return format!("{:.3}  not shown", ratio.point);
    };
    let shown = if (low..=high).contains(&1.0) { "  not shown" } else { "" };
    format!("{:.3}  {low:.3}–{high:.3}{shown}", ratio.point)
}
